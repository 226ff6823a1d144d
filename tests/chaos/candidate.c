/* One candidate of a chaos run: a real process that competes, asks all the time whether it leads, and
   writes down what it was told.

       candidate --life LABEL --id IDENTITY --log FILE --guard FILE --lease TIME --deadline TIME STORE
       [OPTIONS]

   STORE    --file PATH
            --redis URL --name NAME
            --redis MASTER --name NAME --sentinels LIST [--wait-replica]
            --quorum URL,URL,URL,URL,URL --name NAME
            --pg CONNINFO --name NAME
            --etcd ENDPOINTS --name NAME
            --k8s NAMESPACE/NAME --server URL [--ca FILE] [--token-file FILE] [--no-watch] [--leader-h-only]
   OPTIONS  --cautious          cautious_start: an empty store is trusted only after one lease
            --boot-offset S     live in a time namespace of its own, whose boot clock is S seconds ahead
            (needs root) --wrong deadline    be wrong on purpose: believe every yes for ten leases. The
            checker has to notice
   TIME     such as 1500ms or 4s

   SIGUSR1 resigns, SIGTERM closes the election and ends the process. Three threads: one ticks, one asks a
   thousand times a second, one works on a resource that a token guards.

   The log has one line for each of these, in microseconds of the boot clock (of the machine, whatever the
   time namespace):
       start AT IDENTITY PID               the election is open
       yes BEFORE AFTER TOKEN              some question was answered with yes between the two clock
       readings; TOKEN 0: with no token no BEFORE AFTER                     the first no after a yes
       started AT TOKEN, stopped AT TOKEN WHY    the callbacks wall AT SECONDS                     the wall
       clock differs from the boot clock by so much: at the start, and when it was moved say AT LEVEL TEXT
       what leader.h has logged, warnings and errors closed AT RESULT                    the process ends
       because it was asked to

   What may be concluded from a yes? That the process led at one moment between BEFORE and AFTER, the one
   in which leader.h looked at the clock, and no more: the promise ends with the moment of the check.
   Neither stamp alone is that moment. The process can be stopped between a stamp and the question on
   either side: at AFTER its term may be long over, and at BEFORE it may not have begun (another thread
   ticks). But a term has one beginning and one end, so that two answers with one token prove leadership
   from the first moment to the second. A term is therefore claimed from the AFTER of its first yes to the
   BEFORE of its last: never more than what was promised, and less by two questions at most, whatever is
   stopped where. */
#define _GNU_SOURCE 1
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "examples/options.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>

enum { ASK_US = 1000, WORK_US = 10000, WALL_EVERY = 16, GUARD_LINE = 96, CLOSE_MS = 2000 };

static leader_t me;
static const char *life, *identity, *log_path, *guard_path, *server, *ca, *token_file, *sentinels, *wrong,
    *boot_offset, *pg, *etcd;
static int64_t lease_ms, deadline_ms;
static bool cautious, no_watch, leader_h_only, wait_replica;
static int log_fd, guard_fd;
static volatile sig_atomic_t ending;
static bool working;  // a piece of work is under way: the lease is kept until it is done

static void die(const char *what) {
    fprintf(stderr, "candidate %s: %s%s%s\n", life ? life : "", what, errno ? ": " : "",
            errno ? strerror(errno) : "");
    _exit(1);
}

static int64_t clock_us(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t boot_us(void) {
    static int64_t offset_s = INT64_MIN;        // first asked before there are threads
    if (offset_s == INT64_MIN) offset_s = boot_offset ? strtoll(boot_offset, NULL, 10) : 0;
    return clock_us(CLOCK_BOOTTIME) - offset_s * 1000000;
}

static void nap(int64_t us) {
    struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

/* One line, one write: it is there as a whole or not at all, however the process ends. A log that lost a
   line would prove nothing. */
LEADER_PRINTF_(1, 2) static void say(const char *format, ...) {
    char line[400];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    size_t len = n < (int)sizeof line - 1 ? (size_t)n : sizeof line - 2;
    line[len++] = '\n';
    if (write(log_fd, line, len) != (ssize_t)len) die(log_path);
}

/* ---- the guarded resource ---------------------------------------------------------------------- */

/* A file of lines of one length: "accept|reject TOKEN HIGHEST AT LIFE". Under the lock, the last line has
   the highest token seen so far. */
static void guard_write(uint64_t token) {
    char line[GUARD_LINE + 1];
    unsigned long long highest = 0;
    struct stat st;
    while (flock(guard_fd, LOCK_EX) != 0) if (errno != EINTR) die("flock");
    if (fstat(guard_fd, &st) != 0 || st.st_size % GUARD_LINE != 0) die(guard_path);
    if (st.st_size > 0) {
        if (pread(guard_fd, line, GUARD_LINE, st.st_size - GUARD_LINE) != GUARD_LINE) die(guard_path);
        line[GUARD_LINE] = 0;
        if (sscanf(line, "%*s %*s %llu", &highest) != 1) die("the guard's last line");
    }
    bool good = token >= highest;
    if (good) highest = token;
    int n = snprintf(line, sizeof line, "%s %20llu %20llu %16lld %.20s", good ? "accept" : "reject",
                     (unsigned long long)token, highest, (long long)boot_us(), life);
    memset(line + n, ' ', (size_t)(GUARD_LINE - n));
    line[GUARD_LINE - 1] = '\n';
    if (write(guard_fd, line, GUARD_LINE) != GUARD_LINE) die(guard_path);
    flock(guard_fd, LOCK_UN);
}

/* Each piece of work takes a while between the question and the write, so that many a stop falls in
   between: those writes have to be rejected. */
static void *work(void *unused) {
    for (;; nap(WORK_US)) {
        // before the question: is_drained must not miss it
        __atomic_store_n(&working, true, __ATOMIC_SEQ_CST);
        uint64_t token = leader_token(&me);
        if (token) {
            nap(boot_us() % (2 * WORK_US));
            guard_write(token);
        }
        __atomic_store_n(&working, false, __ATOMIC_SEQ_CST);
    }
    return unused;
}

static bool is_drained(void *user) { (void)user; return !__atomic_load_n(&working, __ATOMIC_SEQ_CST); }

/* ---- asking ------------------------------------------------------------------------------------ */

/* Every question there is. The token of whichever said yes; 0 with *yes: no token came with it. */
static uint64_t ask(bool *yes) {
    bool leads = leader_is_leader(&me);
    leader_view v = leader_get_view(&me);
    uint64_t token = leader_token(&me);
    *yes = leads || v.leading || token;
    return token ? token : v.leading ? v.token : 0;
}

static void look_at_wall(void) {
    static int64_t last = INT64_MIN / 2;
    int64_t now = boot_us(), apart = clock_us(CLOCK_REALTIME) - now;
    if (apart - last < 1000000 && last - apart < 1000000) return;
    last = apart;
    say("wall %lld %lld", (long long)now, (long long)(apart / 1000000));
}

static void *keep_asking(void *unused) {
    bool was = false;
    uint64_t believed = 0;
    int64_t believed_until = 0;
    for (unsigned turn = 0;; turn++, nap(ASK_US)) {
        bool yes;
        int64_t before = boot_us();
        uint64_t token = ask(&yes);
        if (wrong) {
            if (yes) { believed = token; believed_until = before + 10 * lease_ms * 1000; }
            else if (before < believed_until) { yes = true; token = believed; }
        }
        int64_t after = boot_us();
        if (yes) say("yes %lld %lld %llu", (long long)before, (long long)after, (unsigned long long)token);
        else if (was) say("no %lld %lld", (long long)before, (long long)after);
        was = yes;
        if (turn % WALL_EVERY == 0) look_at_wall();
    }
    return unused;
}

static void on_started(void *user, uint64_t token) {
    (void)user;
    say("started %lld %llu", (long long)boot_us(), (unsigned long long)token);
}

static void on_stopped(void *user, uint64_t token, leader_result why) {
    (void)user;
    say("stopped %lld %llu %s", (long long)boot_us(), (unsigned long long)token, leader_strerror(why));
}

static void on_log(void *user, leader_level level, const char *text) {
    (void)user;
    if (level <= LEADER_LOG_WARN)
        say("say %lld %s %s", (long long)boot_us(), level == LEADER_LOG_ERROR ? "error" : "warning", text);
}

/* ---- the process ------------------------------------------------------------------------------- */

static void hear(int number) {
    if (number == SIGTERM) ending = 1;
    else leader_resign(&me, lease_ms / 4);
}

/* A process of one thread may enter a namespace that it made for its children. */
static void enter_time_namespace(void) {
#if defined(CLONE_NEWTIME)
    char text[80];
    int n = snprintf(text, sizeof text, "monotonic %s 0\nboottime %s 0\n", boot_offset, boot_offset);
    int fd = -1, space = -1;
    if (unshare(CLONE_NEWTIME) != 0 || (fd = open("/proc/self/timens_offsets", O_WRONLY)) < 0
        || write(fd, text, (size_t)n) != n || (space = open("/proc/self/ns/time_for_children", O_RDONLY)) < 0
        || setns(space, CLONE_NEWTIME) != 0)
        die("time namespace");
    close(fd);
    close(space);
#else
    die("time namespace: not known to this C library");
#endif
}

static leader_backend backend_of(store *s) {
#if defined(LEADER_WITH_REDIS)
    if (s->redis && sentinels) {
        leader_redis_config how;
        memset(&how, 0, sizeof how);
        how.sentinel_name = s->redis;
        how.sentinels = sentinels;
        how.wait_replicas = wait_replica;
        how.name = s->name;
        return leader_redis_backend(&s->in_redis, &how);
    }
#endif
#if defined(LEADER_WITH_PG)
    if (pg) {
        static leader_pg in_pg;
        leader_pg_config how;
        memset(&how, 0, sizeof how);
        how.conninfo = pg;
        how.name = s->name;
        return leader_pg_backend(&in_pg, &how);
    }
#endif
#if defined(LEADER_WITH_ETCD)
    if (etcd) {
        static leader_etcd in_etcd;
        leader_etcd_config how;
        memset(&how, 0, sizeof how);
        how.endpoints = etcd;
        how.name = s->name;
        return leader_etcd_backend(&in_etcd, &how);
    }
#endif
#if defined(LEADER_WITH_K8S)
    if (s->k8s && server) {
        const char *slash = strchr(s->k8s, '/');
        leader_k8s_config where;
        memset(&where, 0, sizeof where);
        if (!slash) die("--k8s NAMESPACE/NAME");
        memcpy(s->k8s_namespace, s->k8s, (size_t)(slash - s->k8s));
        where.server = server;
        where.lease_namespace = s->k8s_namespace;
        where.lease_name = slash + 1;
        where.ca_file = ca;
        where.token_file = token_file;
        where.no_watch = no_watch;
        where.leader_h_only = leader_h_only;
        return leader_k8s_backend(&s->in_k8s, &where);
    }
#endif
    return store_backend(s);
}

static void parse(store *s, char **argv) {
    const struct {
        const char *name;
        const char **to;
    } texts[] = {{"--life", &life},
                 {"--id", &identity},
                 {"--log", &log_path},
                 {"--guard", &guard_path},
                 {"--server", &server},
                 {"--ca", &ca},
                 {"--token-file", &token_file},
                 {"--sentinels", &sentinels},
                 {"--wrong", &wrong},
                 {"--boot-offset", &boot_offset},
                 {"--pg", &pg},
                 {"--etcd", &etcd}};
    const struct {
        const char *name;
        bool *to;
    } flags[] = {{"--cautious", &cautious},
                 {"--no-watch", &no_watch},
                 {"--leader-h-only", &leader_h_only},
                 {"--wait-replica", &wait_replica}};
    for (int i = 1; argv[i]; i++) {
        const char *option = argv[i], *value = "";
        bool known = false;
        for (size_t k = 0; k < sizeof flags / sizeof flags[0] && !known; k++)
            if (strcmp(option, flags[k].name) == 0)
                known = *flags[k].to = true;
        for (size_t k = 0; k < sizeof texts / sizeof texts[0] && !known; k++) {
            known = option_is(argv, &i, texts[k].name, &value);
            if (known) *texts[k].to = value;
        }
        if (!known && option_is(argv, &i, "--lease", &value)) known = option_duration(value, &lease_ms);
        if (!known && option_is(argv, &i, "--deadline", &value)) known = option_duration(value, &deadline_ms);
        if ((!known && !store_option(s, argv, &i, &value)) || !value) die(option);
    }
    if (!life || !identity || !log_path || !guard_path || !lease_ms || !deadline_ms)
        die("--life, --id, --log, --guard, --lease, --deadline: required");
    if (wrong && strcmp(wrong, "deadline") != 0) die("--wrong deadline is the only way to be wrong");
    if (!pg && !etcd && store_mistake(s)) die(store_mistake(s));
}

static void open_election(store *s) {
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    cfg.identity = identity;
    cfg.backend = backend_of(s);
    cfg.lease_ms = lease_ms;
    cfg.renew_deadline_ms = deadline_ms;
    // a store that was broken for long is found healed soon: faults are short here
    cfg.retry_max_ms = lease_ms;
    cfg.drain_timeout_ms = lease_ms / 2;        // the guard's lock can be in the hands of a stopped process
    cfg.cautious_start = cautious;
    cfg.is_drained = is_drained;
    cfg.on_started_leading = on_started;
    cfg.on_stopped_leading = on_stopped;
    cfg.on_log = on_log;
    if (leader_init(&me, &cfg) != LEADER_OK) die(leader_error(&me));
}

int main(int argc, char **argv) {
    static store where;
    struct sigaction action;
    sigset_t ours;
    pthread_t thread;
    (void)argc;
    prctl(PR_SET_PDEATHSIG, SIGKILL);           // nobody outlives the driver
    errno = 0;
    parse(&where, argv);
    if (boot_offset) enter_time_namespace();
    log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    guard_fd = open(guard_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0 || guard_fd < 0) die("cannot open --log or --guard");
    errno = 0;
    open_election(&where);
    say("start %lld %s %ld", (long long)boot_us(), identity, (long)getpid());

    memset(&action, 0, sizeof action);
    action.sa_handler = hear;
    sigemptyset(&ours);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGUSR1);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    pthread_sigmask(SIG_BLOCK, &ours, NULL);    // they are for the thread that sleeps in the loop, to wake it
    if (pthread_create(&thread, NULL, keep_asking, NULL) != 0
        || pthread_create(&thread, NULL, work, NULL) != 0)
        die("pthread_create");
    pthread_sigmask(SIG_UNBLOCK, &ours, NULL);

    while (!ending) {
        leader_tick(&me);
        leader_sleep(&me, 100);
    }
    leader_result result = leader_close(&me, CLOSE_MS);
    say("closed %lld %s", (long long)boot_us(), leader_strerror(result));
    _exit(0);                                   // the other threads are of no more interest
}
