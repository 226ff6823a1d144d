/* make run: three candidates, one leader, and everything that can happen to it.

   This process is the director. It starts three candidate processes that share a lease in a directory of
   their own, kills the leader, stops the next one for longer than its lease, wakes it up again, asks one
   to resign and one to go home.

   Every candidate asks leader_is_leader() some two thousand times a second and writes each answer, with
   the moment of the question on the boot clock, into a report that outlives it. The director merges the
   reports: a candidate was leader from its first to its last "yes" of a term, and no two such stretches
   may overlap. The times of the take-overs come from the same reports. Exit status: 0 only if every step
   happened and there were never two leaders.

       demo                  a live timeline in a terminal, plain lines elsewhere; build/timeline.svg if
       build/ is there demo --svg FILE       where to write the timeline demo --apart          each
       candidate on a lease of its own: everybody leads, and the check has to say so */
#define LEADER_IMPLEMENTATION
#include "leader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    ROWS = 3,
    LEASE_MS = 2000,
    PAUSE_MS = 900,
    LIMIT_MS = 15000,
    CHANGES_MAX = 256,
    TERMS_MAX = 64,
    STEPS_MAX = 8,
    CELLS = 64
};

typedef struct answer {
    int64_t at_ns;
    uint64_t token;
} answer;  // one question; token 0: "no"

static int64_t now_ns(void) {
    struct timespec t;
#ifdef CLOCK_BOOTTIME
    clock_gettime(CLOCK_BOOTTIME, &t);
#else
    clock_gettime(CLOCK_MONOTONIC, &t);
#endif
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void nap_us(long us) {
    struct timespec t = {0, us * 1000};
    nanosleep(&t, NULL);
}

/* ---- a candidate: a process of its own --------------------------------------------------------- */

static leader_t me;
static void on_term(int sig) {
    (void)sig;
    leader_stop(&me);
}
static void on_resign(int sig) {
    (void)sig;
    leader_resign(&me, PAUSE_MS);
}

/* The moment is read before the question: a yes was true at that moment too. */
static void ask(int report) {
    answer a = {now_ns(), 0};
    if (leader_is_leader(&me)) {
        a.token = leader_token(&me);
    }
    if (write(report, &a, sizeof a) != (ssize_t)sizeof a) {
        _exit(3);
    }
}

static int candidate(const char *name, const char *lease, const char *report_path, pid_t director) {
    leader_file file;
    leader_config cfg = {0};
    cfg.identity = name;
    cfg.lease_ms = LEASE_MS;
    cfg.backend = leader_file_backend(&file, lease);
    int report = open(report_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (report < 0) {
        return perror(report_path), 3;
    }
    if (leader_init(&me, &cfg) != LEADER_OK) {
        return fprintf(stderr, "%s\n", leader_error(&me)), 3;
    }
    signal(SIGINT, SIG_IGN);  // Ctrl-C is the director's: it ends us in order
    signal(SIGTERM, on_term);
    signal(SIGUSR1, on_resign);
    while (!leader_is_stopped(&me) && getppid() == director) {
        ask(report);  // after a stop this comes first, before any tick
        leader_tick(&me);
        ask(report);
        nap_us(400);
    }
    return leader_close(&me, 1000) != LEADER_OK;
}

/* ---- what the director knows ------------------------------------------------------------------- */

typedef enum look { ABSENT, STANDBY, LEADING, STOPPED, DEAD, ENDED } look;

typedef struct row {
    char name[16];
    pid_t pid;  // 0: not running
    int lives, report;
    bool stopped;
    uint64_t token;                // the last answer
    int64_t resumed_ns, first_ns;  // the first question after it was resumed; 0: not asked yet
    bool first_yes;
    int changes;
    struct {
        int64_t at_ns;
        look look;
    } change[CHANGES_MAX];
} row;

typedef struct term {
    int row;
    uint64_t token;
    int64_t from_ns, to_ns;
} term;
typedef struct step {
    char what[80], note[96];
    int64_t at_ns, took_ns;
} step;

static row rows[ROWS];
static term terms[TERMS_MAX];
static int term_count;
static step steps[STEPS_MAX];
static int step_count;
static int64_t start_ns, end_ns, answers, widest_ns;
static char place[64];
static char problem[160];  // the first step that did not happen
static bool apart, live, colour, utf8;
static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig) {
    interrupted = sig;
}

static void fail(const char *what) {
    if (!problem[0]) {
        snprintf(problem, sizeof problem, "%s", what);
    }
}

static void set_look(row *r, look to, int64_t at_ns) {
    if (r->changes > 0 && r->change[r->changes - 1].look == to) {
        return;
    }
    if (r->changes == CHANGES_MAX) {
        return;
    }
    r->change[r->changes].at_ns = at_ns;
    r->change[r->changes++].look = to;
}

static look look_at(const row *r, int64_t at_ns) {
    look l = ABSENT;
    for (int i = 0; i < r->changes && r->change[i].at_ns <= at_ns; i++) {
        l = r->change[i].look;
    }
    return l;
}

/* ---- reading the reports ----------------------------------------------------------------------- */

static void take_answer(int i, const answer *a) {
    row *r = &rows[i];
    answers++;
    if (r->resumed_ns && !r->first_ns && a->at_ns > r->resumed_ns) {
        r->first_ns = a->at_ns;
        r->first_yes = a->token != 0;
    }
    if (a->token) {
        term *t = NULL;  // the term of this row and token, or a new one
        for (int k = 0; k < term_count; k++) {
            if (terms[k].row == i && terms[k].token == a->token) {
                t = &terms[k];
            }
        }
        if (!t && term_count == TERMS_MAX) {
            fail("more terms than the director can keep");
            return;
        }
        if (!t) {
            t = &terms[term_count++];
            t->row = i;
            t->token = a->token;
            t->from_ns = t->to_ns = a->at_ns;
        }
        if (a->at_ns - t->to_ns > widest_ns) {
            widest_ns = a->at_ns - t->to_ns;
        }
        t->to_ns = a->at_ns;
    }
    r->token = a->token;
    if (!r->stopped) {
        set_look(r, a->token ? LEADING : STANDBY, a->at_ns);
    }
}

static void read_report(int i) {
    answer batch[256];
    for (ssize_t got; rows[i].report >= 0 && (got = read(rows[i].report, batch, sizeof batch)) > 0;) {
        ssize_t whole = got / (ssize_t)sizeof batch[0];
        lseek(rows[i].report, whole * (ssize_t)sizeof batch[0] - got, SEEK_CUR);
        for (ssize_t k = 0; k < whole; k++) {
            take_answer(i, &batch[k]);
        }
        if (whole == 0) {
            break;
        }
    }
}

/* ---- showing it -------------------------------------------------------------------------------- */

static double ms_of(int64_t ns) {
    return (double)ns / 1e6;
}

static const struct {
    const char *word, *text, *wide, *ansi, *fill;
} looks[] = {{"not started", " ", " ", "0", "none"},  {"standby", ".", "·", "2", "#b8c4d0"},
             {"leader", "#", "█", "32;1", "#2da44e"}, {"stopped", "=", "▒", "33", "#d4a72c"},
             {"dead", "x", "×", "31", "#cf222e"},     {"ended", "-", "–", "2", "#57606a"}};

static void paint(look l) {
    const char *mark = utf8 ? looks[l].wide : looks[l].text;
    if (colour) {
        printf("\033[%sm%s\033[0m", looks[l].ansi, mark);
    } else {
        fputs(mark, stdout);
    }
}

/* Each cell shows its middle: only two leaders at one moment could show as two in one column. */
static void draw(bool again) {
    int64_t cell = 150000000;
    int64_t passed = now_ns() - start_ns;
    while (passed / cell >= CELLS) {
        cell *= 2;
    }
    if (again) {
        printf("\033[%dA\r", ROWS + 1);
    }
    for (int i = 0; i < ROWS; i++) {
        printf("  %-8s", rows[i].name);
        for (int c = 0; c < CELLS && c * cell + cell / 2 < passed; c++) {
            paint(look_at(&rows[i], start_ns + c * cell + cell / 2));
        }
        printf("\033[K\n");
    }
    printf("  %.1f s   ", ms_of(passed) / 1000);
    for (look l = STANDBY; l <= ENDED; l = (look)(l + 1)) {
        paint(l);
        printf(" %s   ", looks[l].word);
    }
    printf("\033[K\n");
    fflush(stdout);
}

static void say(const char *text) {
    // the text goes where the rows stood, the rows below it
    if (live) {
        printf("\033[%dA\r\033[J", ROWS + 1);
    }
    printf("%6.2f s  %s\n", ms_of(now_ns() - start_ns) / 1000, text);
    if (live) {
        draw(false);
    }
    fflush(stdout);
}

/* ---- time passes ------------------------------------------------------------------------------- */

static void reap(void) {
    int status;
    for (int i = 0; i < ROWS; i++) {
        row *r = &rows[i];
        if (!r->pid || waitpid(r->pid, &status, WNOHANG) != r->pid) {
            continue;
        }
        r->pid = 0;
        read_report(i);
        close(r->report);
        r->report = -1;
        r->token = 0;
        bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        set_look(r, ended ? ENDED : DEAD, now_ns());
        if (WIFEXITED(status) && !ended) {
            fail("a candidate ended with an error");
        }
    }
}

static void pass(void) {
    static int64_t drawn_ns;
    nap_us(2000);
    for (int i = 0; i < ROWS; i++) {
        read_report(i);
    }
    reap();
    if (live && now_ns() - drawn_ns > 60000000) {
        draw(true);
        drawn_ns = now_ns();
    }
}

static void pass_ms(int64_t ms) {
    for (int64_t end = now_ns() + ms * 1000000; now_ns() < end && !interrupted;) {
        pass();
    }
}

static int who_leads(void) {
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].pid && !rows[i].stopped && rows[i].token) {
            return i;
        }
    }
    return -1;
}

/* The term that began first after that moment in another row than `except`, or NULL if none did in time. */
static const term *next_term(int except, int64_t after_ns) {
    for (int64_t end = now_ns() + LIMIT_MS * INT64_C(1000000); now_ns() < end && !interrupted; pass()) {
        const term *first = NULL;
        for (int k = 0; k < term_count; k++) {
            if (terms[k].row != except && terms[k].from_ns > after_ns
                && (!first || terms[k].from_ns < first->from_ns)) {
                first = &terms[k];
            }
        }
        if (first) {
            return first;
        }
    }
    return NULL;
}

static int leader_now(void) {
    for (int64_t end = now_ns() + LIMIT_MS * INT64_C(1000000); now_ns() < end && !interrupted; pass()) {
        if (who_leads() >= 0) {
            return who_leads();
        }
    }
    return -1;
}

/* ---- the play ---------------------------------------------------------------------------------- */

static bool start(int i) {
    row *r = &rows[i];
    char lease[128];
    char report[128];
    pid_t director = getpid();
    snprintf(r->name, sizeof r->name, "node-%c", 'a' + i);
    snprintf(lease, sizeof lease, "%s/%s.lease", place, apart ? r->name : "job");
    snprintf(report, sizeof report, "%s/%s.%d", place, r->name, ++r->lives);
    fflush(stdout);
    r->pid = fork();
    if (r->pid == 0) {
        _exit(candidate(r->name, lease, report, director));
    }
    if (r->pid < 0) {
        r->pid = 0;
        return false;
    }
    r->report = open(report, O_RDONLY | O_CREAT, 0600);
    r->token = 0;
    return r->report >= 0;
}

/* Does something to the leader and measures how long it takes until another one leads. Answers who was
   hit. */
static int hit(int sig, const char *doing, const char *note) {
    int i = leader_now();
    char line[200];
    if (i < 0 || step_count == STEPS_MAX) {
        fail("nobody leads");
        return -1;
    }
    step *s = &steps[step_count++];
    snprintf(s->what, sizeof s->what, "%s %s", rows[i].name, doing);
    snprintf(line, sizeof line, "%s leads with token %llu; %s", rows[i].name,
             (unsigned long long)rows[i].token, doing);
    say(line);
    s->took_ns = -1;
    s->at_ns = now_ns();
    kill(rows[i].pid, sig);
    if (sig == SIGSTOP) {
        rows[i].stopped = true;
        set_look(&rows[i], STOPPED, s->at_ns);
    }
    const term *t = next_term(i, s->at_ns);
    if (!t) {
        fail(interrupted ? "interrupted" : "nobody took over");
        return i;
    }
    s->took_ns = t->from_ns - s->at_ns;
    snprintf(s->note, sizeof s->note, "%s leads%s", rows[t->row].name, note);
    snprintf(line, sizeof line, "    %s leads after %.1f ms", rows[t->row].name, ms_of(s->took_ns));
    say(line);
    return i;
}

static void resume(int i) {
    char line[160];
    row *r = &rows[i];
    r->stopped = false;
    r->resumed_ns = now_ns();
    set_look(r, STANDBY, r->resumed_ns);
    kill(r->pid, SIGCONT);
    for (int64_t end = now_ns() + LIMIT_MS * INT64_C(1000000);
         !r->first_ns && now_ns() < end && !interrupted;) {
        pass();
    }
    if (!r->first_ns) {
        fail("the stopped candidate did not wake up");
        return;
    }
    if (r->first_yes) {
        fail("a candidate that was stopped past its lease was told that it leads");
    }
    snprintf(line, sizeof line, "%s goes on: asked %.1f ms later, it is told \"%s\"", r->name,
             ms_of(r->first_ns - r->resumed_ns), r->first_yes ? "LEADER" : "not leader");
    say(line);
}

static void play(void) {
    char line[160];
    for (int i = 0; i < ROWS; i++) {
        if (!start(i)) {
            fail("cannot start a candidate");
            return;
        }
    }
    step *s = &steps[step_count++];
    snprintf(s->what, sizeof s->what, "three candidates start");
    s->at_ns = start_ns;
    s->took_ns = -1;
    const term *t = next_term(-1, 0);
    if (!t) {
        fail("nobody leads");
        return;
    }
    s->took_ns = t->from_ns - start_ns;
    snprintf(s->note, sizeof s->note, "%s leads", rows[t->row].name);
    snprintf(line, sizeof line, "three candidates, lease %d ms: %s leads after %.1f ms", LEASE_MS,
             rows[t->row].name, ms_of(s->took_ns));
    say(line);
    pass_ms(PAUSE_MS);
    if (apart) {
        return;
    }

    int killed = hit(SIGKILL, "is killed (SIGKILL)", "");
    if (problem[0]) {
        return;
    }
    pass_ms(PAUSE_MS);
    snprintf(line, sizeof line, "%s is started again", rows[killed].name);
    say(line);
    if (!start(killed)) {
        fail("cannot start a candidate");
        return;
    }
    pass_ms(PAUSE_MS);

    int stopped = hit(SIGSTOP, "is stopped (SIGSTOP)", ", when the lease had run out");
    if (problem[0]) {
        return;
    }
    pass_ms(PAUSE_MS);
    resume(stopped);
    if (problem[0]) {
        return;
    }
    pass_ms(PAUSE_MS);

    hit(SIGUSR1, "resigns (leader_resign)", "");
    if (problem[0]) {
        return;
    }
    pass_ms(2 * PAUSE_MS);
    hit(SIGTERM, "goes home (SIGTERM, leader_stop)", "");
    pass_ms(PAUSE_MS);
}

/* ---- the end ----------------------------------------------------------------------------------- */

static void end_all(void) {
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].pid) {
            kill(rows[i].pid, SIGTERM);
            kill(rows[i].pid, SIGCONT);
        }
    }
    int64_t end = now_ns() + 3000 * INT64_C(1000000);
    for (bool any = true; any && now_ns() < end; pass()) {
        any = false;
        for (int i = 0; i < ROWS; i++) {
            any = any || rows[i].pid;
        }
    }
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].pid) {
            kill(rows[i].pid, SIGKILL);
            waitpid(rows[i].pid, NULL, 0);
            rows[i].pid = 0;
        }
    }
}

static void remove_tree(const char *path) {
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char inner[512];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        snprintf(inner, sizeof inner, "%.200s/%.255s", path, e->d_name);
        if (unlink(inner) != 0) {
            remove_tree(inner);
        }
    }
    if (d) {
        closedir(d);
    }
    rmdir(path);
}

static int by_start(const void *a, const void *b) {
    int64_t x = ((const term *)a)->from_ns;
    int64_t y = ((const term *)b)->from_ns;
    return x < y ? -1 : x > y;
}

/* From the reports alone: for how long the next leader led before the last one was done. Negative: the
   shortest time in which nobody led between two terms. */
static int64_t longest_overlap(bool *tokens_rise) {
    int64_t worst = INT64_MIN;
    int64_t done_ns = INT64_MIN;
    *tokens_rise = true;
    qsort(terms, (size_t)term_count, sizeof terms[0], by_start);
    for (int k = 0; k < term_count; k++) {
        int64_t shared_until_ns = terms[k].to_ns < done_ns ? terms[k].to_ns : done_ns;
        if (k > 0 && shared_until_ns - terms[k].from_ns > worst) {
            worst = shared_until_ns - terms[k].from_ns;
        }
        if (k > 0 && terms[k].token <= terms[k - 1].token) {
            *tokens_rise = false;
        }
        if (terms[k].to_ns > done_ns) {
            done_ns = terms[k].to_ns;
        }
    }
    return worst;
}

static int verdict(void) {
    bool tokens_rise;
    int64_t overlap = longest_overlap(&tokens_rise);
    printf("\n");
    for (int k = 0; k < step_count; k++) {
        if (steps[k].took_ns < 0) {
            printf("  %-40s  did not end\n", steps[k].what);
        } else {
            printf("  %-40s %9.1f ms  %s\n", steps[k].what, ms_of(steps[k].took_ns), steps[k].note);
        }
    }
    printf("\n  %lld answers in %d terms; while leading never more than %.1f ms from one to the next\n",
           (long long)answers, term_count, ms_of(widest_ns));
    if (overlap >= 0) {
        printf("  TWO LEADERS AT ONCE for %.3f ms\n", ms_of(overlap));
    } else if (term_count > 1) {
        printf("  never two leaders: at least %.2f ms between the last yes of one and the first yes of the "
               "next\n",
               ms_of(-overlap));
    }
    printf("  every term's token is above the one before: %s\n", tokens_rise ? "yes" : "NO");
    if (problem[0]) {
        printf("  NOT DONE: %s\n", problem);
    }
    return overlap >= 0 || !tokens_rise || problem[0] ? 1 : 0;
}

static void write_svg(const char *path) {
    const double left = 80;
    const double width = 760;
    const double top = 74;
    const double high = 26;
    double scale = width / (double)(end_ns - start_ns);
    FILE *f = fopen(path, "w");
    if (!f) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return;
    }
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 236\" font-family=\"sans-serif\" "
               "font-size=\"12\">\n"
               "<rect width=\"900\" height=\"236\" rx=\"8\" fill=\"#ffffff\"/>\n");
    for (int i = 0; i < ROWS; i++) {
        double y = top + i * (high + 8);
        fprintf(f, "<text x=\"12\" y=\"%.0f\" fill=\"#24292f\">%s</text>\n", y + high * 0.65, rows[i].name);
        for (int c = 0; c < rows[i].changes; c++) {
            int64_t from = rows[i].change[c].at_ns;
            int64_t to = c + 1 < rows[i].changes ? rows[i].change[c + 1].at_ns : end_ns;
            if (from >= end_ns) {
                break;
            }
            if (to > end_ns) {
                to = end_ns;
            }
            look l = rows[i].change[c].look;
            double thin = l == LEADING ? 0 : l >= DEAD ? 11 : 8;
            fprintf(f, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n",
                    left + (double)(from - start_ns) * scale, y + thin, (double)(to - from) * scale,
                    high - 2 * thin, looks[l].fill);
        }
    }
    for (int k = 1; k < step_count; k++) {
        double x = left + (double)(steps[k].at_ns - start_ns) * scale;
        static const char *const names[] = {"", "SIGKILL", "SIGSTOP", "resign", "SIGTERM"};
        fprintf(f,
                "<path d=\"M%.2f 60V178\" stroke=\"#57606a\" stroke-dasharray=\"3 3\"/>\n<text x=\"%.2f\" "
                "y=\"38\" fill=\"#24292f\">%s</text>\n"
                "<text x=\"%.2f\" y=\"54\" fill=\"#57606a\">next after %.1f ms</text>\n",
                x, x - 4, names[k < 5 ? k : 0], x - 4, ms_of(steps[k].took_ns));
    }
    fprintf(f,
            "<text x=\"12\" y=\"18\" fill=\"#24292f\" font-weight=\"bold\">three candidates, lease %d "
            "ms</text>\n",
            LEASE_MS);
    for (int s = 0; (double)s * 1e9 * scale <= width; s++) {
        fprintf(f, "<text x=\"%.2f\" y=\"194\" fill=\"#57606a\">%d s</text>\n",
                left + (double)s * 1e9 * scale, s);
    }
    for (int l = STANDBY; l <= ENDED; l++) {
        fprintf(f,
                "<rect x=\"%d\" y=\"209\" width=\"14\" height=\"14\" fill=\"%s\"/><text x=\"%d\" y=\"220\" "
                "fill=\"#24292f\">%s</text>\n",
                80 + (l - 1) * 110, looks[l].fill, 100 + (l - 1) * 110, looks[l].word);
    }
    fprintf(f, "</svg>\n");
    if (fclose(f) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    } else {
        printf("  timeline: %s\n", path);
    }
}

int main(int argc, char **argv) {
    struct stat st;
    const char *svg = stat("build", &st) == 0 && S_ISDIR(st.st_mode) ? "build/timeline.svg" : NULL;
    const char *tmp = getenv("TMPDIR");
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--apart") == 0) {
            apart = true;
        } else if (strcmp(argv[i], "--svg") == 0 && i + 1 < argc) {
            svg = argv[++i];
        } else {
            return fprintf(stderr, "usage: %s [--svg FILE] [--apart]\n", argv[0]), 2;
        }
    }
    setlocale(LC_ALL, "");
    utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    live = isatty(STDOUT_FILENO) && getenv("TERM") && strcmp(getenv("TERM"), "dumb") != 0;
    colour = live && !getenv("NO_COLOR");
    setlocale(LC_ALL, "C");
    snprintf(place, sizeof place, "%.40s/leader-demo-XXXXXX",
             tmp && tmp[0] && strlen(tmp) <= 40 ? tmp : "/tmp");
    if (!mkdtemp(place)) {
        return perror(place), 1;
    }
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    signal(SIGHUP, on_interrupt);
    for (int i = 0; i < ROWS; i++) {
        rows[i].report = -1;
    }
    start_ns = now_ns();
    for (int i = 0; live && i < ROWS + 1; i++) {
        printf("\n");
    }
    play();
    if (interrupted) {
        fail("interrupted");
    }
    if (live) {
        draw(true);
    }
    live = false;
    end_ns = now_ns();
    end_all();
    int status = verdict();
    if (svg && !problem[0]) {
        write_svg(svg);
    }
    remove_tree(place);
    return status;
}
