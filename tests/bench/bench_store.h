/* What the benches of the register stores share: a leader and a standby in one process, measured in turns
   with the least that a change of the record can cost with the same library. The including file says what
   the store is:

       store_kind                                       its struct, with an `engine`
       store_make(store_kind *, election, listens)      its backend
       store_change()                                   one bare conditional write, on a kept connection */
#ifndef LEADER_BENCH_STORE_H
#define LEADER_BENCH_STORE_H

#include "tests/bench/bench.h"

#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

typedef struct contender {
    leader_t me;
    store_kind store;
    leader_register inner; // the store's own functions, under those that count
    uint64_t asked_id, asked; // the last request, and how many there were
    bool open, frozen;
} contender;

static contender a, b;
static int64_t turned_ms; // by how much the clock has been put forward

static void die(const char *what) {
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static int64_t turned_clock(void *user) {
    (void)user;
    return leader_clock_ms_() + turned_ms;
}

static contender *count_request(void *self, const leader_call *call) {
    contender *c = self == &a.store ? &a : &b;
    if (call->id != c->asked_id) {
        c->asked_id = call->id;
        c->asked++;
    }
    return c;
}

static leader_result counted_read(void *self, const leader_call *call, leader_entry *found) {
    return count_request(self, call)->inner.read(self, call, found);
}

static leader_result counted_write(void *self, const leader_call *call, const leader_entry *next,
                                   leader_entry *stored) {
    return count_request(self, call)->inner.write(self, call, next, stored);
}

static void enter(contender *c, const char *name, const char *election, int64_t lease_ms, bool listens) {
    leader_config config;
    memset(&config, 0, sizeof config);
    memset(c, 0, sizeof *c);
    config.identity = name;
    config.lease_ms = lease_ms;
    config.clock_ms = turned_clock;
    config.backend = store_make(&c->store, election, listens);
    c->inner = c->store.engine.store;
    c->store.engine.store.read = counted_read;
    c->store.engine.store.write = counted_write;
    if (leader_init(&c->me, &config) != LEADER_OK) {
        die(leader_error(&c->me));
    }
    c->open = true;
}

static void leave(contender *c) {
    if (c->open) {
        leader_close(&c->me, 1000);
    }
    c->open = false;
}

static void tick_both(void) {
    contender *both[2] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        if (both[i]->open && !both[i]->frozen) {
            leader_tick(&both[i]->me);
        }
    }
}

static bool a_leads(void) {
    return leader_is_leader(&a.me);
}

static bool b_leads(void) {
    return leader_is_leader(&b.me);
}

static bool b_knows(void) {
    char who[LEADER_IDENTITY_MAX + 1];
    leader_get_leader(&b.me, who, sizeof who);
    return strcmp(who, "leader") == 0 && b.store.engine.listening;
}

static bool all_idle(void) {
    return a.me.request.op == LEADER_OP_NONE_ && (!b.open || b.me.request.op == LEADER_OP_NONE_);
}

static void until(bool (*holds)(void)) {
    double end = bench_now() + 60;
    while (!holds()) {
        if (bench_now() > end) {
            die("waited in vain");
        }
        tick_both();
        usleep(20);
    }
}

static void run_for(double seconds) {
    for (double end = bench_now() + seconds; bench_now() < end;) {
        tick_both();
        usleep(500);
    }
}

/* A record of its own, a leader, and a standby that knows it. */
static void pair(int64_t lease_ms) {
    static char election[40];
    static int number;
    snprintf(election, sizeof election, "bench-%d", number++);
    enter(&a, "leader", election, lease_ms, true);
    until(a_leads);
    enter(&b, "standby", election, lease_ms, true);
    until(b_knows);
}

static void part(void) {
    leave(&a);
    leave(&b);
}

static void bench_renewals(void) {
    enum { BATCH = 20 };
    static bench_series ours, bare, cpu, bare_cpu;
    enter(&a, "leader", "renewals", 15000, true);
    until(a_leads);
    for (int i = 0, rounds = bench_rounds(20); i < rounds; i++) {
        bench_progress("renewals", i, rounds);
        double from = bench_now();
        double used = bench_cpu();
        for (int k = 0; k < BATCH; k++) {
            store_change();
        }
        bench_add(&bare, BATCH / (bench_now() - from));
        bench_add(&bare_cpu, (bench_cpu() - used) / BATCH * 1e6);
        from = bench_now();
        used = bench_cpu();
        for (int k = 0; k < BATCH; k++) {
            uint64_t before = leader_get_stats(&a.me).renewals;
            turned_ms += 5001;
            leader_tick(&a.me);
            while (leader_get_stats(&a.me).renewals == before) {
                leader_sleep(&a.me, 1000);
                leader_tick(&a.me);
            }
        }
        bench_add(&ours, BATCH / (bench_now() - from));
        bench_add(&cpu, (bench_cpu() - used) / BATCH * 1e6);
    }
    leave(&a);
    bench_print(
        (bench_row){"renewals", "/s", &ours, "bare loop, same library", &bare, false, BENCH_NO_GOAL, 0});
    bench_print((bench_row){"renewal, CPU of this process", "us", &cpu, "bare loop", &bare_cpu, false,
                            BENCH_NO_GOAL, 0});
}

static double change_ms(void) {
    double from = bench_now();
    store_change();
    return (bench_now() - from) * 1e3;
}

/* From leader_stop() to the standby's first yes. `other` is the same with another program's lock; 0: there
   is none. */
static void bench_hand_overs(double (*other)(void), const char *other_name) {
    static bench_series ours, bare, others;
    for (int i = 0, rounds = bench_rounds(20); i < rounds; i++) {
        bench_progress("hand-overs", i, rounds);
        pair(15000);
        run_for(0.02);
        bench_add(&bare, change_ms());
        double from = bench_now();
        leader_stop(&a.me);
        until(b_leads);
        bench_add(&ours, (bench_now() - from) * 1e3);
        part();
        bench_add(&others, other());
    }
    bench_print((bench_row){"hand-over", "ms", &ours, "one bare write", &bare, false, BENCH_NO_GOAL, 0});
    bench_print((bench_row){"hand-over", "ms", &ours, other_name, &others, false, BENCH_NO_GOAL, 0});
}

/* The leader is never ticked again; its record runs out a lease after its last renewal was sent. */
static void bench_crashes(double (*other)(void), const char *other_name) {
    enum { LEASE_MS = 2000 };
    static bench_series excess, from_kill, others, bare;
    for (int i = 0, rounds = bench_rounds(8); i < rounds; i++) {
        bench_progress("crashes", i, rounds);
        pair(LEASE_MS);
        run_for(0.3 + 0.097 * (i % 8));
        bench_add(&bare, change_ms());
        a.frozen = true;
        double killed = bench_now();
        int64_t deadline_ms = LEASE_MS * 2 / 3;
        double sent = killed + (double)(leader_remaining_ms(&a.me) - deadline_ms) / 1e3;
        until(b_leads);
        bench_add(&excess, (bench_now() - sent) * 1e3 - LEASE_MS);
        bench_add(&from_kill, (bench_now() - killed) * 1e3);
        part();
        if (other) {
            bench_add(&others, other());
        }
    }
    bench_print((bench_row){"crash take-over, beyond the lease of 2 s", "ms", &excess, "one bare write",
                            &bare, true, BENCH_NO_GOAL, 0});
    if (other) {
        bench_print((bench_row){"crash take-over from the kill, lease 2 s", "ms", &from_kill, other_name,
                                &others, false, BENCH_NO_GOAL, 0});
    }
}

/* Ten minutes of the default timing, on a clock that is put forward. */
static void bench_requests(void) {
    enum { MINUTES = 10, STEP_MS = 250 };
    for (int listens = 1; listens >= 0; listens--) {
        enter(&a, "leader", listens ? "heard" : "polled", 15000, true);
        until(a_leads);
        enter(&b, "standby", listens ? "heard" : "polled", 15000, listens);
        run_for(0.3);
        uint64_t by_leader = a.asked;
        uint64_t by_standby = b.asked;
        for (int i = 0; i < MINUTES * 60000 / STEP_MS; i++) {
            turned_ms += STEP_MS;
            tick_both();
            until(all_idle);
            usleep(1000); // a notice arrives
            tick_both();
            until(all_idle);
        }
        if (!a_leads()) {
            die("the leader changed");
        }
        double standby = (double)(b.asked - by_standby) / MINUTES;
        if (listens) {
            bench_fact("requests a minute: leader", "", (double)(a.asked - by_leader) / MINUTES,
                       BENCH_AT_MOST, 13);
        }
        bench_fact(listens ? "requests a minute: standby that hears"
                           : "requests a minute: standby that polls",
                   "", standby, BENCH_NO_GOAL, 0);
        part();
    }
}

static void bench_memory(void) {
    size_t before = mallinfo2().uordblks;
    enter(&a, "leader", "memory", 15000, true);
    until(a_leads);
    run_for(0.2);
    double heap = (double)(mallinfo2().uordblks - before);
    bench_fact("memory of an election, its structs", "bytes", sizeof(leader_t) + sizeof(store_kind),
               BENCH_NO_GOAL, 0);
    bench_fact("memory of an election, heap of the library", "bytes", heap, BENCH_NO_GOAL, 0);
    leave(&a);
}

#endif
