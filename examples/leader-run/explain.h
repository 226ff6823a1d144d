/* --explain: what follows from the times given, in numbers, for each store. */
#ifndef EXPLAIN_H_INCLUDED
#define EXPLAIN_H_INCLUDED

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

typedef struct explain_times {
    int64_t lease_ms, deadline_ms, renew_ms, grace_ms, retry_ms;
} explain_times;

/* "2.5 s", "800 ms" */
static const char *explain_ms(int64_t ms, char text[32]) {
    if (ms < 1000) {
        snprintf(text, 32, "%" PRId64 " ms", ms);
    } else if (ms % 1000 == 0) {
        snprintf(text, 32, "%" PRId64 " s", ms / 1000);
    } else {
        snprintf(text, 32, "%" PRId64 ".%0*" PRId64 " s", ms / 1000, ms % 100 ? 3 : 1,
                 ms % 100 ? ms % 1000 : ms % 1000 / 100);
    }
    return text;
}

static void explain_line(const char *what, int64_t ms, const char *why) {
    char text[32];
    printf("  %-11s %8s   %s\n", what, explain_ms(ms, text), why);
}

static void explain_range(const char *kind, const char *what, int64_t from_ms, int64_t to_ms) {
    char from[32];
    char to[32];
    printf("  %-11s %-28s %s to %s\n", kind, what, explain_ms(from_ms, from), explain_ms(to_ms, to));
}

static void explain_at_once(const char *kind, const char *what, const char *how) {
    printf("  %-11s %-28s %s\n", kind, what, how);
}

static void explain(const explain_times *t) {
    enum { K8S_EARLY_MS = 1000 };               // validity ends so much earlier beside client-go candidates
    int64_t stop_ms = t->deadline_ms - t->grace_ms;
    int64_t retry_ms = (t->deadline_ms - t->renew_ms) / 10 < 500 ? (t->deadline_ms - t->renew_ms) / 10 : 500;
    // tried again at least that often, until it is too late
    int64_t last_try_ms = stop_ms - t->renew_ms - retry_ms * 4;
    if (last_try_ms < 0) {
        last_try_ms = 0;
    }
    puts("times");
    explain_line("lease", t->lease_ms, "others wait this long for a leader that is not heard of");
    explain_line("deadline", t->deadline_ms, "after the last renewal that succeeded, the command is killed");
    explain_line("stop", stop_ms, "after that renewal, the command gets SIGTERM");
    explain_line("grace", t->grace_ms, "between the two");
    explain_line("renewal", t->renew_ms, "between renewals");
    explain_line("retry", t->retry_ms, "between the looks of a standby");
    explain_line("margin", t->lease_ms - t->deadline_ms,
                 "left for killing, and for clocks that differ in rate");
    printf("\nrequests   leader %.1f a minute, each standby %.1f a minute\n", 60000.0 / (double)t->renew_ms,
           60000.0 / (double)t->retry_ms);
    puts("\na hiccup   of the store or the network costs nothing");
    explain_line("always", last_try_ms,
                 "up to this long, whenever it begins: then the last retry of a renewal is due");
    explain_line("at best", t->renew_ms + last_try_ms, "if it begins right after a renewal");
    puts("\nfailover   from the end of the leader to the start of the next command");
    explain_at_once("file", "hand-over, or crash here", "at once");
    explain_range("file", "crash on another machine", t->lease_ms - t->renew_ms, t->lease_ms + t->retry_ms);
    explain_at_once("redis", "hand-over", "at once, one round trip");
    explain_range("redis", "crash", t->lease_ms - t->renew_ms, t->lease_ms);
    const char *const registers[] = {"k8s", "etcd", "pg"};
    for (size_t i = 0; i < sizeof registers / sizeof registers[0]; i++) {
        explain_at_once(registers[i], "hand-over", "at once, one round trip");
        explain_range(registers[i], "crash", t->lease_ms - t->renew_ms, t->lease_ms + t->retry_ms);
    }
    explain_at_once("majority", "hand-over", "at once");
    explain_range("majority", "crash", t->lease_ms - t->renew_ms, t->lease_ms + t->retry_ms);
    if (t->deadline_ms + K8S_EARLY_MS > t->lease_ms) {
        puts("\nk8s needs a --deadline at least 1 s below --lease: client-go candidates may take over up to "
             "1 s early");
    }
}

#endif // EXPLAIN_H_INCLUDED
