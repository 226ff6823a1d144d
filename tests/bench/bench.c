/* make bench: what leader.h costs, next to the least that the same thing could cost on this machine in
   this run. bench.h says how to read the table. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/bench/bench.h"

#include <dirent.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#if defined(__linux__)
#  include <sys/prctl.h>
#endif

static char place[256];                         // a directory of our own on the file system under measurement

static void die(const char *what) {
    fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void remove_files(const char *dir) {
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char inner[640];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(inner, sizeof inner, "%.300s/%.300s", dir, e->d_name);
        if (unlink(inner) != 0) remove_files(inner);
    }
    if (d) closedir(d);
    rmdir(dir);
}

static void make_place(const char *under) {
    snprintf(place, sizeof place, "%s/leader-bench-XXXXXX", under);
    if (!mkdtemp(place)) die(place);
}

static const char *path_of(const char *name) {
    static char path[320];
    snprintf(path, sizeof path, "%s/%s", place, name);
    return path;
}

static int64_t fake_ms = 1000000;
static int64_t fake_clock(void *user) { (void)user; return fake_ms; }

static void open_election(leader_t *l, leader_file *file, const char *name, int64_t lease_ms, bool fake) {
    leader_config cfg = {0};
    cfg.identity = "bench";
    cfg.lease_ms = lease_ms;
    cfg.backend  = file ? leader_file_backend(file, path_of(name)) : leader_single_backend();
    if (fake) cfg.clock_ms = fake_clock;
    if (leader_init(l, &cfg) != LEADER_OK || leader_tick(l) < 1 || !leader_is_leader(l)) {
        fprintf(stderr, "bench: no leadership: %s\n", leader_error(l));
        exit(1);
    }
}

/* ---- the questions and the ticks --------------------------------------------------------------- */

/* Called through pointers that the compiler cannot see through: as from another file of a program. */
static bool (*volatile ask)(const leader_t *) = leader_is_leader;
static int  (*volatile tick)(leader_t *) = leader_tick;
static int  (*volatile read_clock)(clockid_t, struct timespec *) = clock_gettime;
static volatile int64_t sink;
enum { BATCH = 4000 };                          // short enough to fit between two interruptions

static double time_clock(int n) {
    struct timespec t = {0, 0};
    int64_t sum = 0;
    double start = bench_cpu();
    for (int i = 0; i < n; i++) { read_clock(CLOCK_BOOTTIME, &t); sum += t.tv_nsec; }
    double took = bench_cpu() - start;
    sink = sum;
    return took / n * 1e9;
}

static double time_ask(const leader_t *l, int n) {
    int64_t sum = 0;
    double start = bench_cpu();
    for (int i = 0; i < n; i++) sum += ask(l);
    double took = bench_cpu() - start;
    sink = sum;
    return took / n * 1e9;
}

static double time_tick(leader_t *l, int n) {
    double start = bench_cpu();
    for (int i = 0; i < n; i++) tick(l);
    return (bench_cpu() - start) / n * 1e9;
}

static void bench_questions(void) {
    static leader_t single, on_file;
    static leader_file file;
    bench_series clock_ns = {0, {0}}, clock2 = clock_ns, clock3 = clock_ns, ask_ns = clock_ns,
                 tick_ns = clock_ns, file_ns = clock_ns;
    open_election(&single, NULL, NULL, 0, false);
    open_election(&on_file, &file, "tick", 0, false);
    for (int i = 0, rounds = bench_rounds(400); i < rounds; i++) {
        bench_progress("questions and ticks", i, rounds);
        leader_tick(&on_file);                  // a renewal that is due has its own line below
        bench_add(&clock_ns, time_clock(BATCH));
        bench_add(&ask_ns, time_ask(&on_file, BATCH));
        bench_add(&clock2, time_clock(BATCH));
        bench_add(&tick_ns, time_tick(&single, BATCH));
        bench_add(&clock3, time_clock(BATCH));
        bench_add(&file_ns, time_tick(&on_file, BATCH));
    }
    bench_row asks = {"leader_is_leader()", "ns", &ask_ns, "one read of the boot clock", &clock_ns, false,
                      BENCH_AT_MOST,        1.3};
    bench_row ticks = {"leader_tick(), leader, idle, single node",
                       "ns",
                       &tick_ns,
                       "one read of the boot clock",
                       &clock2,
                       false,
                       BENCH_AT_MOST,
                       3};
    bench_row files = {"leader_tick(), leader, idle, file",
                       "ns",
                       &file_ns,
                       "one read of the boot clock",
                       &clock3,
                       false,
                       BENCH_AT_MOST,
                       3};
    bench_print(asks);
    bench_print(ticks);
    bench_print(files);
    leader_close(&single, 1000);
    leader_close(&on_file, 1000);
}

/* ---- file renewals ----------------------------------------------------------------------------- */

/* What a renewal has to do and nothing else: the record renamed, the readable copy replaced. The directories
   stay open. */
static void bare_write(int dir, const char *name, const char *text, size_t len) {
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len || close(fd) != 0) die(name);
}

static void bare_renewal(int dir, int records, uint64_t number, const char *text, size_t len,
                         const char *copy) {
    char name[32];
    char old[32];
    snprintf(name, sizeof name, "%llu", (unsigned long long)number + 1);
    snprintf(old, sizeof old, "%llu", (unsigned long long)number);
    if (renameat(records, old, records, name) != 0) die("rename");
    bare_write(dir, "copy.0123456789abcdef", text, len);
    if (renameat(dir, "copy.0123456789abcdef", AT_FDCWD, copy) != 0) die("rename");
}

/* `seconds` is the processor's time where nothing waits for a disk. */
static void bench_renewals(const char *label, const char *under, double (*seconds)(void), int full) {
    enum { RENEWALS = 10 };
    static leader_t l;
    static leader_file file;
    static char text[8192], row_name[64], copy[320];
    bench_series ours = {0, {0}}, bare = ours;
    uint64_t number = 1794800000000u;
    make_place(under);
    open_election(&l, &file, "renew", 0, true);
    leader_tick(&l);                // the copy is written one tick later
    int fd = open(path_of("renew"), O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (len <= 0) die("the lease cannot be read");
    close(fd);
    char dir_path[320];
    snprintf(dir_path, sizeof dir_path, "%s", path_of("bare.d"));
    snprintf(copy, sizeof copy, "%s", path_of("bare"));
    int dir = mkdir(dir_path, 0700) == 0 ? open(dir_path, O_RDONLY | O_DIRECTORY) : -1;
    if (dir < 0) die(dir_path);
    int records = mkdirat(dir, "record", 0700) == 0 ? openat(dir, "record", O_RDONLY | O_DIRECTORY) : -1;
    if (records < 0) die("record");
    bare_write(records, "1794800000000", "", 0);
    for (int i = 0, rounds = bench_rounds(full); i < rounds; i++) {
        bench_progress("renewals", i, rounds);
        double start = seconds();
        for (int k = 0; k < RENEWALS; k++, number++)
            bare_renewal(dir, records, number, text, (size_t)len, copy);
        bench_add(&bare, RENEWALS / (seconds() - start));
        uint64_t before = leader_get_stats(&l).renewals;
        start = seconds();
        for (int k = 0; k < RENEWALS; k++) { fake_ms += 5000; leader_tick(&l); }
        bench_add(&ours, RENEWALS / (seconds() - start));
        if (leader_get_stats(&l).renewals != before + (uint64_t)RENEWALS) die("a renewal did not happen");
    }
    snprintf(row_name, sizeof row_name, "renewal, file %s", label);
    bench_row row = {row_name, "/s",  &ours,          "bare system calls of the write",
                     &bare,    false, BENCH_AT_LEAST, 0.6};
    bench_print(row);
    leader_close(&l, 1000);
    close(records);
    close(dir);
    remove_files(place);
}

/* ---- take-overs between processes -------------------------------------------------------------- */

/* A term begins with a record that survives a power cut: a file and its directory, both synced, is the
   least. */
static void bare_term(int dir) {
    int fd = openat(dir, "draft", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, place, sizeof place) < 0 || fsync(fd) != 0 || close(fd) != 0
        || linkat(dir, "draft", dir, "1", 0) != 0 || unlinkat(dir, "draft", 0) != 0 || fsync(dir) != 0)
        die("a bare term");
}

static int bare_directory(const char *name) {
    char path[320];
    snprintf(path, sizeof path, "%s", path_of(name));
    int dir = mkdir(path, 0700) == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir < 0) die(path);
    return dir;
}

/* The other processes run this program afresh (--play PART PLACE) instead of being forks of it: as in life,
   none copies a page when it first writes to it. Each says when it is ready, and when it leads. */
enum { TOLD = 3 };
typedef struct word { double at; pid_t who; } word;

static void tell(void) {
    word now = {bench_now(), getpid()};
    if (write(TOLD, &now, sizeof now) != sizeof now) _exit(1);
}

static leader_t own;
static void on_term(int sig) { (void)sig; leader_stop(&own); }

/* A candidate, until it is killed or told to go. */
static void play_candidate(bool stands_by) {
    static leader_file file;
    static char name[64];
    leader_config cfg = {0};
    cfg.identity = leader_make_identity(name, sizeof name, "bench");
    cfg.backend  = leader_file_backend(&file, path_of("job.lease"));
    if (leader_init(&own, &cfg) != LEADER_OK) _exit(1);
    signal(SIGTERM, on_term);
    leader_tick(&own);
    if (stands_by) tell();
    for (bool led = false; !leader_is_stopped(&own);) {
        bool leads = leader_is_leader(&own);
        if (leads && !led) tell();
        led = leads;
        leader_sleep(&own, 1000);
        leader_tick(&own);
    }
    leader_close(&own, 1000);
}

/* The least: a process that holds a lock and nothing else, and one that sleeps until the kernel hands it
   over and then writes its term down. */
static int open_lock(void) {
    int fd = open(path_of("lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) die("lock");
    return fd;
}

static void play_lock(bool waits) {
    char term[32];
    int fd = open_lock();
    snprintf(term, sizeof term, "term-%ld", (long)getpid());
    int dir = waits ? bare_directory(term) : -1;
    if (waits) tell();
    if (flock(fd, LOCK_EX) != 0) _exit(1);
    if (waits) bare_term(dir);
    tell();
    for (;;) pause();
}

static void play_thousand(void);
static void play(const char *part) {
    if (strcmp(part, "lead") == 0) play_candidate(false);
    if (strcmp(part, "stand by") == 0) play_candidate(true);
    if (strcmp(part, "stand by on all") == 0) play_thousand();
    if (strcmp(part, "hold") == 0) play_lock(false);
    if (strcmp(part, "wait") == 0) play_lock(true);
}

static word hear(int heard) {
    word said;
    if (read(heard, &said, sizeof said) != sizeof said) die("the other process");
    return said;
}

extern char **environ;
static const char *self;                        // how this program was called

static pid_t start_telling(const char *part, int told) {
    char *args[] = {(char *)"bench", (char *)"--play", (char *)part, place, NULL};
    posix_spawn_file_actions_t files;
    pid_t pid = -1;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, told, TOLD);
    int e = posix_spawnp(&pid, self, &files, NULL, args, environ);
    posix_spawn_file_actions_destroy(&files);
    errno = e;
    if (e != 0) die("the other process");
    return pid;
}

static void make_pipe(int ends[2]) {
    if (pipe(ends) != 0) die("pipe");
    for (int i = 0; i < 2; i++) {           // above TOLD, and for nobody who is not given it
        int high = fcntl(ends[i], F_DUPFD_CLOEXEC, TOLD + 1);
        close(ends[i]);
        ends[i] = high;
    }
}

static pid_t start(const char *part) {
    int told[2];
    make_pipe(told);
    pid_t pid = start_telling(part, told[1]);
    close(told[1]);
    hear(told[0]);
    close(told[0]);
    return pid;
}

enum { QUIET_MS = 30 };                         // both processes have been asleep for a while

static double time_takeover(int sig) {
    static leader_t me;
    static leader_file file;
    leader_config cfg = {0};
    pid_t pid = start("lead");
    cfg.identity = "standby";
    cfg.backend  = leader_file_backend(&file, path_of("job.lease"));
    if (leader_init(&me, &cfg) != LEADER_OK) die(leader_error(&me));
    for (double end = bench_now() + QUIET_MS / 1e3; bench_now() < end;) {
        leader_tick(&me);
        leader_sleep(&me, 5);
    }
    double hit = bench_now();
    kill(pid, sig);
    if (leader_wait(&me, 30000) != LEADER_OK) die("nobody took over");
    double took = bench_now() - hit;
    waitpid(pid, NULL, 0);
    leader_close(&me, 1000);
    return took * 1e3;
}

static double time_lock(int sig, const char *name) {
    pid_t pid = start("hold");
    int fd = open_lock(), dir = bare_directory(name);
    for (double end = bench_now() + QUIET_MS / 1e3; bench_now() < end;) leader_sleep(&own, 5);
    double hit = bench_now();
    kill(pid, sig);
    if (flock(fd, LOCK_EX) != 0) die("lock");
    bare_term(dir);
    double took = bench_now() - hit;
    waitpid(pid, NULL, 0);
    close(dir);
    close(fd);
    return took * 1e3;
}

static void bench_takeovers(const char *label, const char *under) {
    static char crash_name[64], term_name[64];
    bench_series crash = {0, {0}}, crash_lock = crash, term = crash, term_lock = crash;
    make_place(under);
    for (int i = 0, rounds = bench_rounds(31); i < rounds; i++) {
        char killed[32], gone[32];
        snprintf(killed, sizeof killed, "killed-%d", i);
        snprintf(gone, sizeof gone, "gone-%d", i);
        bench_progress("take-overs", i, rounds);
        bench_add(&crash_lock, time_lock(SIGKILL, killed));
        bench_add(&crash, time_takeover(SIGKILL));
        bench_add(&term_lock, time_lock(SIGTERM, gone));
        bench_add(&term, time_takeover(SIGTERM));
    }
    snprintf(crash_name, sizeof crash_name, "crash take-over, file %s, lease 15 s", label);
    snprintf(term_name, sizeof term_name, "graceful hand-over, file %s, lease 15 s", label);
    bench_row crashes = {crash_name,  "ms",  &crash,        "kernel's lock, one synced write",
                         &crash_lock, false, BENCH_AT_MOST, 2};
    bench_row terms = {term_name,  "ms",  &term,         "kernel's lock, one synced write",
                       &term_lock, false, BENCH_AT_MOST, 2};
    bench_print(crashes);
    bench_print(terms);
    remove_files(place);
}

/* ---- a crowd ----------------------------------------------------------------------------------- */

enum { MEMBERS_MAX = 300 };
typedef struct crowd {
    pid_t pids[MEMBERS_MAX];
    int   count, told[2];
} crowd;

static void join_crowd(crowd *c, const char *part) {
    c->pids[c->count++] = start_telling(part, c->told[1]);
    hear(c->told[0]);
}

/* One that has it already, and the others, who want it. */
static void gather(crowd *c, int count, const char *first, const char *others) {
    c->count = 0;
    make_pipe(c->told);
    join_crowd(c, first);
    while (c->count < count) join_crowd(c, others);
}

static void scatter(crowd *c) {
    for (int i = 0; i < c->count; i++) kill(c->pids[i], SIGKILL);
    for (int i = 0; i < c->count; i++) waitpid(c->pids[i], NULL, 0);
    close(c->told[0]);
    close(c->told[1]);
}

/* The processor's time of one of them, in seconds. */
static double cpu_of(pid_t pid) {
    clockid_t clock;
    if (clock_getcpuclockid(pid, &clock) != 0) die("a processor's time");
    return bench_seconds(clock);
}

/* The one that has it leaves, in order. Answers the milliseconds until the next one has it; *spent_us is what
   the median of those that do not get it spends. */
static double time_succession(crowd *c, int *leader, double *spent_us) {
    enum { SETTLED_MS = 150 };
    struct timespec settled = {0, SETTLED_MS * 1000000L};
    nanosleep(&settled, NULL);
    pid_t pid = c->pids[*leader];
    c->pids[*leader] = c->pids[--c->count];
    double before[MEMBERS_MAX];
    for (int i = 0; i < c->count; i++) before[i] = cpu_of(c->pids[i]);
    double hit = bench_now();
    kill(pid, SIGTERM);
    word heir = hear(c->told[0]);
    for (*leader = 0; c->pids[*leader] != heir.who;) ++*leader;
    nanosleep(&settled, NULL);
    bench_series spent = {0, {0}};
    for (int i = 0; i < c->count; i++)
        if (i != *leader) bench_add(&spent, (cpu_of(c->pids[i]) - before[i]) * 1e6);
    *spent_us = bench_quantile(&spent, 0.5);
    waitpid(pid, NULL, 0);
    return (heir.at - hit) * 1e3;
}

/* One crowd after another: the system grants a user only so many inotify instances (128, if nobody changed
   it), and those who get none poll. */
static void time_crowd(const char *first, const char *others, int count, int rounds, bench_series *took,
                       bench_series *cost) {
    static crowd c;
    int leader = 0;
    gather(&c, count + rounds, first, others);
    for (int i = 0; i < rounds; i++) {
        double spent_us = 0;
        bench_progress("a crowd", i, rounds);
        bench_add(took, time_succession(&c, &leader, &spent_us));
        bench_add(cost, spent_us);
    }
    scatter(&c);
}

static void bench_crowd(const char *label, const char *under) {
    enum { CROWD = 200, FEW = 10 };
    static char took_name[64], cost_name[64];
    bench_series took = {0, {0}}, lock = took, cost = took, few_cost = took, unused = took;
    int rounds = bench_rounds(24);
    make_place(under);
    time_crowd("hold", "wait", CROWD, rounds, &lock, &unused);
    time_crowd("lead", "stand by", FEW, rounds, &unused, &few_cost);
    remove_files(place);
    make_place(under);
    time_crowd("lead", "stand by", CROWD, rounds, &took, &cost);
    remove_files(place);
    snprintf(took_name, sizeof took_name, "hand-over, %d candidates, file %s", CROWD, label);
    snprintf(cost_name, sizeof cost_name, "CPU of each of %d standbys, file %s", CROWD, label);
    bench_row takes = {took_name, "ms", &took, "kernel's lock, 200 waiters, one synced write",
                       &lock,     true, BENCH_AT_MOST, 10};
    /* So many do not share the caches; anything that grew with their number would show. */
    bench_row costs = {cost_name, "us", &cost, "of each of 10", &few_cost, false, BENCH_AT_MOST, 2};
    bench_print(takes);
    bench_print(costs);
}

/* ---- a thousand elections in one process, on files --------------------------------------------- */

enum { THOUSAND = 1000 };
typedef struct on_file { leader_t l; leader_file file; } on_file;

static on_file *open_thousand(const char *identity) {
    struct rlimit files;
    on_file *all = (on_file *)calloc(THOUSAND, sizeof *all);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    for (int i = 0; all && i < THOUSAND; i++) {
        char name[32];
        leader_config cfg = {0};
        snprintf(name, sizeof name, "job-%d", i);
        cfg.identity = identity;
        cfg.lease_ms = 600000;
        cfg.backend  = leader_file_backend(&all[i].file, path_of(name));
        if (leader_init(&all[i].l, &cfg) != LEADER_OK) die(leader_error(&all[i].l));
        leader_tick(&all[i].l);
        leader_tick(&all[i].l);
    }
    if (!all) die("memory");
    return all;
}

/* Stands by on all of them, and says how many would hear of a release. */
static void play_thousand(void) {
    on_file *all = open_thousand("standby");
    word listening = {0, getpid()};
    for (int i = 0; i < THOUSAND; i++) {
        leader_fd fds[LEADER_FDS_MAX];
        listening.at += leader_fds(&all[i].l, fds) > 0;
    }
    if (write(TOLD, &listening, sizeof listening) != sizeof listening) _exit(1);
    for (;;) pause();
}

/* A renewal and what follows it in the next tick, in us. */
static double time_renewals(on_file *all, int count) {
    double start_at = bench_cpu();
    for (int i = 0; i < THOUSAND; i++) {
        leader_t *l = &all[i % count].l;
        leader_set_value(l, "");                // renews at once
        leader_tick(l);
        leader_tick(l);
    }
    return (bench_cpu() - start_at) / THOUSAND * 1e6;
}

static void bench_thousand(const char *label, const char *under) {
    static char name[64];
    bench_series each = {0, {0}}, fewer = each;
    int told[2];
    make_place(under);
    on_file *all = open_thousand("leader");
    make_pipe(told);
    pid_t standby = start_telling("stand by on all", told[1]);
    double listening = hear(told[0]).at;
    for (int i = 0, rounds = bench_rounds(40); i < rounds; i++) {
        bench_progress("a thousand elections", i, rounds);
        bench_add(&fewer, time_renewals(all, 100));
        bench_add(&each, time_renewals(all, THOUSAND));
    }
    bool renewed = leader_get_stats(&all[THOUSAND - 1].l).renewals >= (uint64_t)each.count;
    if (!renewed) die("a renewal did not happen");
    snprintf(name, sizeof name, "renewal, each of %d, file %s, CPU time", THOUSAND, label);
    bench_row row = {name, "us", &each, "each of 100", &fewer, true, BENCH_AT_MOST, 50};
    bench_print(row);
    bench_fact("of 1000 standbys in one process, listening", "", listening, BENCH_AT_LEAST, THOUSAND);
    kill(standby, SIGKILL);
    waitpid(standby, NULL, 0);
    close(told[0]);
    close(told[1]);
    for (int i = 0; i < THOUSAND; i++) leader_close(&all[i].l, 0);
    free(all);
    remove_files(place);
}

/* ---- the longest tick -------------------------------------------------------------------------- */

/* Of a life on a disk: a term begins, is renewed and released. The longest synced write stands beside it. */
static void bench_longest_tick(const char *under) {
    enum { TICKS = 20 };
    bench_series longest = {0, {0}}, sync = longest;
    make_place(under);
    for (int i = 0, rounds = bench_rounds(24); i < rounds; i++) {
        static leader_t l;
        static leader_file file;
        leader_config cfg = {0};
        double ours = 0, bare = 0;
        bench_progress("the longest tick", i, rounds);
        cfg.identity = "bench";
        cfg.backend  = leader_file_backend(&file, path_of("long"));
        if (leader_init(&l, &cfg) != LEADER_OK) die(leader_error(&l));
        int fd = open(path_of("synced"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        for (int k = 0; k < TICKS; k++) {
            double start_at = bench_now();
            if (fd < 0 || write(fd, place, sizeof place) < 0 || fsync(fd) != 0) die("fsync");
            bare = fmax(bare, bench_now() - start_at);
            if (k > 0) leader_set_value(&l, "");
            if (k == TICKS - 2) leader_resign(&l, 1000);
            start_at = bench_now();
            leader_tick(&l);
            ours = fmax(ours, bench_now() - start_at);
        }
        close(fd);
        leader_close(&l, 1000);
        bench_add(&longest, ours * 1e3);
        bench_add(&sync, bare * 1e3);
    }
    bench_row row = {"longest of 20 ticks, file on disk", "ms",         &longest,
                     "longest of 20 synced writes",       &sync,        false,
                     BENCH_NO_GOAL,                       0};
    bench_print(row);
    remove_files(place);
}

/* ---- start-up ---------------------------------------------------------------------------------- */

static void bench_start(void) {
    bench_series first = {0, {0}}, bare = first;
    for (int i = 0, rounds = bench_rounds(21); i < rounds; i++) {
        static leader_t l;
        static leader_file file;
        char name[32];
        bench_progress("start-up", i, rounds);
        snprintf(name, sizeof name, "bare-%d.d", i);
        double start_at = bench_now();
        int dir = bare_directory(name);
        bare_term(dir);
        bench_add(&bare, (bench_now() - start_at) * 1e3);
        close(dir);
        snprintf(name, sizeof name, "first-%d", i);
        start_at = bench_now();
        open_election(&l, &file, name, 0, false);
        bench_add(&first, (bench_now() - start_at) * 1e3);
        leader_close(&l, 1000);
    }
    bench_row row = {"leader_init() to the first term, file",
                     "ms",
                     &first,
                     "one synced write",
                     &bare,
                     false,
                     BENCH_NO_GOAL,
                     0};
    bench_print(row);
}

/* ---- many elections in one process ------------------------------------------------------------- */

enum { MANY = 10000 };

static double time_round_of(leader_t *many, int n) {
    int loops = n < BATCH ? BATCH / n : 1;
    double start_at = bench_cpu();
    for (int k = 0; k < loops; k++) for (int i = 0; i < n; i++) tick(&many[i]);
    return (bench_cpu() - start_at) / loops / n * 1e9;
}

static void bench_many(void) {
    static const int counts[3] = {1, 100, MANY};
    static char names[3][64];
    leader_t *many = (leader_t *)calloc(MANY, sizeof *many);
    bench_series cost[3] = {{0, {0}}, {0, {0}}, {0, {0}}}, clock_ns = {0, {0}};
    if (!many) die("memory");
    for (int i = 0; i < MANY; i++) open_election(&many[i], NULL, NULL, 3600000, false);
    for (int i = 0, rounds = bench_rounds(100); i < rounds; i++) {
        bench_progress("many elections", i, rounds);
        bench_add(&clock_ns, time_clock(BATCH));
        for (int c = 0; c < 3; c++) bench_add(&cost[c], time_round_of(many, counts[c]));
    }
    for (int c = 0; c < 3; c++) {
        snprintf(names[c], sizeof names[c], "idle tick, each of %d in one process", counts[c]);
        bench_row row = {names[c],  "ns",  &cost[c],      "one read of the boot clock",
                         &clock_ns, false, BENCH_NO_GOAL, 0};
        bench_print(row);
    }
    /* Ten thousand no longer fit the caches, so each may cost somewhat more; anything that grew with their
       number would show. */
    bench_row row = {"idle tick, each of 10000 against each of 100",
                     "ns",
                     &cost[2],
                     "each of 100",
                     &cost[1],
                     false,
                     BENCH_AT_MOST,
                     2};
    bench_print(row);
    for (int i = 0; i < MANY; i++) leader_close(&many[i], 0);
    free(many);
}

/* ---- sizes ------------------------------------------------------------------------------------- */

static double run(const char *command, char *out, size_t cap) {
    struct rusage before, after;
    getrusage(RUSAGE_CHILDREN, &before);
    FILE *p = popen(command, "r");
    size_t n = p ? fread(out, 1, cap - 1, p) : 0;
    out[n] = 0;
    if (!p || pclose(p) != 0) return NAN;
    getrusage(RUSAGE_CHILDREN, &after);
    return (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec
                    - before.ru_stime.tv_sec)
               * 1e3
           + (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec
                      - before.ru_stime.tv_usec)
                 / 1e3;
}

static void bench_compile(const char *cc, const char *flags, const char *label, bench_goal goal) {
    static char command[1024], out[4096], name[96];
    bench_series took = {0, {0}};
    snprintf(command, sizeof command, "%s %s -I. -c '%s' -o '%s/x.o' 2>&1", cc, flags, path_of("x.c"), place);
    for (int i = 0, rounds = bench_rounds(7); i < rounds; i++) {
        bench_progress("compile", i, rounds);
        bench_add(&took, run(command, out, sizeof out));
    }
    snprintf(name, sizeof name, "compile, %s, CPU time", label);
    bench_row row = {name, "ms", &took, NULL, NULL, true, goal, 500};
    if (isnan(took.at[0])) fprintf(stderr, "bench: %s: %s\n", command, out);
    else bench_print(row);
}

static void bench_sizes(void) {
    static char command[1024], out[8192];
    const char *cc = getenv("CC") && getenv("CC")[0] ? getenv("CC") : "cc";
    FILE *f = fopen(path_of("x.c"), "w");
    if (!f || fprintf(f, "#define LEADER_IMPLEMENTATION\n#include \"leader.h\"\n") < 0 || fclose(f) != 0)
        die("x.c");
    bench_compile(cc, "-std=c99", "-O0", BENCH_AT_MOST);
    bench_compile(cc, "-std=c99 -Os -DNDEBUG", "-Os", BENCH_NO_GOAL);
    snprintf(command, sizeof command, "size -A '%s/x.o' 2>&1", place);
    long text = -1;
    if (!isnan(run(command, out, sizeof out)) && strstr(out, ".text"))
        text = strtol(strstr(out, ".text") + 5, NULL, 10);
    if (text > 0)
        bench_fact(".text of core and file backend, -Os, NDEBUG", "bytes", (double)text, BENCH_AT_MOST,
                   28672);
    else fprintf(stderr, "bench: no size(1), so no figure for .text: %s\n", out);
    bench_fact("sizeof(leader_t)", "bytes", sizeof(leader_t), BENCH_AT_MOST, 4096);
    bench_fact("memory of an election on a file, all of it", "bytes", sizeof(leader_t) + sizeof(leader_file),
               BENCH_NO_GOAL, 0);
}

/* ---- allocations ------------------------------------------------------------------------------- */

#if defined(__GLIBC__)
void *__libc_malloc(size_t n);
static volatile bool   counting;
static volatile long   allocations;
void *malloc(size_t n) {  // calloc and realloc of leader.h would not escape: it calls neither
    if (counting) allocations++;
    return __libc_malloc(n);
}

static void bench_allocations(void) {
    static leader_t l;
    static leader_file file;
    counting = true;
    for (int i = 0; i < 100; i++) {
        open_election(&l, &file, "frugal", 0, true);
        for (int k = 0; k < 5; k++) { fake_ms += 5000; leader_tick(&l); }
        leader_close(&l, 1000);
    }
    counting = false;
    bench_fact("allocations in 100 lives of a file election", "", (double)allocations, BENCH_AT_MOST, 0);
}
#else
static void bench_allocations(void) {}
#endif

int main(int argc, char **argv) {
    const char *here = access("build", W_OK) == 0 ? "build" : ".",
               *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NULL;
    self = argv[0];
    if (argc == 4 && strcmp(argv[1], "--play") == 0) {
#if defined(__linux__)
        prctl(PR_SET_PDEATHSIG, SIGKILL);       // none outlives a bench that fails
#endif
        snprintf(place, sizeof place, "%s", argv[3]);
        play(argv[2]);
        return 0;
    }
    bench_begin(argc, argv, "");
    make_place(here);
    bench_questions();
    bench_many();
    bench_start();
    bench_allocations();
    bench_sizes();
    remove_files(place);
    bench_renewals("on disk", here, bench_now, 200);
    if (memory) bench_renewals("in memory", memory, bench_cpu, 400);
    bench_takeovers("on disk", here);
    if (memory) bench_takeovers("in memory", memory);
    bench_crowd("on disk", here);
    if (memory) bench_crowd("in memory", memory);
    if (memory) bench_thousand("in memory", memory);
    bench_longest_tick(here);
    return bench_end();
}
