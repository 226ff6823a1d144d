/* The deterministic simulator: the real leader.h, one to nine candidates, six stores, and everything
   that can go wrong, all from one seed.

       build/sim --runs 3000 --seed 1            3,000 scenarios, seeds 1 to 3,000
       build/sim --replay 42 --store redis         one of them again, as a readable timeline
       build/sim --runs 96 --seeds tests/sim/seeds   and those in which something was found once

   tests/sim/base.h       chance, virtual time, event queue, coroutines
   tests/sim/world.h      candidates, messages, faults; the points at which a candidate can stall or die
   tests/sim/net.h        a network of messages
   tests/sim/tcp.h        a network of stream sockets, under the real hiredis
   tests/sim/redis.h      a Redis server that executes the scripts we ship, for the real
       backends/leader_redis.h
   tests/sim/http.h       a transport behind the seam of backends/leader_http.h
   tests/sim/k8s.h        an API server with one Lease, for the real backends/leader_k8s.h
   tests/sim/etcd.h       three members with one key, for the real backends/leader_etcd.h
   tests/sim/pg.h         libpq and a PostgreSQL with one row, for the real backends/leader_pg.h
   tests/sim/register.h   a store that compares and swaps, under the engine of leader.h
   tests/sim/vfs.h        a file system for the real file backend
   tests/sim/check.h      what must hold, whatever happens
   tests/sim/candidate.h  a process with leader.h inside
   tests/sim/scenario.h   what happens, and the bounds within which a leader must be found */
#define _GNU_SOURCE 1
#include <stdint.h>
static uint64_t sim_random(void);
#define LEADER_RANDOM64() sim_random()
static void sim_broken(const char *invariant);
#define LEADER_ASSERT(holds) ((holds) ? (void)0 : sim_broken(#holds))
struct leader_listeners_t_;
static struct leader_listeners_t_ *sim_listeners(void);
#define LEADER_FILE_LISTENERS_ sim_listeners()
#define LEADER_IMPLEMENTATION
#include "leader.h"

#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <lua5.1/lualib.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <ucontext.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tests/sim/calls.h"
#define socket(...)                  tcp_socket(__VA_ARGS__)
#define connect(...)                 tcp_connect(__VA_ARGS__)
#define setsockopt(...)              tcp_setsockopt(__VA_ARGS__)
#define getsockopt(...)              tcp_getsockopt(__VA_ARGS__)
#define fcntl(...)                   tcp_fcntl(__VA_ARGS__)
#define poll(...)                    tcp_poll(__VA_ARGS__)
#define send(fd, bytes, len, flags)  tcp_write(fd, bytes, len)
#define recv(fd, bytes, len, flags)  tcp_read(fd, bytes, len)
#define close(fd)                    tcp_close(fd)
#define malloc(size)                 mem_malloc(size)
#define realloc(old, size)           mem_realloc(old, size)
#define free(old)                    mem_free(old)
#include "backends/leader_redis.h"
#undef socket
#undef connect
#undef setsockopt
#undef getsockopt
#undef fcntl
#undef poll
#undef send
#undef recv
#undef close
#undef malloc
#undef realloc
#undef free

#define LEADER_HTTP_OTHER
#define malloc(...)  mem_malloc(__VA_ARGS__)
#define realloc(...) mem_realloc(__VA_ARGS__)
#define free(...)    mem_free(__VA_ARGS__)
#include "backends/leader_k8s.h"
#include "backends/leader_etcd.h"
#include "backends/leader_pg.h"
#undef malloc
#undef realloc
#undef free

#include "tests/sim/base.h"
#include "tests/sim/world.h"
#include "tests/sim/net.h"
#include "tests/sim/register.h"
#include "tests/sim/vfs.h"
#include "tests/sim/tcp.h"
#include "tests/sim/redis.h"
#include "tests/sim/http.h"
#include "tests/sim/k8s.h"
#include "tests/sim/etcd.h"
#include "tests/sim/pg.h"
#include "tests/sim/check.h"
#include "tests/sim/candidate.h"
#include "tests/sim/scenario.h"

typedef struct options {
    uint64_t runs, seed;
    bool replay, mixed, stop_at_first;
    store_kind store;
    const char *seeds;                                          // a file; NULL: none
    char breaks[256];
} options;

static int usage(void) {
    fputs("usage: sim [--runs N] [--seed S] [--store redis|k8s|register|file|etcd|pg|all] [--replay SEED] "
          "[--seeds FILE] [--first] [--quiet] [--break RULE]\n"
          "rules that can be broken on purpose:\n",
          stderr);
#define X(name, text) fprintf(stderr, "  %-20s %s\n", #name, text);
    SIM_BREAKS(X)
#undef X
    return 2;
}

static bool option_break(const char *name) {
#define X(rule, text) if (strcmp(name, #rule) == 0) return asked.breaks.rule = true;
    SIM_BREAKS(X)
#undef X
    return false;
}

static bool option_store(options *o, const char *name) {
    o->mixed = strcmp(name, "all") == 0;
    for (int i = 0; i < STORE_KINDS; i++)
        if (strcmp(name, store_names[i]) == 0) {
            o->store = (store_kind)i;
            return true;
        }
    return o->mixed;
}

static bool option_number(const char *text, uint64_t *out) {
    char *end;
    *out = strtoull(text, &end, 0);
    return *text && !*end;
}

static bool options_read(options *o, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        bool good = true;
        if      (strcmp(name, "--quiet") == 0) { asked.quiet = true; continue; }
        else if (strcmp(name, "--first") == 0) { o->stop_at_first = true; continue; }
        else if (strcmp(name, "--runs")   == 0) good = option_number(value, &o->runs);
        else if (strcmp(name, "--seed")   == 0) good = option_number(value, &o->seed);
        else if (strcmp(name, "--replay") == 0) {
            good = option_number(value, &o->seed);
            o->replay = true;
            o->runs = 1;
        } else if (strcmp(name, "--seeds") == 0)
            o->seeds = value;
        else if (strcmp(name, "--store") == 0)
            good = option_store(o, value);
        else if (strcmp(name, "--break")  == 0) {
            good = option_break(value);
            size_t used = strlen(o->breaks);
            snprintf(o->breaks + used, sizeof o->breaks - used, " --break %s", value);
        } else good = false;
        if (!good) return false;
        i++;
    }
    return true;
}

/* A reader that waits for a stopped writer would hang the whole run: say which seed, and end. Counted in
   processor time: a busy machine is no reason. */
static void on_alarm(int sig) {
    (void)sig;
    fprintf(stderr, "\nseed %llu, store %s: hangs\n", (unsigned long long)sim.seed, store_names[sim.store]);
    _exit(1);
}

static void limit_seconds(int seconds) {
    struct itimerval limit;
    memset(&limit, 0, sizeof limit);
    limit.it_value.tv_sec = seconds;
    setitimer(ITIMER_VIRTUAL, &limit, NULL);
}

static void report_failure(const options *o, const char *program) {
    printf("seed %llu, store %s: %s\n    replay: %s --replay %llu --store %s%s\n",
           (unsigned long long)sim.seed, store_names[sim.store], sim.failure, program,
           (unsigned long long)sim.seed, store_names[sim.store], o->breaks);
}

static void report_store(store_kind store) {
    const sim_tally *t = &tallies[store];
    const char *between = "";
    if (t->scenarios == 0) {
        return;
    }
    printf("%s: %llu scenarios, %.0f simulated hours, %llu events, %llu terms\n  faults: ",
           store_names[store], (unsigned long long)t->scenarios, t->hours, (unsigned long long)t->events,
           (unsigned long long)t->terms);
    for (int f = 0; f < FAULT_KINDS; f++) {
        if (t->faults[f] > 0) {
            printf("%s%llu %s", between, (unsigned long long)t->faults[f], fault_info[f].text);
            between = ", ";
        }
    }
    printf("\n  broken rules: %llu overlaps, %llu token regressions, %llu unpaired callbacks, %llu others\n",
           (unsigned long long)t->overlaps, (unsigned long long)t->regressions,
           (unsigned long long)t->unpaired, (unsigned long long)t->others);
    printf(
        "  worst time over its bound: leader after the faults stopped %.2f, failover %.2f, hand-over %.2f\n",
        t->worst_calm, t->worst_failover, t->worst_handover);
    printf("  %llu hand-overs to a named heir, %llu terms of one that let others go first, %llu values\n",
           (unsigned long long)t->heirs, (unsigned long long)t->deferrals, (unsigned long long)t->values);
}

static void report_run(uint64_t passed, uint64_t failed) {
    for (int store = 0; store < STORE_KINDS; store++) {
        report_store((store_kind)store);
    }
    printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
}

typedef struct outcome { uint64_t passed, failed, overlaps; } outcome;

static bool run_one(const options *o, const char *program, uint64_t seed, store_kind store, outcome *all) {
    enum { FAILURES_SHOWN = 10, SCENARIO_SECONDS_MAX = 60 };
    limit_seconds(SCENARIO_SECONDS_MAX);
    bool good = scenario_run(seed, store);
    all->passed += good;
    all->failed += !good;
    all->overlaps += run.overlaps > 0;
    bool many = run.overlaps > 0 && all->overlaps < 10 * FAILURES_SHOWN;
    bool shown = all->failed <= FAILURES_SHOWN || many;
    if (!good && shown && !o->replay) {
        report_failure(o, program);
    }
    return good;
}

/* Lines of a store, a seed, and what was found there. */
static bool run_listed(options *o, const char *program, outcome *all) {
    FILE *list = fopen(o->seeds, "r");
    char line[200];
    while (list && fgets(line, sizeof line, list)) {
        char store[16];
        unsigned long long seed;
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        if (sscanf(line, "%15s %llu", store, &seed) != 2 || !option_store(o, store)) {
            fprintf(stderr, "%s: what is this: %s", o->seeds, line);
            all->failed++;
            continue;
        }
        run_one(o, program, seed, o->store, all);
    }
    if (list) {
        fclose(list);
    }
    return list != NULL;
}

static void run_all(const options *o, const char *program, outcome *all) {
    // files cost most time
    static const store_kind shares[] = {STORE_FILE, STORE_REDIS, STORE_REGISTER,
                                        STORE_ETCD, STORE_K8S,   STORE_PG};
    enum { SHARES = sizeof shares / sizeof shares[0] };
    bool progress = isatty(STDERR_FILENO) && !asked.quiet && !o->replay;
    for (uint64_t i = 0; i < o->runs; i++) {
        uint64_t seed = o->seed + i;
        store_kind store = o->mixed ? shares[seed % SHARES] : o->store;
        bool good = run_one(o, program, seed, store, all);
        if (!good && o->stop_at_first) {
            break;
        }
        if (progress && i % 64 == 0) {
            fprintf(stderr, "\r%llu of %llu ", (unsigned long long)i, (unsigned long long)o->runs);
        }
    }
    if (progress) {
        fputs("\r                          \r", stderr);
    }
}

int main(int argc, char **argv) {
    options o;
    memset(&o, 0, sizeof o);
    o.runs  = 3000;
    o.seed  = 1;
    o.mixed = true;
    if (!options_read(&o, argc, argv)) return usage();
    asked.timeline = o.replay;
    signal(SIGVTALRM, on_alarm);
    redis_open_lua();
    outcome all = {0, 0, 0};
    run_all(&o, argv[0], &all);
    if (o.seeds && !run_listed(&o, argv[0], &all)) {
        perror(o.seeds);
        return 2;
    }
    if (!asked.quiet || all.failed > 0) {
        report_run(all.passed, all.failed);
    }
    return all.failed != 0;
}
