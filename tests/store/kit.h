/* kit.h: what every store must do, written once.

   A store under test is a small C file that includes leader.h with its backend, and defines

       static const store_under_test store = { ... };

   tests/store/memory.c is the shortest one. Run the kit on it:

       make test-store STORE=path/to/their.c [CPPFLAGS=-I... LDFLAGS=-l...]

   The kit calls the functions of leader_backend as the core would, or runs whole elections on top of them.
   Its clock is the machine's plus an offset: pass() moves it, so that no lease is waited for in real time. */
#ifndef STORE_KIT_H
#define STORE_KIT_H

#include <stdbool.h>
#include <stdint.h>

struct leader_backend;

enum {                              // store_under_test.lacks: what does not apply to this store
    STORE_LACKS_RIVALS = 1,         // there is only ever one candidate
    STORE_LACKS_NOTICE = 2,         // standbys find a release by polling only
    STORE_LACKS_NETWORK = 4,        // it answers at once, there is nothing to wait for
    STORE_LACKS_VALUE = 8,          // a holder's value is not kept
    STORE_LACKS_HEIR = 16,          // a release is for anybody
    STORE_LACKS_CORRUPT = 32,       // what it cannot read counts as held by another program
    STORE_LACKS_REPAIR = 64         // what it cannot read stays until somebody repairs it
};

typedef struct store_under_test {
    const char *name;
    unsigned    lacks;
    void (*pass)(int64_t ms);       // its own clock, if leases are timed by one, goes on by this; NULL: none
    bool (*start)(void);            // false: it has said why
    void (*stop)(void);
    /* A backend for candidate number `slot`, from 0 to STORE_SLOTS - 1, in storage of its own. A slot is
       used again after its backend was closed. Slots may share a connection. */
    struct leader_backend (*backend)(int slot, const char *election);
    void (*wipe)(const char *election);     // the store forgets the record
    void (*corrupt)(const char *election);  // it is there and cannot be understood
    void (*silence)(bool on);               // the store hears and says nothing, or goes on
    int  elections;                 // 1000: how many at once, where the test's server is too slow for so many
} store_under_test;

enum { STORE_SLOTS = 1100 };
#endif

#ifdef STORE_KIT_IMPLEMENTATION
#include "tests/tools/patience.h"
#include "tests/tools/utest.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KIT_LEASE_MS = 15000, KIT_LIMIT_MS = 10000 };

static int64_t offset_ms;           // how far the kit's clock is ahead of the machine's
static int     elections;           // each test has an election of its own
static char    election[64];

static int64_t machine_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t kit_clock_ms(void *unused) {
    (void)unused;
    return machine_ms() + offset_ms;
}

static void nap(int ms) {
    poll(NULL, 0, ms);
}

static void pass(int64_t ms) {
    offset_ms += ms;
    if (store.pass) {
        store.pass(ms);
    }
}

/* ---- a candidate that calls the backend itself ------------------------------------------------------ */

typedef struct kit_candidate {
    leader_backend backend;
    leader_config  config;
    leader_host    host;
    leader_request request;
    leader_record  seen;
    leader_fd      fds[LEADER_FDS_MAX];
    int            fd_count;
    int            fd_errors;       // a descriptor was told that is not open
    int            silent_waits;    // PENDING without anything to wait for
    int            polls;
    bool           deaf;            // does not listen to what the backend says about descriptors
    char           logged[400];
} kit_candidate;

static void hear_fd(void *core, intptr_t fd, int events) {
    kit_candidate *c = (kit_candidate *)core;
    if (fcntl((int)fd, F_GETFD) == -1) {
        c->fd_errors++;
    }
    int i = 0;
    while (i < c->fd_count && c->fds[i].fd != fd) {
        i++;
    }
    if (events == 0 && i < c->fd_count) {
        c->fd_count--;
        c->fds[i] = c->fds[c->fd_count];
    }
    if (events != 0 && i < LEADER_FDS_MAX) {
        c->fds[i].fd = fd;
        c->fds[i].events = events;
        c->fd_count += i == c->fd_count;
    }
}

static void hear_due(void *core) {
    (void)core;
}

static void hear_log(void *core, leader_level level, const char *text) {
    (void)level;
    snprintf(((kit_candidate *)core)->logged, sizeof ((kit_candidate *)core)->logged, "%s", text);
}

static int64_t host_now_ms(void *core) {
    (void)core;
    return kit_clock_ms(NULL);
}

static void open_backend(kit_candidate *c, int slot) {
    leader_host host = {c, &c->config, hear_fd, hear_due, hear_log, host_now_ms, NULL};
    c->host = host;
    c->backend = store.backend(slot, election);
    const char *wrong = c->backend.open ? c->backend.open(c->backend.self, &c->host) : NULL;
    if (wrong) {
        printf("open: %s\n", wrong);
        abort();
    }
}

static void join(kit_candidate *c, int slot, const char *name, uint64_t nonce) {
    memset(c, 0, sizeof *c);
    c->config.identity = name;
    c->config.lease_ms = KIT_LEASE_MS;
    c->config.renew_deadline_ms = KIT_LEASE_MS * 2 / 3;
    c->config.renew_ms = KIT_LEASE_MS / 3;
    c->config.retry_ms = KIT_LEASE_MS / 8;
    c->config.request_timeout_ms = 10000;
    c->request.identity = name;
    c->request.nonce = nonce;
    c->request.lease_ms = KIT_LEASE_MS;
    c->request.timeout_ms = 10000;
    c->request.min_token = 1;
    c->request.value = "";
    c->request.heir = "";
    c->request.value = "";
    c->request.heir = "";
    open_backend(c, slot);
}

static void leave(kit_candidate *c) {
    if (c->backend.cancel) {
        c->backend.cancel(c->backend.self);
    }
    if (c->backend.close) {
        c->backend.close(c->backend.self);
    }
    memset(&c->backend, 0, sizeof c->backend);
}

static void wait_for_fds(const kit_candidate *c, int ms) {
    struct pollfd wait[LEADER_FDS_MAX];
    int count = c->deaf ? 0 : c->fd_count;
    for (int i = 0; i < count; i++) {
        bool reads = (c->fds[i].events & LEADER_READ) != 0;
        bool writes = (c->fds[i].events & LEADER_WRITE) != 0;
        wait[i].fd = (int)c->fds[i].fd;
        wait[i].events = (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
        wait[i].revents = 0;
    }
    poll(wait, (nfds_t)count, ms);
}

typedef leader_result (*operation)(void *self, const leader_request *, leader_record *);

static void begin(kit_candidate *c) {
    c->request.seq++;
    c->request.now_ms = kit_clock_ms(NULL);
}

static leader_result call(kit_candidate *c, operation what) {
    memset(&c->seen, 0, sizeof c->seen);
    if (c->backend.poll) {
        c->backend.poll(c->backend.self);
    }
    leader_result result = what(c->backend.self, &c->request, &c->seen);
    c->polls++;
    if (result == LEADER_PENDING && c->fd_count == 0 && c->seen.again_ms == 0) {
        c->silent_waits++;
    }
    return result;
}

/* Until it is over, as the core would. */
static leader_result finish(kit_candidate *c, operation what) {
    patience limit = patience_ms(KIT_LIMIT_MS);
    leader_result result = call(c, what);
    while (result == LEADER_PENDING && patience_left(&limit)) {
        wait_for_fds(c, 5);
        result = call(c, what);
    }
    if (c->seen.token >= c->request.min_token) {
        c->request.min_token = c->seen.token + 1;
    }
    return result;
}

static leader_result kit_ask(kit_candidate *c, operation what) {
    begin(c);
    return finish(c, what);
}

#define ACQUIRE(c) kit_ask(&(c), (c).backend.acquire)
#define RENEW(c)   kit_ask(&(c), (c).backend.renew)
#define RELEASE(c) kit_ask(&(c), (c).backend.release)

/* Does the candidate lead by this answer to an acquire? */
static bool is_leading(const kit_candidate *c, leader_result result) {
    return result == LEADER_OK && c->seen.hold_off_ms == 0;
}

/* A store that tells of changes may answer from what it was told, a moment after the change; one that
   changed behind its back shows when it is asked again. Asks until the answer is the expected one, for
   less than a lease. */
static leader_result kit_ask_until(kit_candidate *c, operation what, leader_result expected) {
    leader_result result = kit_ask(c, what);
    for (int i = 0; i < 200 && result != expected; i++) {
        nap(1);
        pass(KIT_LEASE_MS / 400);
        result = kit_ask(c, what);
    }
    return result;
}

/* Goes on until it leads, as the core does: what holds off is renewed, what is held is asked for again. */
static bool leads_in_the_end(kit_candidate *c, leader_result result) {
    for (int i = 0; i < 10 && result != LEADER_OK; i++) {
        pass(KIT_LEASE_MS / 3);
        result = ACQUIRE(*c);
    }
    int64_t hold_off_ms = c->seen.hold_off_ms;
    for (; result == LEADER_OK && hold_off_ms > 0; hold_off_ms -= KIT_LEASE_MS / 3) {
        pass(KIT_LEASE_MS / 3);
        result = RENEW(*c);
    }
    return result == LEADER_OK;
}

struct kit {
    kit_candidate a, b, c;
};

#define A (utest_fixture->a)
#define B (utest_fixture->b)
#define C (utest_fixture->c)

#define APPLIES_UNLESS(what)                                                     \
    if (store.lacks & (what)) {                                                  \
        printf("             does not apply to %s\n", store.name);               \
        return;                                                                  \
    }                                                                            \
    (void)utest_fixture

UTEST_F_SETUP(kit) {
    snprintf(election, sizeof election, "kit-%ld-%d", (long)getpid(), elections++);
    join(&A, 0, "ann", 0xa);
    join(&B, 1, "bob", 0xb);
    ASSERT_TRUE(true);
}

UTEST_F_TEARDOWN(kit) {
    kit_candidate *all[3] = {&A, &B, &C};
    for (int i = 0; i < 3; i++) {
        if (all[i]->backend.self || all[i]->backend.acquire) {
            leave(all[i]);
        }
        EXPECT_EQ(0, all[i]->fd_errors);
        EXPECT_EQ(0, all[i]->fd_count);
        EXPECT_EQ(0, all[i]->silent_waits);
    }
}

/* ---- acquire, exclude, renew, expiry, release ------------------------------------------------------- */

UTEST_F(kit, acquire_on_an_empty_store_leads_at_once) {
    APPLIES_UNLESS(0);
    leader_result result = ACQUIRE(A);
    ASSERT_TRUE(is_leading(&A, result));
    ASSERT_GT(A.seen.token, 0u);
}

UTEST_F(kit, a_second_candidate_is_kept_out) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_STREQ("ann", B.seen.holder);
    ASSERT_GT(B.seen.expires_in_ms, 0);
    ASSERT_LE(B.seen.expires_in_ms, KIT_LEASE_MS + 1);
}

UTEST_F(kit, a_renewal_keeps_the_token_and_the_others_out) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    uint64_t token = A.seen.token;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    for (int i = 0; i < 3; i++) {
        pass(KIT_LEASE_MS / 2);
        ASSERT_EQ(LEADER_OK, RENEW(A));
        ASSERT_TRUE(A.seen.token == token || A.seen.token == 0);    // 0: a renewal does not say
        ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    }
}

UTEST_F(kit, an_expired_lease_is_taken_with_a_higher_token) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    uint64_t token = A.seen.token;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    pass(KIT_LEASE_MS / 2);
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    pass(KIT_LEASE_MS / 2 + 20);
    leader_result result = ACQUIRE(B);
    ASSERT_TRUE(is_leading(&B, result));
    ASSERT_GT(B.seen.token, token);
    ASSERT_EQ(LEADER_LOST, RENEW(A));
    ASSERT_STREQ("bob", A.seen.holder);
}

UTEST_F(kit, a_release_hands_over_at_once) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    leader_result result = kit_ask_until(&B, B.backend.acquire, LEADER_OK);
    ASSERT_TRUE(is_leading(&B, result));
    ASSERT_EQ(LEADER_HELD, kit_ask_until(&A, A.backend.acquire, LEADER_HELD));
}

UTEST_F(kit, who_does_not_hold_it_neither_renews_nor_releases) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_LOST, RENEW(B));
    ASSERT_EQ(LEADER_LOST, RELEASE(B));
    ASSERT_EQ(LEADER_OK, RENEW(A));
}

UTEST_F(kit, observe_tells_the_holder_and_takes_nothing) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    ASSERT_TRUE(B.backend.observe != NULL);
    ASSERT_EQ(LEADER_OK, kit_ask(&B, B.backend.observe));
    ASSERT_STREQ("", B.seen.holder);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, kit_ask_until(&B, B.backend.observe, LEADER_HELD));
    ASSERT_STREQ("ann", B.seen.holder);
    ASSERT_EQ(LEADER_OK, RENEW(A));
}

UTEST_F(kit, any_identity_comes_back_as_it_was) {
    static const char quoted[] =
        "a \"quoted\" \\ name / with \xc3\xa4\xe2\x82\xac\xf0\x9f\xa6\x86 and 'more'; --";
    static char       longest[LEADER_IDENTITY_MAX + 1];
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    memset(longest, '"', sizeof longest - 1);
    A.request.identity = quoted;
    A.config.identity = quoted;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_STREQ(quoted, B.seen.holder);
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    join(&C, 2, longest, 0xc);
    ASSERT_EQ(LEADER_OK, ACQUIRE(C));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    for (patience p = patience_ms(5000); strcmp(B.seen.holder, longest) != 0 && patience_left(&p);) {
        nap(1);                     // a standby that listens may not have heard of C yet
        ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    }
    ASSERT_STREQ(longest, B.seen.holder);
}

UTEST_F(kit, a_value_is_kept_with_the_term) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS | STORE_LACKS_VALUE);
    A.request.value = "http://10.0.0.1:8080/ \"\\";
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_STREQ(A.request.value, B.seen.value);
    A.request.value = "changed";
    ASSERT_EQ(LEADER_OK, RENEW(A));
    for (patience p = patience_ms(5000); strcmp(B.seen.value, "changed") != 0 && patience_left(&p);) {
        ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
        nap(1);
    }
    ASSERT_STREQ("changed", B.seen.value);
}

UTEST_F(kit, a_release_for_an_heir_is_for_the_heir_first) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS | STORE_LACKS_HEIR);
    join(&C, 2, "cid", 0xc);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    A.request.heir = "cid";
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    leader_result result = kit_ask_until(&C, C.backend.acquire, LEADER_OK);
    ASSERT_TRUE(is_leading(&C, result));
    C.request.heir = "dan";         // who never comes
    ASSERT_EQ(LEADER_OK, RELEASE(C));
    ASSERT_EQ(LEADER_OK, kit_ask_until(&B, B.backend.acquire, LEADER_OK));
}

/* Two requests, a call of the one and a call of the other in turn. Answers how many of the two lead. */
static int race(kit_candidate *a, kit_candidate *b) {
    leader_result results[2] = {LEADER_PENDING, LEADER_PENDING};
    kit_candidate *both[2] = {a, b};
    patience limit = patience_ms(KIT_LIMIT_MS);
    begin(a);
    begin(b);
    while (patience_left(&limit) && (results[0] == LEADER_PENDING || results[1] == LEADER_PENDING)) {
        for (int i = 0; i < 2; i++) {
            if (results[i] == LEADER_PENDING) {
                results[i] = call(both[i], both[i]->backend.acquire);
            }
        }
        nap(results[0] == LEADER_PENDING || results[1] == LEADER_PENDING);
    }
    return is_leading(a, results[0]) + is_leading(b, results[1]);
}

UTEST_F(kit, of_two_that_race_one_leads) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    join(&C, 2, "cid", 0xc);
    ASSERT_EQ(1, race(&B, &C));     // for an empty store
    RELEASE(B);
    RELEASE(C);
    for (int i = 0; i < 10; i++) {
        ASSERT_EQ(LEADER_OK, kit_ask_until(&A, A.backend.acquire, LEADER_OK));
        ASSERT_EQ(LEADER_HELD, kit_ask_until(&B, B.backend.acquire, LEADER_HELD));
        ASSERT_EQ(LEADER_HELD, kit_ask_until(&C, C.backend.acquire, LEADER_HELD));
        pass(KIT_LEASE_MS + 20);
        ASSERT_EQ(1, i % 2 ? race(&B, &C) : race(&C, &B));      // for an expired lease
        RELEASE(B);
        RELEASE(C);
    }
}

/* ---- tokens, nonces, adoption ----------------------------------------------------------------------- */

UTEST_F(kit, tokens_rise_from_term_to_term) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        kit_candidate *c = i % 2 ? &A : &B;
        ASSERT_EQ(LEADER_OK, kit_ask_until(c, c->backend.acquire, LEADER_OK));
        ASSERT_GT(c->seen.token, last);
        last = c->seen.token;
        ASSERT_EQ(LEADER_OK, RENEW(*c));
        ASSERT_TRUE(c->seen.token == last || c->seen.token == 0);
        ASSERT_EQ(LEADER_OK, RELEASE(*c));
    }
}

UTEST_F(kit, the_same_name_in_another_process_is_no_owner) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    join(&C, 2, "ann", 0xc);
    leader_result result = ACQUIRE(C);
    ASSERT_TRUE(result == LEADER_HELD || result == LEADER_E_DUPLICATE);
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_EQ(LEADER_E_DUPLICATE, kit_ask_until(&C, C.backend.acquire, LEADER_E_DUPLICATE));
    ASSERT_NE(LEADER_OK, RENEW(C));
    ASSERT_EQ(LEADER_LOST, RELEASE(C));
    ASSERT_EQ(LEADER_OK, RENEW(A));
}

UTEST_F(kit, a_vouched_for_identity_is_reclaimed_at_once) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    uint64_t token = A.seen.token;
    join(&C, 2, "ann", 0xc);
    C.request.reclaim = true;
    leader_result result = ACQUIRE(C);
    ASSERT_TRUE(is_leading(&C, result));
    ASSERT_GT(C.seen.token, token);
}

UTEST_F(kit, an_own_record_is_adopted_with_a_new_token) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    uint64_t token = A.seen.token;
    pass(KIT_LEASE_MS / 2);
    leader_result result = ACQUIRE(A);
    ASSERT_TRUE(is_leading(&A, result));
    ASSERT_GT(A.seen.token, token);
    ASSERT_EQ(LEADER_OK, RENEW(A));
    pass(KIT_LEASE_MS / 2 + 20);
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
}

UTEST_F(kit, a_late_release_frees_no_later_term) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    A.request.seq = 100;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    join(&C, 2, "ann", 0xa);        // the same process, as it was before that term
    C.request.seq = 50;
    ASSERT_EQ(LEADER_LOST, RELEASE(C));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(LEADER_OK, RENEW(A));
}

/* ---- a store that forgets or garbles ------------------------------------------------------------------ */

UTEST_F(kit, a_wiped_record_is_no_release) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    uint64_t token = A.seen.token;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    store.wipe(election);
    leader_result result = ACQUIRE(B);
    ASSERT_FALSE(is_leading(&B, result));
    ASSERT_TRUE(leads_in_the_end(&B, result));
    ASSERT_GT(B.request.min_token - 1, token);
}

UTEST_F(kit, who_holds_a_wiped_record_does_not_renew_it) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    store.wipe(election);
    ASSERT_NE(LEADER_OK, RENEW(A));
    ASSERT_NE(LEADER_OK, RELEASE(A));
}

UTEST_F(kit, a_ghost_of_our_own_does_not_lead_at_once) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    A.request.seq = 100;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    ASSERT_EQ(LEADER_OK, ACQUIRE(B));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(A));
    store.wipe(election);           // bob leads on; a request that ann gave up long ago is carried out now
    join(&C, 2, "ann", 0xa);
    C.request.seq = 50;
    ASSERT_EQ(LEADER_OK, ACQUIRE(C));
    leader_result result = ACQUIRE(A);
    ASSERT_FALSE(is_leading(&A, result));
}

UTEST_F(kit, an_unreadable_record_keeps_everybody_out) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    store.corrupt(election);
    leader_result expected = store.lacks & STORE_LACKS_CORRUPT ? LEADER_HELD : LEADER_E_CORRUPT;
    ASSERT_EQ(expected, kit_ask_until(&B, B.backend.acquire, expected));
    pass(KIT_LEASE_MS / 2);
    ASSERT_NE(LEADER_OK, ACQUIRE(B));
}

UTEST_F(kit, an_unreadable_record_is_replaced_after_a_lease) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS | STORE_LACKS_REPAIR);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    uint64_t token = A.seen.token;
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    store.corrupt(election);
    leader_result expected = store.lacks & STORE_LACKS_CORRUPT ? LEADER_HELD : LEADER_E_CORRUPT;
    leader_result result = kit_ask_until(&B, B.backend.acquire, expected);
    ASSERT_EQ(expected, result);
    ASSERT_TRUE(leads_in_the_end(&B, result));
    ASSERT_GT(B.request.min_token - 1, token);
}

/* ---- requests that are given up ---------------------------------------------------------------- */

/* A request is given up after each of its calls in turn; the next one must answer for itself alone. */
UTEST_F(kit, cancel_at_every_point_of_an_acquire) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS | STORE_LACKS_NETWORK);
    bool done = false;
    for (int point = 1; point < 100 && !done; point++) {
        begin(&A);
        leader_result result = LEADER_PENDING;
        for (int i = 0; i < point && result == LEADER_PENDING; i++) {
            result = call(&A, A.backend.acquire);
            wait_for_fds(&A, 20);
        }
        done = result != LEADER_PENDING;
        if (!done) {
            A.backend.cancel(A.backend.self);
        }
        result = ACQUIRE(A);
        ASSERT_TRUE(is_leading(&A, result));
        ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
        ASSERT_STREQ("ann", B.seen.holder);
        ASSERT_EQ(LEADER_OK, RELEASE(A));
    }
    ASSERT_TRUE(done);
}

UTEST_F(kit, cancel_at_every_point_of_a_renewal) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS | STORE_LACKS_NETWORK);
    bool done = false;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    for (int point = 1; point < 100 && !done; point++) {
        begin(&A);
        leader_result result = LEADER_PENDING;
        for (int i = 0; i < point && result == LEADER_PENDING; i++) {
            result = call(&A, A.backend.renew);
            wait_for_fds(&A, 20);
        }
        done = result != LEADER_PENDING;
        if (!done) {
            A.backend.cancel(A.backend.self);
        }
        ASSERT_EQ(LEADER_OK, RENEW(A));
    }
    ASSERT_TRUE(done);
    ASSERT_EQ(LEADER_OK, RELEASE(A));
}

UTEST_F(kit, cancel_at_every_point_of_a_release) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS | STORE_LACKS_NETWORK);
    bool done = false;
    for (int point = 1; point < 100 && !done; point++) {
        ASSERT_EQ(LEADER_OK, kit_ask_until(&A, A.backend.acquire, LEADER_OK));
        begin(&A);
        leader_result result = LEADER_PENDING;
        for (int i = 0; i < point && result == LEADER_PENDING; i++) {
            result = call(&A, A.backend.release);
            wait_for_fds(&A, 20);
        }
        done = result != LEADER_PENDING;
        if (!done) {
            A.backend.cancel(A.backend.self);
        }
        result = RELEASE(A);
        ASSERT_TRUE(result == LEADER_OK || result == LEADER_LOST);
        result = kit_ask_until(&B, B.backend.acquire, LEADER_OK);
        ASSERT_TRUE(is_leading(&B, result));
        ASSERT_EQ(LEADER_OK, RELEASE(B));
    }
    ASSERT_TRUE(done);
}

UTEST_F(kit, close_at_every_point) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS | STORE_LACKS_NETWORK);
    for (int point = 1; point < 8; point++) {
        join(&C, 2, "cid", 0xc + (uint64_t)point);
        begin(&C);
        leader_result result = LEADER_PENDING;
        for (int i = 0; i < point && result == LEADER_PENDING; i++) {
            result = call(&C, C.backend.acquire);
            wait_for_fds(&C, 20);
        }
        leave(&C);
        ASSERT_EQ(0, C.fd_errors);
        ASSERT_EQ(0, C.fd_count);
    }
    pass(KIT_LEASE_MS + 20);
    leader_result result = ACQUIRE(A);
    ASSERT_TRUE(leads_in_the_end(&A, result));
}

/* The store hears the request only after its sender has given it up. */
UTEST_F(kit, an_unknown_outcome_is_found_out) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS | STORE_LACKS_NETWORK);
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    uint64_t token = A.seen.token;
    store.silence(true);
    begin(&A);
    leader_result result = LEADER_PENDING;
    for (int i = 0; i < 10; i++) {
        result = call(&A, A.backend.acquire);
        ASSERT_EQ(LEADER_PENDING, result);
        nap(2);
    }
    A.backend.cancel(A.backend.self);
    store.silence(false);
    result = ACQUIRE(A);
    ASSERT_TRUE(is_leading(&A, result));
    ASSERT_GT(A.seen.token, token);
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_EQ(LEADER_OK, RELEASE(A));
}

UTEST_F(kit, descriptors_need_not_be_watched) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    A.deaf = true;
    B.deaf = true;
    ASSERT_EQ(LEADER_OK, ACQUIRE(A));
    ASSERT_EQ(LEADER_HELD, ACQUIRE(B));
    ASSERT_EQ(LEADER_OK, RENEW(A));
    ASSERT_EQ(LEADER_OK, RELEASE(A));
    leader_result result = kit_ask_until(&B, B.backend.acquire, LEADER_OK);
    ASSERT_TRUE(is_leading(&B, result));
}

/* ---- whole elections --------------------------------------------------------------------------- */

static leader_t nodes[STORE_SLOTS];

static void ignore_log(void *user, leader_level level, const char *text) {
    (void)user;
    (void)level;
    (void)text;
}

static bool start_node(int slot, const char *name, leader_config *config) {
    config->identity = name;
    config->backend = store.backend(slot, election);
    config->clock_ms = kit_clock_ms;
    config->on_log = ignore_log;
    if (config->lease_ms == 0) {
        config->lease_ms = KIT_LEASE_MS;
    }
    if (leader_init(&nodes[slot], config) == LEADER_OK) {
        return true;
    }
    printf("leader_init: %s\n", leader_error(&nodes[slot]));
    return false;
}

static int count_leaders(int first, int count) {
    int leaders = 0;
    for (int i = first; i < first + count; i++) {
        leaders += leader_is_leader(&nodes[i]);
    }
    return leaders;
}

/* Ticks all of them until so many lead. Never more than allowed. */
static bool run_until(int first, int count, int leaders, int allowed) {
    patience limit = patience_ms(KIT_LIMIT_MS);
    while (patience_left(&limit)) {
        for (int i = first; i < first + count; i++) {
            leader_tick(&nodes[i]);
        }
        int now = count_leaders(first, count);
        if (now > allowed) {
            return false;
        }
        if (now == leaders) {
            return true;
        }
        nap(1);
    }
    return false;
}

enum { ANN = 10, BOB = 11, CID = 12 };

UTEST_F(kit, a_release_wakes_a_standby) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS | STORE_LACKS_NOTICE);
    leader_config config;
    memset(&config, 0, sizeof config);
    config.lease_ms = 600000;
    config.retry_ms = 200000;       // nobody waits that long here: only the notice can be the reason
    ASSERT_TRUE(start_node(ANN, "ann", &config));
    ASSERT_TRUE(run_until(ANN, 1, 1, 1));
    ASSERT_TRUE(start_node(BOB, "bob", &config));
    leader_view view = leader_get_view(&nodes[BOB]);
    patience limit = patience_ms(KIT_LIMIT_MS);
    while (patience_left(&limit) && strcmp(view.leader, "ann") != 0) {
        ASSERT_EQ(1, leader_is_leader(&nodes[ANN]));
        leader_tick(&nodes[ANN]);
        leader_tick(&nodes[BOB]);
        nap(1);
        view = leader_get_view(&nodes[BOB]);
    }
    ASSERT_STREQ("ann", view.leader);
    for (int i = 0; i < 50; i++) {  // whatever has to be subscribed to is
        leader_tick(&nodes[BOB]);
        nap(2);
    }
    uint64_t token = leader_token(&nodes[ANN]);
    ASSERT_EQ(LEADER_OK, leader_close(&nodes[ANN], KIT_LIMIT_MS));
    ASSERT_TRUE(run_until(BOB, 1, 1, 1));
    ASSERT_GT(leader_token(&nodes[BOB]), token);
    ASSERT_EQ(LEADER_OK, leader_close(&nodes[BOB], KIT_LIMIT_MS));
}

UTEST_F(kit, a_cautious_start_waits_on_an_empty_store) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    leader_config config;
    memset(&config, 0, sizeof config);
    config.cautious_start = true;
    ASSERT_TRUE(start_node(ANN, "ann", &config));
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 10; k++) {
            leader_tick(&nodes[ANN]);
            ASSERT_FALSE(leader_is_leader(&nodes[ANN]));
            nap(1);
        }
        pass(KIT_LEASE_MS / 10);
    }
    for (int i = 0; i < 400 && !leader_is_leader(&nodes[ANN]); i++) {
        pass(KIT_LEASE_MS / 10);
        for (int k = 0; k < 10 + i; k++) {      // a slow server needs longer between two steps of the clock
            leader_tick(&nodes[ANN]);
            nap(1);
        }
    }
    EXPECT_TRUE(leader_is_leader(&nodes[ANN]));
    leader_close(&nodes[ANN], KIT_LIMIT_MS);
}

UTEST_F(kit, never_two_leaders_over_a_wiped_store) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    leader_config config;
    memset(&config, 0, sizeof config);
    ASSERT_TRUE(start_node(ANN, "ann", &config));
    ASSERT_TRUE(run_until(ANN, 1, 1, 1));
    uint64_t token = leader_token(&nodes[ANN]);
    ASSERT_TRUE(start_node(BOB, "bob", &config));
    patience limit = patience_ms(KIT_LIMIT_MS);
    while (patience_left(&limit) && leader_get_view(&nodes[BOB]).leader[0] == 0) {
        ASSERT_TRUE(run_until(ANN, 2, 1, 1));
        nap(1);
    }
    store.wipe(election);
    for (int i = 0; i < 40; i++) {  // four leases
        pass(KIT_LEASE_MS / 10);
        for (int k = 0; k < 5; k++) {
            leader_tick(&nodes[BOB]);
            leader_tick(&nodes[ANN]);
            ASSERT_LE(count_leaders(ANN, 2), 1);
            nap(1);
        }
    }
    ASSERT_TRUE(run_until(ANN, 2, 1, 1));
    uint64_t later = leader_token(&nodes[ANN]) + leader_token(&nodes[BOB]);
    ASSERT_GT(later, token);
    leader_close(&nodes[ANN], KIT_LIMIT_MS);
    leader_close(&nodes[BOB], KIT_LIMIT_MS);
}

static int64_t cpu_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static long sleeps(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
}

/* A silent store ends the term at the deadline. Not one tick works for more than 5 ms, and ticks do not
   wait: a call that waits gives the processor away. */
UTEST_F(kit, a_silent_store_ends_the_term_and_holds_up_no_tick) {
    APPLIES_UNLESS(STORE_LACKS_NETWORK);
    leader_config config;
    memset(&config, 0, sizeof config);
    ASSERT_TRUE(start_node(ANN, "ann", &config));
    ASSERT_TRUE(run_until(ANN, 1, 1, 1));
    store.silence(true);
    int64_t worst_us = 0;
    long    waited = 0;
    int     ticks = 0;
    for (int i = 0; i < 400; i++) {
        pass(KIT_LEASE_MS / 200);
        long    sleeps_before = sleeps();
        int64_t before_us = cpu_us();
        leader_tick(&nodes[ANN]);
        int64_t took_us = cpu_us() - before_us;
        waited += sleeps() - sleeps_before;
        worst_us = took_us > worst_us ? took_us : worst_us;
        ticks++;
    }
    EXPECT_FALSE(leader_is_leader(&nodes[ANN]));
    store.silence(false);
    EXPECT_LE(worst_us, 5000);
    EXPECT_LE(waited, ticks / 10);
    EXPECT_TRUE(run_until(ANN, 1, 1, 1));
    leader_close(&nodes[ANN], KIT_LIMIT_MS);
}

UTEST_F(kit, a_forked_child_is_nobody_and_harms_nothing) {
    APPLIES_UNLESS(STORE_LACKS_RIVALS);
    leader_config config;
    memset(&config, 0, sizeof config);
    ASSERT_TRUE(start_node(ANN, "ann", &config));
    ASSERT_TRUE(run_until(ANN, 1, 1, 1));
    uint64_t token = leader_token(&nodes[ANN]);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        bool nobody = !leader_is_leader(&nodes[ANN]) && leader_token(&nodes[ANN]) == 0;
        leader_tick(&nodes[ANN]);
        leader_close(&nodes[ANN], 1000);
        kit_candidate own;
        join(&own, 2, "child", 0xdd);
        leader_result result = ACQUIRE(own);
        bool kept_out = result == LEADER_HELD && strcmp(own.seen.holder, "ann") == 0;
        leave(&own);
        _exit(nobody && kept_out ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    ASSERT_EQ(0, status);
    uint64_t failures = leader_get_stats(&nodes[ANN]).failures;
    uint64_t renewals = leader_get_stats(&nodes[ANN]).renewals;
    pass(KIT_LEASE_MS / 3);
    patience limit = patience_ms(KIT_LIMIT_MS);
    while (patience_left(&limit) && leader_get_stats(&nodes[ANN]).renewals == renewals) {
        ASSERT_TRUE(leader_is_leader(&nodes[ANN]));
        leader_tick(&nodes[ANN]);
        nap(1);
    }
    ASSERT_GT(leader_get_stats(&nodes[ANN]).renewals, renewals);
    ASSERT_EQ(failures, leader_get_stats(&nodes[ANN]).failures);    // the parent's connection lives
    ASSERT_EQ(token, leader_token(&nodes[ANN]));
    leader_close(&nodes[ANN], KIT_LIMIT_MS);
}

UTEST_F(kit, a_thousand_elections) {
    APPLIES_UNLESS(0);
    enum { FIRST = 20 };
    const int count = store.elections ? store.elections : 1000;
    leader_config config;
    memset(&config, 0, sizeof config);
    config.lease_ms = 600000;
    config.renew_ms = 60000;
    for (int i = 0; i < count; i++) {
        snprintf(election, sizeof election, "kit-%ld-%d-%d", (long)getpid(), elections, i);
        ASSERT_TRUE(start_node(FIRST + i, "ann", &config));
    }
    ASSERT_TRUE(run_until(FIRST, count, count, count));
    for (int i = 0; i < count; i++) {
        leader_stop(&nodes[FIRST + i]);
    }
    int stopped = 0;
    patience limit = patience_ms(KIT_LIMIT_MS);
    while (patience_left(&limit) && stopped < count) {
        stopped = 0;
        for (int i = 0; i < count; i++) {
            leader_tick(&nodes[FIRST + i]);
            stopped += leader_is_stopped(&nodes[FIRST + i]);
        }
        nap(1);
    }
    ASSERT_EQ(count, stopped);
    for (int i = 0; i < count; i++) {
        ASSERT_EQ(LEADER_OK, leader_close(&nodes[FIRST + i], KIT_LIMIT_MS));
    }
}

UTEST_STATE();

int main(int argc, char **argv) {
    if (!store.start()) {
        return 1;
    }
    int failed = utest_main(argc, (const char *const *)argv);
    store.stop();
    return failed;
}
#endif
