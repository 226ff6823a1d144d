/* The nth call fails, for every n: what the tests of injected faults share.

   A run plays one script (see play()) with two candidates and an observer on a store. While armed, each
   call that can fail asks fault_ask() first; the nth one is refused, in every way that fits it, one way
   per run. n grows until a run makes fewer calls. Runs happen in child processes, so that a crash costs
   one run and is reported with its n.

   What must hold in every run: never two leaders, tokens rise, callbacks are paired, somebody leads again
   soon, no descriptor and no memory is left over; and what the store's own tests add in checked(). */
#ifndef FAULTS_H_INCLUDED
#define FAULTS_H_INCLUDED

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAULTS LEADER_UNUSED_ static

/* ---- what fails -------------------------------------------------------------------------------- */

// lies: carried out, and reported as failed. short: one byte only
enum { FAULT_GO, FAULT_FAILS, FAULT_LIES, FAULT_SHORT };

/* A way to fail, by its name in the report. */
typedef struct fault_way { const char *name; int how, error; } fault_way;
// ways: names of fault_ways, between blanks
typedef struct fault_call { const char *name, *ways; } fault_call;

static const fault_way fault_ways[] = {{"ENOSPC", FAULT_FAILS, ENOSPC},
                                       {"EDQUOT", FAULT_FAILS, EDQUOT},
                                       {"EIO", FAULT_FAILS, EIO},
                                       {"EINTR", FAULT_FAILS, EINTR},
                                       {"EMFILE", FAULT_FAILS, EMFILE},
                                       {"ENFILE", FAULT_FAILS, ENFILE},
                                       {"ENOMEM", FAULT_FAILS, ENOMEM},
                                       {"EROFS", FAULT_FAILS, EROFS},
                                       {"EACCES", FAULT_FAILS, EACCES},
                                       {"EAGAIN", FAULT_FAILS, EAGAIN},
                                       {"ENOBUFS", FAULT_FAILS, ENOBUFS},
                                       {"EINVAL", FAULT_FAILS, EINVAL},
                                       {"ECONNREFUSED", FAULT_FAILS, ECONNREFUSED},
                                       {"ECONNRESET", FAULT_FAILS, ECONNRESET},
                                       {"EPIPE", FAULT_FAILS, EPIPE},
                                       {"ETIMEDOUT", FAULT_FAILS, ETIMEDOUT},
                                       {"ENETUNREACH", FAULT_FAILS, ENETUNREACH},
                                       {"EADDRNOTAVAIL", FAULT_FAILS, EADDRNOTAVAIL},
                                       {"ENOLCK", FAULT_FAILS, ENOLCK},
                                       {"ENOSYS", FAULT_FAILS, ENOSYS},
                                       {"lie", FAULT_LIES, EIO},
                                       {"short", FAULT_SHORT, 0}};
enum { FAULT_WAYS = sizeof fault_ways / sizeof fault_ways[0] };

typedef struct fault_count { char name[64]; long count; } fault_count;
typedef struct fault_board {        // of one child, in memory that its parent sees too
    long n, from;                   // from: where to go on after a crash; -1: from the start
    int  way, ways;
    bool over;
    long runs, bad, calls;
    int64_t worst_gap_ms;
    char call[40], where[240];      // what failed last, and who called it, if the test says so
    char excuse[80];                // why a crash would be somebody else's fault
    fault_count counts[160];
} fault_board;

static __thread bool fault_armed;   // libraries may have threads of their own: those do as they like
static struct {
    long seen, nth;
    int  way, ways;                 // which of how many; ways is known once the call was met
    bool hit;
    const char *call, *name;        // what failed, and how
} fault;

static fault_board *board;

FAULTS void fault_tally(const char *call, const char *way) {
    char name[64];
    size_t i = 0;
    snprintf(name, sizeof name, "%.12s %.50s", call, way);
    while (i < sizeof board->counts / sizeof board->counts[0] - 1 && board->counts[i].name[0]
           && strcmp(board->counts[i].name, name) != 0)
        i++;
    memcpy(board->counts[i].name, name, sizeof name);
    board->counts[i].count++;
}

/* Counts a call that has so many ways to fail; answers which of them is due now, or -1. */
FAULTS int fault_due(const char *call, int ways) {
    if (!fault_armed || ways == 0 || fault.seen++ != fault.nth) return -1;
    fault.hit = true;
    fault.call = call;
    fault.ways = board->ways = ways;
    snprintf(board->call, sizeof board->call, "%s", call);
    return fault.way % ways;  // where a run is not the same every time, another call may have come first
}

/* For calls that fail by errno. */
FAULTS int fault_ask(const fault_call *table, const char *call) {
    if (!fault_armed) return FAULT_GO;
    while (table->name && strcmp(table->name, call) != 0) table++;
    if (!table->name) { fprintf(stderr, "no ways to fail are known for %s\n", call); abort(); }
    int ways = 0, due;
    for (const char *p = table->ways; *p; p += strcspn(p, " "), p += strspn(p, " ")) ways++;
    if ((due = fault_due(call, ways)) < 0) return FAULT_GO;
    const char *p = table->ways;
    for (; due > 0; due--) { p += strcspn(p, " "); p += strspn(p, " "); }
    for (int i = 0; i < FAULT_WAYS; i++) {
        if (strlen(fault_ways[i].name) != strcspn(p, " ")
            || strncmp(fault_ways[i].name, p, strcspn(p, " ")) != 0)
            continue;
        fault.name = fault_ways[i].name;
        fault_tally(call, fault.name);
        errno = fault_ways[i].error;
        return fault_ways[i].how;
    }
    fprintf(stderr, "%s: no such way to fail: %s\n", call, p);
    abort();
}

/* The body of a function that stands in for a system call. */
#define FAULTY(table, type, call, real)                                                                      \
    do {                                                                                                     \
        int how_ = fault_ask(table, #call);                                                                  \
        if (how_ == FAULT_FAILS)                                                                             \
            return (type)-1;                                                                                 \
        type got_ = (real);                                                                                  \
        if (how_ == FAULT_LIES) {                                                                            \
            errno = EIO;                                                                                     \
            return (type)-1;                                                                                 \
        }                                                                                                    \
        return got_;                                                                                         \
    } while (0)

/* Everything that the library does, it does armed; nothing else is. */
#define ARMED(x) do { fault_armed = true; x; fault_armed = false; } while (0)

/* ---- the players ------------------------------------------------------------------------------- */

enum { PLAYER_A, PLAYER_B, WATCHER, PLAYERS, BEATS_MAX = 100000 };

typedef struct player {
    leader_t me;
    leader_config cfg;
    bool     open, frozen;          // frozen: not ticked, as if the process were stopped
    int      started, stopped;
    uint64_t token;                 // of its last term
    int      drains;                // how often player_drained has still to say no
    char     log[2000];
} player;

typedef struct stage {
    player   p[PLAYERS];
    uint64_t highest;               // token of all terms
    int64_t  now_ms, led_ms, worst_gap_ms;
    int64_t  gap_max_ms;            // so long there may be nobody
    bool     expires;               // a lease runs out by the clock that the test turns
    long     beats;
    char     wrong[240];
} stage;

static stage S;

FAULTS void wrong(const char *format, ...) LEADER_PRINTF_(1, 2);
FAULTS void wrong(const char *format, ...) {
    va_list args;
    if (S.wrong[0]) return;
    va_start(args, format);
    vsnprintf(S.wrong, sizeof S.wrong, format, args);
    va_end(args);
}

FAULTS int64_t stage_clock_ms(void *user) { (void)user; return S.now_ms; }
FAULTS bool player_drained(void *user) { return ((player *)user)->drains-- <= 0; }
FAULTS void player_started(void *user, uint64_t token) {
    player *p = (player *)user;
    if (p->started != p->stopped) wrong("a term started inside another");
    if (token <= S.highest)
        wrong("token %llu after %llu", (unsigned long long)token, (unsigned long long)S.highest);
    S.highest = p->token = token;
    p->started++;
}
FAULTS void player_stopped(void *user, uint64_t token, leader_result why) {
    player *p = (player *)user;
    (void)why;
    if (p->started != p->stopped + 1 || token != p->token) wrong("a term stopped that had not started");
    if (leader_is_leader(&p->me)) wrong("leader inside on_stopped_leading");
    p->stopped++;
    p->drains = 2;
}
FAULTS void player_logged(void *user, leader_level level, const char *text) {
    player *p = (player *)user;
    size_t n = strlen(p->log);
    snprintf(p->log + n, sizeof p->log - n, "      %lld %s %c %s\n", (long long)S.now_ms, p->cfg.identity,
             "?EWID"[level], text);
}

/* Each program has these three: a backend for a player; what more must hold; and a way to let time pass
   until somebody is due, who asked for a tick within `wait` ms. */
static leader_backend backend_of(int i);
static void checked(void);
static void let_pass(int wait_ms);

FAULTS int leading(void) {
    int who = -1;
    for (int i = 0; i < PLAYERS; i++) {
        if (!S.p[i].open || !leader_is_leader(&S.p[i].me)) continue;
        if (who >= 0) wrong("TWO LEADERS: %s and %s", S.p[who].cfg.identity, S.p[i].cfg.identity);
        who = i;
    }
    return who;
}

FAULTS void enter_stage(int i) {
    static const char *const who[PLAYERS] = {"a", "b", "watcher"};
    player *p = &S.p[i];
    leader_result result;
    int started = p->started, stopped = p->stopped;
    leader_config c = p->cfg;
    c.identity = who[i];
    c.clock_ms = stage_clock_ms;
    c.observe_only = i == WATCHER;
    c.is_drained = player_drained;
    c.on_started_leading = player_started;
    c.on_stopped_leading = player_stopped;
    c.on_log = player_logged;
    c.user = p;
    c.backend = backend_of(i);
    p->cfg = c;
    p->drains = 0;
    for (int tries = 0; tries < 2; tries++) {
        bool before = fault.hit;
        ARMED(result = leader_init(&p->me, &c));
        p->open = result == LEADER_OK;
        if (p->open) break;
        if (before == fault.hit) wrong("leader_init: %s", leader_error(&p->me));
        if (leader_is_leader(&p->me) || !leader_is_stopped(&p->me) || !leader_error(&p->me)[0])
            wrong("open after a failed leader_init");
    }
    if (started != p->started || stopped != p->stopped) wrong("leader_init called back");
}

FAULTS void exit_stage(int i) {
    player *p = &S.p[i];
    leader_result result;
    if (!p->open) return;
    ARMED(result = leader_close(&p->me, 0));  // after leader_stop and ticks it has nothing left to wait for
    (void)result;
    p->open = false;
    if (leader_is_leader(&p->me)) wrong("leader after leader_close");
    if (p->started != p->stopped) wrong("a term never stopped");
}

/* One tick of everybody, and time. */
FAULTS void beat(void) {
    int wait = 1000, competing = 0;
    for (int i = 0; i < PLAYERS; i++) {
        player *p = &S.p[i];
        int mine = wait;
        if (!p->open || p->frozen) continue;
        ARMED(mine = leader_tick(&p->me));
        if (mine < 1 || mine > LEADER_WAIT_MAX_MS) wrong("leader_tick answered %d", mine);
        if (mine < wait) wait = mine;
        if (i != WATCHER && !leader_is_stopped(&p->me)) competing++;
        leading();
    }
    checked();
    if (++S.beats > BEATS_MAX) wrong("the run does not end");
    if (leading() >= 0 || competing == 0) S.led_ms = S.now_ms;
    if (S.now_ms - S.led_ms > S.worst_gap_ms) S.worst_gap_ms = S.now_ms - S.led_ms;
    if (S.now_ms - S.led_ms > S.gap_max_ms)
        wrong("nobody leads for %lld ms", (long long)(S.now_ms - S.led_ms));
    let_pass(wait);
}

FAULTS void pass(int64_t ms) { for (int64_t end = S.now_ms + ms; S.now_ms < end && !S.wrong[0];) beat(); }

/* Until somebody leads with a token above this one; answers who. */
FAULTS int until_led(uint64_t token) {
    int who;
    while (((who = leading()) < 0 || S.p[who].token <= token) && !S.wrong[0]) beat();
    return who < 0 ? 0 : who;
}
FAULTS void until_stopped(int i) { while (!leader_is_stopped(&S.p[i].me) && !S.wrong[0]) beat(); }

/* A whole life: acquire, renewals, hand-over with a drain, stop, take-over, a new start, a stopped
   process, close. */
FAULTS void play(void) {
    const int64_t renewals = S.p[0].cfg.lease_ms / 2;
    uint64_t term;
    int who;
    for (int i = 0; i < PLAYERS; i++) enter_stage(i);
    until_led(0);
    pass(renewals);
    who = until_led(0);
    term = S.highest;
    leader_resign(&S.p[who].me, S.p[0].cfg.lease_ms / 2);
    until_led(term);                // the other one, unless it was refused when it was its turn
    pass(renewals);
    exit_stage(WATCHER);
    who = until_led(0);
    term = S.highest;
    leader_stop(&S.p[who].me);
    until_stopped(who);
    exit_stage(who);
    until_led(term);
    enter_stage(who);
    pass(renewals);
    if (S.expires) {
        who = until_led(0);
        term = S.highest;
        S.p[who].frozen = true;
        until_led(term);
        S.p[who].frozen = false;
        pass(renewals);
        until_led(0);
    }
    for (int i = PLAYERS; i-- > 0;) {
        leader_stop(&S.p[i].me);
        if (S.p[i].open) until_stopped(i);
        exit_stage(i);
    }
}

/* ---- sweeps ------------------------------------------------------------------------------------ */

FAULTS int open_descriptors(void) {
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

/* Each program has these as well: an empty store and the players' configurations; and one run on it. */
static void prepare(void);
static void run_once(void);

FAULTS void run_nth(long n, int way) {
    memset(&fault, 0, sizeof fault);
    memset(&S, 0, sizeof S);
    fault.nth = n;
    fault.way = way;
    board->n = n;
    board->way = way;
    board->excuse[0] = board->where[0] = 0;
    prepare();
    int before = open_descriptors();
    run_once();
    fault_armed = false;
    if (open_descriptors() != before) wrong("%d descriptors are left open", open_descriptors() - before);
    board->runs++;
    if (S.worst_gap_ms > board->worst_gap_ms) board->worst_gap_ms = S.worst_gap_ms;
    if (!S.wrong[0]) return;
    board->bad++;
    if (board->bad > 5) return;
    printf("   FAULT=%ld.%d (%s, %s%s): %s\n", n, way, fault.call ? fault.call : "none",
           fault.name ? fault.name : "-", board->where, S.wrong);
    for (int i = 0; i < PLAYERS; i++) printf("%s", S.p[i].log);
    fflush(stdout);
}

/* Every n that is `share` modulo `of`, in all ways; the rest is for other children. Runs on a real network
   differ a little in length: the end is where several in a row have fewer calls. */
FAULTS void sweep_share(long share, long of) {
    int misses = 0, way = 0;
    long n = share;
    if (board->from >= 0) { n = board->from; way = board->way + 1; }
    for (; misses < 3; n += of, way = 0) {
        board->ways = way ? board->ways : 1;
        for (; way < board->ways; way++) {
            run_nth(n, way);
            if (fault.seen > board->calls) board->calls = fault.seen;
            misses = fault.hit ? 0 : misses + 1;
            if (misses) break;
        }
    }
    board->over = true;
}

FAULTS pid_t sweep_child(fault_board *mine, long share, long of) {
    pid_t parent = getpid(), pid;
    fflush(stdout);
    pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    board = mine;
    sweep_share(share, of);
    exit(0);                        // not _exit: the sanitizers look for leaks at the end
}

enum { SWEEP_CHILDREN_MAX = 8, SWEEP_CRASHES_MAX = 20 };

/* FAULT=n.way in the environment: that one run, in this process, for a debugger. */
FAULTS long sweep_one(const char *which) {
    static fault_board alone;
    char *end;
    memset(&alone, 0, sizeof alone);
    board = &alone;
    long n = strtol(which, &end, 10);
    run_nth(n, *end ? atoi(end + 1) : 0);
    printf("   %ld calls, %ld beats, %s\n", fault.seen, S.beats, S.wrong[0] ? S.wrong : "nothing wrong");
    for (int i = 0; i < PLAYERS && !S.wrong[0]; i++) printf("%s", S.p[i].log);
    return alone.bad;
}

/* Answers how many runs went wrong; what was done is printed. */
FAULTS long sweep(const char *title, int children) {
    if (getenv("FAULT")) return sweep_one(getenv("FAULT"));
    size_t size = sizeof(fault_board) * (size_t)children;
    fault_board *boards =
        (fault_board *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fault_count total[160];
    pid_t pids[SWEEP_CHILDREN_MAX];
    long runs = 0, bad = 0, calls = 0, crashes = 0;
    int64_t gap_ms = 0;
    if (boards == MAP_FAILED) return 1;
    memset(total, 0, sizeof total);
    for (int i = 0; i < children; i++) {
        boards[i].from = -1;
        pids[i] = sweep_child(&boards[i], i, children);
    }
    for (int i = 0; i < children; i++) {
        int status = 0;
        while (waitpid(pids[i], &status, 0) == pids[i] && status != 0) {
            board = &boards[i];
            if (board->excuse[0]) fault_tally("excused:", board->excuse);
            else
                printf("   FAULT=%ld.%d (%s%s): the process ended with %s %d\n", board->n, board->way,
                       board->call, board->where, WIFSIGNALED(status) ? "signal" : "status",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            if (!board->excuse[0]) crashes++;
            if (board->over || crashes > SWEEP_CRASHES_MAX) break;
            board->from = board->n;
            pids[i] = sweep_child(board, i, children);
        }
        if (!boards[i].over && crashes == 0) crashes = 1;
    }
    for (int i = 0; i < children; i++) {
        runs += boards[i].runs;
        bad += boards[i].bad;
        if (boards[i].calls > calls) calls = boards[i].calls;
        if (boards[i].worst_gap_ms > gap_ms) gap_ms = boards[i].worst_gap_ms;
        for (size_t k = 0; k < 160 && boards[i].counts[k].name[0]; k++) {
            size_t at = 0;
            while (total[at].name[0] && strcmp(total[at].name, boards[i].counts[k].name) != 0) at++;
            memcpy(total[at].name, boards[i].counts[k].name, sizeof total[at].name);
            total[at].count += boards[i].counts[k].count;
        }
    }
    printf("   %s: %ld runs of up to %ld calls that can fail; longest time without a leader %lld ms\n", title,
           runs, calls, (long long)gap_ms);
    for (size_t k = 0; k < 160 && total[k].name[0]; k++)
        printf("%s%s %ld", k % 8 ? ", " : k ? ",\n      " : "      ", total[k].name, total[k].count);
    printf("\n");
    munmap(boards, size);
    return bad + crashes + (runs == 0);
}

#endif
