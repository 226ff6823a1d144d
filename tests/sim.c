/* The deterministic simulator: the real leader.h, one to nine candidates, three stores, and everything that can go wrong,
 * all from one seed.
 *
 *     build/sim --runs 3000 --seed 1            3,000 scenarios, seeds 1 to 3,000
 *     build/sim --replay 42 --store ttl         one of them again, as a readable timeline
 *
 * tests/sim/base.h       chance, virtual time, event queue, coroutines
 * tests/sim/world.h      candidates, messages, faults; the points at which a candidate can stall or die
 * tests/sim/net.h        the network
 * tests/sim/ttl.h        a store with expiring keys (Redis)
 * tests/sim/cas.h        a store with compare-and-swap (Kubernetes)
 * tests/sim/vfs.h        a file system for the real file backend
 * tests/sim/check.h      what must hold, whatever happens
 * tests/sim/candidate.h  a process with leader.h inside
 * tests/sim/scenario.h   what happens, and the bounds within which a leader must be found */
#define _GNU_SOURCE 1
#include <stdint.h>
static uint64_t sim_random(void);
#define LEADER_RANDOM64() sim_random()
#define LEADER_IMPLEMENTATION
#include "leader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sim/base.h"
#include "sim/world.h"
#include "sim/net.h"
#include "sim/ttl.h"
#include "sim/cas.h"
#include "sim/vfs.h"
#include "sim/check.h"
#include "sim/candidate.h"
#include "sim/scenario.h"

typedef struct options { uint64_t runs, seed; bool replay, mixed, stop_at_first; store_kind store; char breaks[256]; } options;

static int usage(void) {
    fputs("usage: sim [--runs N] [--seed S] [--store ttl|cas|file|all] [--replay SEED] [--first] [--quiet] [--break RULE]\n"
          "rules that can be broken on purpose:\n", stderr);
#define X(name, text) fprintf(stderr, "  %-20s %s\n", #name, text);
    SIM_BREAKS(X)
#undef X
    return 2;
}

static bool option_break(const char *name) {
#define X(rule, text) if (strcmp(name, #rule) == 0) return run.breaks.rule = true;
    SIM_BREAKS(X)
#undef X
    return false;
}

static bool option_store(options *o, const char *name) {
    o->mixed = strcmp(name, "all") == 0;
    for (int i = 0; i < STORE_KINDS; i++) if (strcmp(name, store_names[i]) == 0) { o->store = (store_kind)i; return true; }
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
        if      (strcmp(name, "--quiet") == 0) { run.quiet = true; continue; }
        else if (strcmp(name, "--first") == 0) { o->stop_at_first = true; continue; }
        else if (strcmp(name, "--runs")   == 0) good = option_number(value, &o->runs);
        else if (strcmp(name, "--seed")   == 0) good = option_number(value, &o->seed);
        else if (strcmp(name, "--replay") == 0) { good = option_number(value, &o->seed); o->replay = true; o->runs = 1; }
        else if (strcmp(name, "--store")  == 0) good = option_store(o, value);
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

/* A reader that waits for a stopped writer would hang the whole run: say which seed, and end. */
static void on_alarm(int sig) {
    (void)sig;
    fprintf(stderr, "\nseed %llu, store %s: hangs\n", (unsigned long long)sim.seed, store_names[sim.store]);
    _exit(1);
}

static void report_failure(const options *o, const char *program) {
    printf("seed %llu, store %s: %s\n    replay: %s --replay %llu --store %s%s\n", (unsigned long long)sim.seed,
           store_names[sim.store], sim.failure, program, (unsigned long long)sim.seed, store_names[sim.store], o->breaks);
}

static void report_run(void) {
    printf("%llu scenarios, %.0f simulated hours, %llu events, %llu terms\n", (unsigned long long)run.scenarios, run.hours,
           (unsigned long long)run.events, (unsigned long long)run.terms);
    printf("faults:");
    const char *between = " ";
    for (int f = 0; f < FAULT_KINDS; f++) {
        if (!run.faults[f]) continue;
        printf("%s%llu %s", between, (unsigned long long)run.faults[f], fault_info[f].text);
        between = ", ";
    }
    printf("\noverlaps %llu, token regressions %llu, unpaired callbacks %llu, other rules broken %llu\n",
           (unsigned long long)run.overlaps, (unsigned long long)run.regressions, (unsigned long long)run.unpaired,
           (unsigned long long)run.others);
    printf("worst time over its bound: leader after the faults stopped %.2f, failover %.2f, hand-over %.2f\n", run.worst_calm,
           run.worst_failover, run.worst_handover);
    printf("%llu passed, %llu failed\n", (unsigned long long)(run.scenarios - run.failed), (unsigned long long)run.failed);
}

int main(int argc, char **argv) {
    static const store_kind shares[5] = { STORE_FILE, STORE_TTL, STORE_CAS, STORE_TTL, STORE_CAS };   /* files cost most time */
    enum { FAILURES_SHOWN = 10, SCENARIO_SECONDS_MAX = 60 };
    options o;
    memset(&o, 0, sizeof o);
    o.runs  = 3000;
    o.seed  = 1;
    o.mixed = true;
    if (!options_read(&o, argc, argv)) return usage();
    run.timeline = o.replay;
    bool progress = isatty(STDERR_FILENO) && !run.quiet && !o.replay;
    signal(SIGALRM, on_alarm);
    for (uint64_t i = 0; i < o.runs; i++) {
        uint64_t   seed  = o.seed + i;
        store_kind store = o.mixed ? shares[seed % 5] : o.store;
        alarm(SCENARIO_SECONDS_MAX);
        uint64_t overlaps = run.overlaps;
        bool passed = scenario_run(seed, store);
        bool shown = run.failed <= FAILURES_SHOWN || (run.overlaps > overlaps && run.failed < 10 * FAILURES_SHOWN);
        if (!passed && shown && !o.replay) report_failure(&o, argv[0]);
        if (!passed && o.stop_at_first) break;
        if (progress && i % 64 == 0) fprintf(stderr, "\r%llu of %llu ", (unsigned long long)i, (unsigned long long)o.runs);
    }
    if (progress) fputs("\r                          \r", stderr);
    if (!run.quiet || run.failed) report_run();
    return run.failed != 0;
}
