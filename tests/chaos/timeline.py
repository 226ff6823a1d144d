"""Draws a run, or a part of it, as SVG: a row for each node, bars for its leadership, marks for what was done to it."""
from xml.sax.saxutils import escape

STRIP_S = 30                        # a longer picture is cut into strips of about that length
WIDTH, LEFT, ROW, TOP = 1400, 90, 30, 46
COLOURS = ["#3b78c3", "#d97b29", "#3f9a57", "#8b5fb0", "#b5485d", "#7a6a53", "#2f9aa0", "#a79b2f", "#6b7785"]
MARKS = {"kill": "✕", "resign": "▽", "close": "□", "wall": "◷", "died": "☠", "hung": "☠"}
LEGEND = " · ".join(["bar: read true, with its token", "line: process alive", "hatched: stopped", "✕ killed", "▽ resigns", "□ closes",
                     "◷ its wall clock is moved", "red: the violation"])
STYLE = """.grid{stroke:#ddd} .axis{fill:#777;font-size:11px} .in{fill:#fff;font-size:11px} .mark{font-size:13px;fill:#111} .life{fill:#999}
.store{fill:#555} .beside{font-size:11px;fill:#333;stroke:#fff;stroke-width:3;paint-order:stroke} .wrong{fill:#e33;fill-opacity:.3}
.accused{fill:none;stroke:#d22;stroke-width:2}"""
STOPPED = """<pattern id="stopped" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<path d="M0 0V6" stroke="#333" stroke-opacity=".6" stroke-width="2"/></pattern>"""


def label_of(token, tokens):
    """A token is long, and mostly the same as the others."""
    text, low, high = str(token), str(min(tokens)), str(max(tokens))
    same = next((i for i in range(len(text)) if len(low) != len(high) or low[i] != high[i]), len(text) - 1)
    return text if same < 3 else "…" + text[same:]


def lives_of(run):
    """When each process was alive: node, begin, end."""
    born = {}
    for e in run.events:
        if e.what == "start":
            born[e.node] = e.at_us
        elif e.what in ("kill", "died") and e.node in born:
            yield e.node, born.pop(e.node), e.at_us
        elif e.what == "close" and e.node in born:
            life = [life for life in run.lives.values() if life.node == e.node and life.closed and life.stamps[-1] >= e.at_us]
            yield e.node, born.pop(e.node), min((life.stamps[-1] for life in life), default=e.at_us)
    for node, at_us in born.items():
        yield node, at_us, run.events[-1].at_us


def pairs_of(run, begins, ends):
    """What has a beginning and an end: key, begin, end."""
    going_on = {}
    for e in run.events:
        key = e.detail if e.node is None else e.node
        if e.what in begins:
            going_on.setdefault(key, e.at_us)
        elif e.what in ends and key in going_on:
            yield key, going_on.pop(key), e.at_us
    for key, at_us in going_on.items():
        yield key, at_us, run.events[-1].at_us


class Strip:
    def __init__(self, run, begin, end, top, seconds):
        self.run, self.begin, self.end, self.top = run, begin, end, top
        self.scale = (WIDTH - LEFT - 20) / (seconds * 1e6)
        self.bottom = top + ROW * (run.nodes + 1)
        self.out = []

    def x(self, at_us):
        return LEFT + (min(max(at_us, self.begin), self.end) - self.begin) * self.scale

    def y(self, node):
        return self.top + ROW * ((-1 if node is None else node) + 1)

    def seen(self, begin, end):
        return begin <= self.end and end >= self.begin

    def box(self, begin, end, y, height, style, title, text=""):
        if not self.seen(begin, end):
            return
        x, width = self.x(begin), max(1.0, self.x(end) - self.x(begin))
        self.out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" {style}><title>{escape(title)}</title></rect>')
        if text and width > 7.5 * len(text):
            self.out.append(f'<text x="{x + width / 2:.1f}" y="{y + height / 2 + 4:.1f}" text-anchor="middle" class="in">{escape(text)}</text>')

    def word(self, x, y, text, attributes=""):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(text)}</text>')

    def frame(self):
        step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5) if s * 1e6 * self.scale >= 45)
        zero, tick = self.run.begin, 0
        first = -(-(self.begin - zero) // int(step * 1e6))
        while (at := zero + int((first + tick) * step * 1e6)) <= self.end:
            self.out.append(f'<path d="M{self.x(at):.1f} {self.top}V{self.bottom}" class="grid"/>')
            self.word(self.x(at), self.bottom + 14, f"{(at - zero) / 1e6:g} s", 'text-anchor="middle" class="axis"')
            tick += 1
        self.word(8, self.y(None) + 19, "the store")
        for node in range(self.run.nodes):
            self.word(8, self.y(node) + 19, f"node {node}")

    def draw(self, violation):
        run, tokens = self.run, [t.token for t in self.run.terms] or [0]
        self.frame()
        if violation:
            begin, end = violation.begin, max(violation.end, violation.begin + 3 / self.scale)
            self.box(begin, end, self.top, self.bottom - self.top, 'class="wrong"', violation.text)
        faults = list(pairs_of(run, ("begin",), ("end",)))
        for name, begin, end in faults:
            self.box(begin, end, self.y(None) + 7, ROW - 14, 'class="store"', name, name)
        free = 0
        for name, begin, end in sorted(faults, key=lambda f: f[2]):     # names that did not fit stand beside, where there is room
            if self.begin <= begin <= self.end and (end - begin) * self.scale <= 7.5 * len(name) and self.x(end) >= free:
                self.word(self.x(end) + 3, self.y(None) + 19, name, 'class="beside"')
                free = self.x(end) + 6 * len(name)
        for node, begin, end in lives_of(run):
            self.box(begin, end, self.y(node) + ROW / 2 - 1, 2, 'class="life"', "alive")
        for term in run.terms:
            node = run.lives[term.life].node
            title = f"node {term.life}, token {term.token}, {(term.begin - run.begin) / 1e6:.3f} s to {(term.end - run.begin) / 1e6:.3f} s"
            colour = f'fill="{COLOURS[node % len(COLOURS)]}"'
            self.box(term.begin, max(term.end, term.begin), self.y(node) + 5, ROW - 10, colour, title, label_of(term.token, tokens))
        for node, begin, end in pairs_of(run, ("stop",), ("cont", "kill", "start", "died", "hung")):
            self.box(begin, end, self.y(node) + 2, ROW - 4, 'fill="url(#stopped)"', "stopped")
        for e in run.events:
            if e.what in MARKS and self.begin <= e.at_us <= self.end:
                self.word(self.x(e.at_us), self.y(e.node) + 19, MARKS[e.what], 'text-anchor="middle" class="mark"')
        if violation:
            for life in violation.lives:
                self.out.append(f'<rect x="2" y="{self.y(int(life.split(".")[0])) + 3}" width="{LEFT - 12}" height="{ROW - 6}" class="accused"/>')
        return "\n".join(self.out)


def draw(run, path, title, begin, end, violation=None):
    begin, end = max(begin, run.begin), max(min(end, run.events[-1].at_us), begin + 100000)
    seconds = (end - begin) / 1e6 / max(1, round((end - begin) / 1e6 / STRIP_S))
    height, strips, top = ROW * (run.nodes + 1) + 34, [], TOP
    at = begin
    while at < end:
        strips.append(Strip(run, at, min(end, at + int(seconds * 1e6)), top, seconds).draw(violation))
        at, top = at + int(seconds * 1e6) + 2, top + height
    size = f'width="{WIDTH}" height="{top + 24}" viewBox="0 0 {WIDTH} {top + 24}"'
    with open(path, "w") as f:
        f.write("\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
            f'<style>{STYLE}</style>', f'<defs>{STOPPED}</defs>', '<rect width="100%" height="100%" fill="#fff"/>',
            f'<text x="8" y="24" font-size="15">{escape(title)}</text>', *strips,
            f'<text x="8" y="{top + 10}" class="axis">{escape(LEGEND)}</text>', '</svg>', '']))
