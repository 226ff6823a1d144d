/* make bench: what leader.h costs, next to the least that the same thing could cost on this machine in
   this run. bench.h says how to read the table. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/bench/bench.h"

#include <dirent.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

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

/* Each tick a millisecond after the one before, so that each looks for notices. */
static double time_looking_tick(leader_t *l, int n) {
    double start = bench_cpu();
    for (int i = 0; i < n; i++) { fake_ms++; tick(l); }
    return (bench_cpu() - start) / n * 1e9;
}

static double time_bare_look(int fd, int n) {
    char buf[4096];
    ssize_t got = 0;
    double start = bench_cpu();
    for (int i = 0; i < n; i++) got += read(fd, buf, sizeof buf);
    double took = bench_cpu() - start;
    sink = got;
    return took / n * 1e9;
}

static void bench_questions(void) {
    static leader_t single, on_file, looking;
    static leader_file file, looked;
    bench_series clock_ns = {0, {0}}, clock2 = clock_ns, clock3 = clock_ns, ask_ns = clock_ns,
                 tick_ns = clock_ns, file_ns = clock_ns, look_ns = clock_ns, bare_ns = clock_ns;
    leader_fd fds[LEADER_FDS_MAX];
    open_election(&single, NULL, NULL, 0, false);
    open_election(&on_file, &file, "tick", 0, false);
    open_election(&looking, &looked, "look", INT64_C(100000000), true);
    tick(&looking);
    bool notices = leader_fds(&looking, fds) > 0;
    for (int i = 0, rounds = bench_rounds(400); i < rounds; i++) {
        bench_progress("questions and ticks", i, rounds);
        leader_tick(&on_file);                  // a renewal that is due has its own line below
        bench_add(&clock_ns, time_clock(BATCH));
        bench_add(&ask_ns, time_ask(&on_file, BATCH));
        bench_add(&clock2, time_clock(BATCH));
        bench_add(&tick_ns, time_tick(&single, BATCH));
        bench_add(&clock3, time_clock(BATCH));
        bench_add(&file_ns, time_tick(&on_file, BATCH));
        if (notices) bench_add(&bare_ns, time_bare_look((int)fds[0].fd, BATCH / 10));
        fake_ms++;
        if (notices) bench_add(&look_ns, time_looking_tick(&looking, BATCH / 10));
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
    bench_row looks = {"leader_tick() that looks for notices, file",
                       "ns",
                       &look_ns,
                       "one read() that finds none",
                       &bare_ns,
                       false,
                       BENCH_NO_GOAL,
                       0};
    bench_print(asks);
    bench_print(ticks);
    bench_print(files);
    if (notices) bench_print(looks);
    leader_close(&single, 1000);
    leader_close(&on_file, 1000);
    fake_ms += 1000;
    leader_close(&looking, 1000);
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

static leader_t own;
static void on_term(int sig) { (void)sig; leader_stop(&own); }

/* A leader in a process of its own, until it is killed or told to go. Says when it leads. */
static void lead(int told) {
    static leader_file file;
    leader_config cfg = {0};
    cfg.identity = "leader";
    cfg.backend  = leader_file_backend(&file, path_of("job.lease"));
    if (leader_init(&own, &cfg) != LEADER_OK) _exit(1);
    signal(SIGTERM, on_term);
    while (leader_wait(&own, 1000) != LEADER_OK) {}
    if (write(told, "!", 1) != 1) _exit(1);
    while (!leader_is_stopped(&own)) { leader_tick(&own); leader_sleep(&own, 1000); }
    leader_close(&own, 1000);
    _exit(0);
}

/* The least: a process that holds a lock and nothing else, and one that sleeps until the kernel hands it
   over and then writes its term down. */
static void hold_lock(int told) {
    int fd = open(path_of("lock"), O_RDWR | O_CREAT, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0) _exit(1);
    signal(SIGTERM, SIG_DFL);
    if (write(told, "!", 1) != 1) _exit(1);
    for (;;) pause();
}

static pid_t start(void (*what)(int)) {
    int told[2];
    char c;
    if (pipe(told) != 0) die("pipe");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) { close(told[0]); what(told[1]); }
    close(told[1]);
    if (pid < 0 || read(told[0], &c, 1) != 1) die("the other process");
    close(told[0]);
    return pid;
}

static double time_takeover(int sig) {
    static leader_t me;
    static leader_file file;
    leader_config cfg = {0};
    pid_t pid = start(lead);
    cfg.identity = "standby";
    cfg.backend  = leader_file_backend(&file, path_of("job.lease"));
    if (leader_init(&me, &cfg) != LEADER_OK) die(leader_error(&me));
    for (double end = bench_now() + 0.03; bench_now() < end;) { leader_tick(&me); leader_sleep(&me, 5); }
    double hit = bench_now();
    kill(pid, sig);
    if (leader_wait(&me, 30000) != LEADER_OK) die("nobody took over");
    double took = bench_now() - hit;
    waitpid(pid, NULL, 0);
    leader_close(&me, 1000);
    return took * 1e3;
}

static double time_lock(int sig, const char *name) {
    pid_t pid = start(hold_lock);
    int fd = open(path_of("lock"), O_RDWR), dir = bare_directory(name);
    if (fd < 0) die("lock");
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
    bench_row crashes = {crash_name,  "ms", &crash,        "kernel's lock, one synced write",
                         &crash_lock, true, BENCH_AT_MOST, 20};
    bench_row terms = {term_name,  "ms", &term,         "kernel's lock, one synced write",
                       &term_lock, true, BENCH_AT_MOST, 10};
    bench_print(crashes);
    bench_print(terms);
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
    return bench_end();
}
