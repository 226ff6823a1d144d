/* What every program in bench/ shares: series of rounds, and one line per figure.

   A figure is compared with a limit that was measured in the same run, in turns with it, so that a slow
   machine slows both. What counts is the ratio, round by round: its median decides, and its quartiles tell
   whether it can be trusted.

       met         the goal holds for the median and for both quartiles
       not met     it fails for all three
       too noisy   the quartiles lie on both sides of the goal: run it again on a quieter machine

   --json prints one object a line instead of the table, --markdown the table as the README has it,
   --strict exits 1 if a goal is not met, --quick measures fewer rounds, --no-head leaves the table's head
   out. */
#ifndef LEADER_BENCH_H
#define LEADER_BENCH_H

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BENCH_ROUNDS_MAX = 512 };

typedef struct bench_series { int count; double at[BENCH_ROUNDS_MAX]; } bench_series;
typedef enum bench_goal { BENCH_NO_GOAL, BENCH_AT_MOST, BENCH_AT_LEAST } bench_goal;

typedef struct bench_row {
    const char         *name, *unit;
    const bench_series *figure;
    const char         *limit_name;             // NULL: nothing to compare it with
    const bench_series *limit;                  // as many rounds as the figure
    bool                judge_figure;  // the goal is for the figure itself, not for its ratio to the limit
    bench_goal          goal;
    double              bound;
} bench_row;

static struct {
    const char *store;
    bool json, markdown, strict, quick, headed;
    int unmet, noisy;
    double spin_best, spin_worst;
} bench;

static double bench_seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static double bench_now(void) { return bench_seconds(CLOCK_MONOTONIC); }
// for what never waits: others' work does not count
static double bench_cpu(void) { return bench_seconds(CLOCK_PROCESS_CPUTIME_ID); }

static int bench_by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double bench_quantile(const bench_series *s, double q) {
    double sorted[BENCH_ROUNDS_MAX];
    if (s->count == 0) return NAN;
    memcpy(sorted, s->at, sizeof sorted);
    qsort(sorted, (size_t)s->count, sizeof sorted[0], bench_by_value);
    double place = q * (double)(s->count - 1);
    int low = (int)place, high = low + 1 < s->count ? low + 1 : low;
    return sorted[low] + (sorted[high] - sorted[low]) * (place - (double)low);
}

static void bench_add(bench_series *s, double value) {
    if (s->count < BENCH_ROUNDS_MAX)
        s->at[s->count++] = value;
}

/* A fixed piece of work: how much its time varies is how much the machine's other work gets in the way. */
static void bench_spin(void) {
    volatile uint64_t x = 1;
    double start = bench_now();
    for (int i = 0; i < 50000; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    double took = bench_now() - start;
    if (bench.spin_best == 0 || took < bench.spin_best) bench.spin_best = took;
    if (took > bench.spin_worst) bench.spin_worst = took;
}

static void bench_progress(const char *name, int round, int rounds) {
    if (round % 8 == 0) bench_spin();
    if (!isatty(STDERR_FILENO)) return;
    if (round + 1 < rounds) fprintf(stderr, "\r\033[K%s %d/%d", name, round + 1, rounds);
    else fprintf(stderr, "\r\033[K");
}

static int bench_rounds(int full) { return bench.quick ? (full + 3) / 4 : full; }

static void bench_number(char *buf, size_t cap, double v, const char *unit) {
    int digits = v == 0 || fabs(v) >= 100 ? 0 : fabs(v) >= 10 ? 1 : 2;
    snprintf(buf, cap, "%.*f%s%s", digits, v, unit[0] ? " " : "", unit);
}

static const char *bench_verdict(const bench_row *row, const bench_series *judged) {
    if (row->goal == BENCH_NO_GOAL) return "-";
    int held = 0;
    for (int i = 1; i <= 3; i++) {
        double v = bench_quantile(judged, i / 4.0);
        held += row->goal == BENCH_AT_MOST ? v <= row->bound : v >= row->bound;
    }
    if (held != 0 && held != 3) bench.noisy++;
    if (held == 0) bench.unmet++;
    return held == 3 ? "met" : held == 0 ? "not met" : "too noisy";
}

static void bench_print(bench_row row) {
    char name[96];
    snprintf(name, sizeof name, "%s%s", bench.store, row.name);
    bench_series ratios = {0, {0}};
    for (int i = 0; row.limit && i < row.figure->count && i < row.limit->count; i++)
        bench_add(&ratios, row.figure->at[i] / row.limit->at[i]);
    const char *verdict = bench_verdict(&row, row.judge_figure || !row.limit ? row.figure : &ratios);
    double figure = bench_quantile(row.figure, 0.5), low = bench_quantile(row.figure, 0.25),
           high = bench_quantile(row.figure, 0.75);
    if (bench.json) {
        printf("{\"name\": \"%s\", \"unit\": \"%s\", \"figure\": %.6g, \"quartiles\": [%.6g, %.6g], "
               "\"rounds\": %d",
               name, row.unit, figure, low, high, row.figure->count);
        if (row.limit)
            printf(", \"limit\": \"%s\", \"limit_figure\": %.6g, \"ratio\": %.4g, \"ratio_quartiles\": "
                   "[%.4g, %.4g]",
                   row.limit_name, bench_quantile(row.limit, 0.5), bench_quantile(&ratios, 0.5),
                   bench_quantile(&ratios, 0.25), bench_quantile(&ratios, 0.75));
        if (row.goal != BENCH_NO_GOAL)
            printf(", \"goal\": \"%s %.6g\", \"of\": \"%s\"",
                   row.goal == BENCH_AT_MOST ? "<=" : ">=", row.bound,
                   row.judge_figure || !row.limit ? "figure" : "ratio");
        printf(", \"verdict\": \"%s\"}\n", verdict);
        return;
    }
    char f[32], a[32], b[32], spread[72] = "", limit[96] = "", ratio[64] = "", goal[48] = "";
    bench_number(f, sizeof f, figure, row.unit);
    bench_number(a, sizeof a, low, "");
    bench_number(b, sizeof b, high, "");
    if (row.figure->count > 1) snprintf(spread, sizeof spread, "%s..%s", a, b);
    if (row.limit) {
        char l[32];
        bench_number(l, sizeof l, bench_quantile(row.limit, 0.5), row.unit);
        snprintf(limit, sizeof limit, "%s %.60s", l, row.limit_name);
        snprintf(ratio, sizeof ratio, "%.2f (%.2f..%.2f)", bench_quantile(&ratios, 0.5),
                 bench_quantile(&ratios, 0.25), bench_quantile(&ratios, 0.75));
    }
    if (row.goal != BENCH_NO_GOAL) {
        char g[32];
        bench_number(g, sizeof g, row.bound, row.judge_figure || !row.limit ? row.unit : "x");
        snprintf(goal, sizeof goal, "%s %s", row.goal == BENCH_AT_MOST ? "<=" : ">=", g);
    }
    const char *line = bench.markdown ? "| %s | %s | %s | %s | %s | %s | %s |\n"
                                      : "%-44s %12s  %-17s %-40s %-18s %-12s %s\n";
    if (!bench.headed)
        printf(line, "figure", "median", "quartiles", "limit, same run", "ratio (quartiles)", "goal", "");
    if (!bench.headed && bench.markdown) puts("|---|---|---|---|---|---|---|");
    bench.headed = true;
    printf(line, name, f, spread, limit, ratio, goal, verdict);
    fflush(stdout);
}

/* One number that no second measurement would change. */
static void bench_fact(const char *name, const char *unit, double value, bench_goal goal, double bound) {
    bench_series one = {1, {value}};
    bench_row row = {name, unit, &one, NULL, NULL, true, goal, bound};
    bench_print(row);
}

/* `store` stands before the name of each figure, since all programs print into one table. */
static void bench_begin(int argc, char **argv, const char *store) {
    bench.store = store;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) bench.json = true;
        else if (strcmp(argv[i], "--markdown") == 0) bench.markdown = true;
        else if (strcmp(argv[i], "--strict") == 0) bench.strict = true;
        else if (strcmp(argv[i], "--quick") == 0) bench.quick = true;
        else if (strcmp(argv[i], "--no-head") == 0) bench.headed = true;
        else {
            fprintf(stderr, "usage: %s [--json|--markdown] [--strict] [--quick] [--no-head]\n", argv[0]);
            exit(2);
        }
    }
}

static int bench_end(void) {
    double load[1] = {0};
    double swing = bench.spin_best > 0 ? bench.spin_worst / bench.spin_best : 1;
    if (getloadavg(load, 1) < 1) load[0] = -1;
    const char *words = swing > 1.5 || load[0] > (double)sysconf(_SC_NPROCESSORS_ONLN)
                            ? "noisy: the spread says how far to trust each line"
                            : "quiet enough";
    if (bench.json)
        printf("{\"name\": \"machine\", \"cores\": %ld, \"load\": %.2f, \"fixed_work_worst_over_best\": "
               "%.2f, \"verdict\": \"%s\"}\n",
               sysconf(_SC_NPROCESSORS_ONLN), load[0], swing, words);
    else
        printf("%smachine: %ld cores, load %.2f, a fixed piece of work took up to %.2f times its best: %s\n",
               bench.markdown ? "\n" : "", sysconf(_SC_NPROCESSORS_ONLN), load[0], swing, words);
    if (!bench.json && (bench.unmet || bench.noisy))
        printf("%d not met, %d too noisy to say\n", bench.unmet, bench.noisy);
    return bench.strict && bench.unmet > 0;
}

#endif
