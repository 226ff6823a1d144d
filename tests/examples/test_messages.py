#!/usr/bin/env python3
"""backends/troubleshooting.md has every message that the library can print, and no message that it cannot.

    tests/examples/test_messages.py [--list]            the last line is "N passed, N failed"; --list: the messages, as the page spells them

A message is a text of two words or more in leader.h or in a backend. What a number or a name is printed into, the page shows as an ellipsis.
"""
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(TOP, "backends", "troubleshooting.md")
SOURCES = [os.path.join(TOP, "leader.h"), *sorted(glob.glob(os.path.join(TOP, "backends", "*.h")))]

TOKEN = re.compile(r"""/\*.*?\*/|//[^\n]*|^[ \t]*\#[ \t]*(?:error|include)[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\])*'""", re.S | re.M)
FORMAT = re.compile(r"%(?:-?\d*|0?\d+)(?:\.(?:\d+|\*))?(?:ll|l|z)?[dusxc]|%\" PRI[a-z]+64 \"")
NO_MESSAGE = re.compile(r"\\n|\{\\|^(?:SELECT |CREATE TABLE|WITH w|LISTEN|UNLISTEN|Accept:|Content-Type:|Authorization:|User-Agent:)")
# Words that servers say and that are looked for, names of things, and parts of messages that the page shows as a whole.
NOT_ALONE = {
    "ERR Error running script", "can't run this command", "invalid auth token", "auth revision", "permission denied", "authentication failed",
    "user name is empty", "is forbidden", "invalid password", "ACL failure", "out of memory", "holding off", "single node", "local socket",
    "became leader", "stopped leading", "(a name of more than … bytes)", "(repeated … times)", "Redis at …", "Redis sentinel …:…",
    "the server wants a password: set password or password_file in leader_redis_config", "(environment: REDIS_PASSWORD)", "url: rediss://",
    "path, which is a unix socket", "database number", "not a number",
}


def literals(path):
    """Every string of the source, adjacent ones as one, with its line."""
    text = open(path).read()
    end, found = -1, []
    for match in TOKEN.finditer(text):
        token = match.group()
        if not token.startswith('"'):
            continue
        if found and end >= 0 and not text[end:match.start()].strip():
            found[-1][1] += token[1:-1]
        else:
            found.append([text.count("\n", 0, match.start()) + 1, token[1:-1]])
        end = match.end()
    return found


def spelled(literal):
    text = FORMAT.sub("…", literal.replace('\\"', '"').replace("%%", "%"))
    return re.sub(r"\s+", " ", text).strip(" :;,")


def messages():
    """message -> where it is"""
    found = {}
    for path in SOURCES:
        for line, literal in literals(path):
            words = re.findall(r"[A-Za-z]{2,}", FORMAT.sub("", literal))
            message = spelled(literal)
            if len(words) >= 2 and " " in message and not NO_MESSAGE.search(literal) and message not in NOT_ALONE:
                found.setdefault(message, f"{os.path.relpath(path, TOP)}:{line}")
    return found


def rows():
    """The first cell of each row of each table, as the list of its code spans, and the other cells."""
    for line in open(PAGE):
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| ") and cells[0] != "message":
            yield [span.strip() for _, span in re.findall(r"(`+)(.+?)\1", cells[0])], cells


def main():
    printed = messages()
    if "--list" in sys.argv:
        for message, where in printed.items():
            print(f"{where}: {message}")
        return 0
    told, wrong = {}, []
    for spans, cells in rows():
        if len(cells) < 2 or not all(cells[:2]):
            wrong.append(f"a row without a cause: {cells}")
        for span in spans:
            told[span] = cells
    # Two parts that the source joins are one message on the page.
    whole = "the server wants a password: set password or password_file in leader_redis_config (environment: REDIS_PASSWORD)"
    printed[whole] = ""
    missing = [f"the page does not explain {message!r} ({where})" for message, where in printed.items() if message not in told]
    stale = [f"the library does not print {message!r}" for message in told if message not in printed and " " in message]
    for line in [*wrong, *missing, *stale]:
        print(f"FAILED: {line}")
    failed = len(wrong) + len(missing) + len(stale)
    print(f"{len(printed) - len(missing)} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
