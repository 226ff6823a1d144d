/* The file backend: several elections in one process, on one clock that the tests turn by hand. What real
   processes, kills and stops do to it is in test_file_stop.c. */
#if !defined(_GNU_SOURCE)
#  define _GNU_SOURCE 1
#endif
#define syscall test_syscall  // leader.h lists directories with it: see "listings in parts"
#define fsync test_fsync                             // see "what is on disk"
#define fcntl test_fcntl                             // see close_while_asking
#define renameat test_renameat                       // see forget_while_renaming
#define LEADER_IMPLEMENTATION
#include "leader.h"
#undef syscall
#undef fsync
#undef renameat
#undef fcntl
extern long syscall(long number, ...);
extern int fsync(int fd);
extern int fcntl(int fd, int command, ...);
extern int renameat(int from_dir, const char *from, int to_dir, const char *to);
#include "tests/tools/utest.h"
#include "tests/file/file_store.h"

#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { L = 3000, D = 2000, NODES = 6 };              // lease and renew deadline of most tests

/* ---- a world of candidates on one clock -------------------------------------------------------- */

static int64_t clock_ms, clock_step_ms;
static int64_t clock_read(void *user) { (void)user; return clock_ms += clock_step_ms; }

typedef struct node {
    leader_t l;
    leader_file f;
    bool open, idle, drained;                        // idle: alive, but does not tick
    int started, stopped;
    uint64_t token;                                  // of the term that started last
    leader_result why;
    char said[4096];                                 // every ERROR and WARN
} node;

struct file {
    store s;
    node nodes[NODES];
    int overlaps;
};

static uint64_t last_token;                          // of any term on this store
static int unordered_tokens;

static void on_started(void *user, uint64_t token) {
    node *n = (node *)user;
    n->started++;
    n->token = token;
    if (token <= last_token) unordered_tokens++;
    last_token = token;
}
static void on_stopped(void *user, uint64_t token, leader_result why) {
    node *n = (node *)user;
    (void)token;
    n->stopped++;
    n->why = why;
}
static bool is_drained(void *user) { return ((node *)user)->drained; }
static void on_log(void *user, leader_level level, const char *text) {
    node *n = (node *)user;
    size_t used = strlen(n->said);
    if (level <= LEADER_LOG_WARN && used < sizeof n->said - 2)
        snprintf(n->said + used, sizeof n->said - used, "%s\n", text);
}

static leader_config config_of(struct file *w, int i, const char *identity) {
    node *n = &w->nodes[i];
    leader_config c;
    memset(&c, 0, sizeof c);
    memset(n, 0, sizeof *n);
    n->drained = true;
    c.identity = identity;
    c.backend = leader_file_backend(&n->f, w->s.path);
    c.lease_ms = L;
    c.retry_max_ms = 2000;
    c.on_started_leading = on_started;
    c.on_stopped_leading = on_stopped;
    c.is_drained = is_drained;
    c.on_log = on_log;
    c.user = n;
    c.clock_ms = clock_read;
    return c;
}
static void open_node(int *utest_result, struct file *w, int i, const leader_config *c) {
    ASSERT_EQ(LEADER_OK, leader_init(&w->nodes[i].l, c));
    w->nodes[i].open = true;
}
static void join(int *utest_result, struct file *w, int i, const char *identity) {
    leader_config c = config_of(w, i, identity);
    open_node(utest_result, w, i, &c);
}
static void close_node(struct file *w, int i) {
    if (w->nodes[i].open) leader_close(&w->nodes[i].l, 0);
    w->nodes[i].open = false;
}

static bool leads(const struct file *w, int i) {
    return w->nodes[i].open && leader_is_leader(&w->nodes[i].l);
}
static void count_leaders(struct file *w) {
    int leaders = 0;
    for (int i = 0; i < NODES; i++) leaders += leads(w, i);
    if (leaders > 1) w->overlaps++;
}
static void run_ms(struct file *w, int64_t ms) {
    for (int64_t end = clock_ms + ms; clock_ms < end;) {
        clock_ms++;
        for (int i = 0; i < NODES; i++) {
            if (!w->nodes[i].open || w->nodes[i].idle) continue;
            leader_tick(&w->nodes[i].l);
            count_leaders(w);
        }
    }
}
/* How many ms until that one leads; -1: not within the limit. */
static int64_t until_leads(struct file *w, int i, int64_t limit_ms) {
    int64_t start = clock_ms;
    while (!leads(w, i) && clock_ms - start < limit_ms) run_ms(w, 1);
    return leads(w, i) ? clock_ms - start : -1;
}
static leader_stats stats(const struct file *w, int i) { return leader_get_stats(&w->nodes[i].l); }
static bool said(const struct file *w, int i, const char *what) {
    return strstr(w->nodes[i].said, what) != NULL;
}

UTEST_F_SETUP(file) {
    ASSERT_TRUE(store_make(&utest_fixture->s));
    clock_ms = 1000000;
    clock_step_ms = 0;
    last_token = 0;
    unordered_tokens = 0;
}
UTEST_F_TEARDOWN(file) {
    for (int i = 0; i < NODES; i++) close_node(utest_fixture, i);
    store_remove(&utest_fixture->s);
    EXPECT_EQ(0, utest_fixture->overlaps);
    EXPECT_EQ(0, unordered_tokens);
}

#define W utest_fixture

/* ---- holding ----------------------------------------------------------------------------------- */

UTEST_F(file, the_first_candidate_leads_at_its_first_tick) {
    join(utest_result, W, 0, "a");
    leader_tick(&W->nodes[0].l);
    EXPECT_TRUE(leads(W, 0));
    EXPECT_EQ(1, W->nodes[0].started);
    EXPECT_EQ(leader_token(&W->nodes[0].l), store_names(&W->s).token);
    EXPECT_EQ(1, store_names(&W->s).records);
    EXPECT_EQ(1, store_names(&W->s).terms);
    EXPECT_EQ(0, store_names(&W->s).drafts);
}

UTEST_F(file, a_second_candidate_is_refused_and_names_the_holder) {
    char leader[LEADER_IDENTITY_MAX + 1];
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    run_ms(W, 3 * L);
    EXPECT_TRUE(leads(W, 0));
    EXPECT_EQ(0, W->nodes[1].started);
    leader_get_leader(&W->nodes[1].l, leader, sizeof leader);
    EXPECT_STREQ("a", leader);
    EXPECT_EQ(leader_token(&W->nodes[0].l), leader_get_view(&W->nodes[1].l).token);
    EXPECT_EQ((uint64_t)0, stats(W, 1).failures);
}

UTEST_F(file, renewal_keeps_one_term_for_as_long_as_it_ticks) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    run_ms(W, 20 * L);
    EXPECT_TRUE(leads(W, 0));
    EXPECT_EQ(1, W->nodes[0].started);
    EXPECT_EQ((uint64_t)0, stats(W, 0).failures);
    EXPECT_GE(stats(W, 0).renewals, (uint64_t)59);
    EXPECT_EQ(1, store_names(&W->s).records);
    EXPECT_EQ(0, store_names(&W->s).drafts);
}

UTEST_F(file, on_one_kernel_a_lease_ends_exactly_when_it_should) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    run_ms(W, 1500);
    int64_t renewed = W->nodes[0].l.request.sent_ms;
    W->nodes[0].idle = true;                         // alive, so its lock is held, but it does not tick
    while (leads(W, 0)) run_ms(W, 1);
    EXPECT_EQ(renewed + D, clock_ms);
    ASSERT_GT(until_leads(W, 1, 2 * L), 0);
    EXPECT_GT(clock_ms, renewed + L);
    EXPECT_LE(clock_ms, renewed + L + 10);
    EXPECT_GT(W->nodes[1].token, W->nodes[0].token);
    W->nodes[0].idle = false;
    run_ms(W, 10);
    EXPECT_EQ(1, W->nodes[0].stopped);
    EXPECT_EQ(LEADER_E_TIMEOUT, W->nodes[0].why);
    run_ms(W, 2 * L);
    EXPECT_TRUE(leads(W, 1));
}

/* Records that no clock of ours can date: a finder waits a full lease of its own, from its own
   first look. */
static void observed(int *utest_result, struct file *w, const record *r, int64_t lease_ms) {
    ASSERT_TRUE(record_put(&w->s, r));
    join(utest_result, w, 0, "b");
    int64_t first_look = clock_ms + 1;
    ASSERT_GT(until_leads(w, 0, 2 * lease_ms), 0);
    EXPECT_GT(clock_ms, first_look + lease_ms);
    EXPECT_LE(clock_ms, first_look + lease_ms + 10);
    EXPECT_GT(w->nodes[0].token, (uint64_t)500);
}
UTEST_F(file, a_record_of_another_boot_is_observed_for_a_full_lease) {
    record r = record_of("a", 500, 1);
    r.boot = "11111111-2222-3333-4444-555555555555";
    observed(utest_result, W, &r, 3000);
}
UTEST_F(file, a_record_of_another_time_namespace_is_observed) {
    record r = record_of("a", 500, 1);
    r.time_namespace += 1;
    observed(utest_result, W, &r, 3000);
}
UTEST_F(file, a_record_without_a_time_namespace_is_observed) {
    record r = record_of("a", 500, 1);
    r.time_namespace = 0;
    observed(utest_result, W, &r, 3000);
}
UTEST_F(file, a_stamp_from_the_future_is_observed_for_a_full_lease) {
    record r = record_of("a", 500, clock_ms + 1000000000);
    observed(utest_result, W, &r, 3000);
}
UTEST_F(file, the_largest_stamp_is_observed_for_a_full_lease) {
    record r = record_of("a", 500, (INT64_C(1) << 53) - 1);
    observed(utest_result, W, &r, 3000);
}
UTEST_F(file, a_record_is_observed_for_its_own_duration_not_for_ours) {
    record r = record_of("a", 500, 1);
    r.boot = "";
    r.duration = "60500ms";
    r.lease_ms = 60500;
    observed(utest_result, W, &r, 60500);
}
UTEST_F(file, an_observed_record_that_changes_is_observed_afresh) {
    record r = record_of("a", 500, 1);
    r.boot = "elsewhere";
    ASSERT_TRUE(record_put(&W->s, &r));
    join(utest_result, W, 0, "b");
    for (uint64_t n = 501; n < 510; n++) {
        run_ms(W, 2900);
        EXPECT_FALSE(leads(W, 0));
        r.stamp_ms++;
        r.renewal = n;
        ASSERT_TRUE(record_put(&W->s, &r));
    }
    EXPECT_EQ(0, W->nodes[0].started);
    EXPECT_GT(until_leads(W, 0, 2 * L), 2900);
}
UTEST_F(file, the_record_of_another_term_is_observed_afresh) {
    record r = record_of("a", 500, 1);
    r.boot = "elsewhere";
    ASSERT_TRUE(record_put(&W->s, &r));
    join(utest_result, W, 0, "b");
    run_ms(W, 2900);
    r.nonce++;
    ASSERT_TRUE(record_put(&W->s, &r));
    EXPECT_GT(until_leads(W, 0, 2 * L), 2900);
}
UTEST_F(file, an_expired_record_of_this_kernel_is_taken_at_once) {
    record r = record_of("a", 500, clock_ms - 3001);
    ASSERT_TRUE(record_put(&W->s, &r));
    join(utest_result, W, 0, "b");
    EXPECT_EQ(1, until_leads(W, 0, 10));
    EXPECT_EQ((uint64_t)501, W->nodes[0].token);
    EXPECT_EQ(1, store_names(&W->s).records);
    EXPECT_EQ(1, store_names(&W->s).terms);
}
UTEST_F(file, a_record_of_this_kernel_is_not_taken_one_millisecond_early) {
    record r = record_of("a", 500, clock_ms - 1000);
    ASSERT_TRUE(record_put(&W->s, &r));
    join(utest_result, W, 0, "b");
    run_ms(W, 2000);
    EXPECT_FALSE(leads(W, 0));
    EXPECT_GT(until_leads(W, 0, 20), 0);
}
UTEST_F(file, a_released_record_is_taken_at_once_whatever_its_stamp) {
    record r = record_of("", 500, clock_ms);
    ASSERT_TRUE(record_put(&W->s, &r));
    join(utest_result, W, 0, "b");
    EXPECT_EQ(1, until_leads(W, 0, 10));
    EXPECT_EQ((uint64_t)501, W->nodes[0].token);
}

/* ---- handing over ------------------------------------------------------------------------------ */

static bool noticed(const leader_t *l) {
    leader_fd fds[LEADER_FDS_MAX];
    if (leader_fds(l, fds) != 1) return false;
    struct pollfd p = {(int)fds[0].fd, POLLIN, 0};
    return poll(&p, 1, 0) == 1;
}
UTEST_F(file, a_release_wakes_standbys_which_lead_at_their_next_tick) {
    for (int i = 0; i < 2; i++) {
        leader_config c = config_of(W, i, i ? "b" : "a");
        c.lease_ms = 15000;
        open_node(utest_result, W, i, &c);
    }
    run_ms(W, 100);
    ASSERT_TRUE(leads(W, 0));
    while (noticed(&W->nodes[1].l)) run_ms(W, 1);
    leader_close(&W->nodes[0].l, 0);
    EXPECT_TRUE(noticed(&W->nodes[1].l));
    EXPECT_EQ(1, until_leads(W, 1, 100));
    EXPECT_EQ((uint64_t)1, stats(W, 1).terms);
    EXPECT_EQ(1, store_names(&W->s).locks);          // its own: that of the one that closed is gone
}
UTEST_F(file, taking_over_leaves_the_closing_of_its_ear_for_later) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    run_ms(W, 100);
    ASSERT_TRUE(leads(W, 0));
    leader_fd fds[LEADER_FDS_MAX];
    ASSERT_EQ(1, leader_fds(&W->nodes[1].l, fds));
    int ear = (int)fds[0].fd;
    leader_resign(&W->nodes[0].l, 100);
    ASSERT_GE(until_leads(W, 1, 1000), 0);
    EXPECT_GE(fcntl(ear, F_GETFD), 0);              // to close it would have cost the take-over milliseconds
    run_ms(W, 1500);                                // past the pause
    ASSERT_TRUE(leads(W, 1));
    EXPECT_EQ(0, leader_fds(&W->nodes[1].l, fds));
    EXPECT_EQ(1, leader_fds(&W->nodes[0].l, fds));
    leader_resign(&W->nodes[1].l, 100);
    run_ms(W, 1500);
    ASSERT_TRUE(leads(W, 0));
    while (noticed(&W->nodes[1].l)) run_ms(W, 1);
    leader_close(&W->nodes[0].l, 0);
    EXPECT_TRUE(noticed(&W->nodes[1].l));
}
UTEST_F(file, a_release_is_copied_by_the_next_tick) {
    char copy_bytes[4096];
    join(utest_result, W, 0, "a");
    run_ms(W, 10);
    leader_resign(&W->nodes[0].l, 20000);
    run_ms(W, 2);
    ASSERT_GT(file_get(W->s.path, copy_bytes, sizeof copy_bytes), 0);
    EXPECT_TRUE(strstr(copy_bytes, "\"holder\": \"\"") != NULL);
}
UTEST_F(file, what_the_leader_writes_does_not_make_it_ask_again) {
    join(utest_result, W, 0, "a");
    run_ms(W, 10 * L);
    EXPECT_EQ((uint64_t)1, stats(W, 0).acquires);
}
UTEST_F(file, renewals_of_the_leader_do_not_make_standbys_storm) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    run_ms(W, 10 * L);                               // 30 renewals, 30 retries
    EXPECT_LE(stats(W, 1).acquires, (uint64_t)100);
}
UTEST_F(file, resign_hands_over_and_pauses) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    run_ms(W, 50);
    leader_resign(&W->nodes[0].l, 20000);
    EXPECT_LE(until_leads(W, 1, 1000), 3);
    run_ms(W, 2 * L);
    EXPECT_TRUE(leads(W, 1));
    EXPECT_EQ(1, W->nodes[0].started);
}
UTEST_F(file, a_lease_kept_on_stop_is_not_taken_for_a_death) {
    leader_config c = config_of(W, 0, "a");
    c.keep_lease_on_stop = true;
    open_node(utest_result, W, 0, &c);
    join(utest_result, W, 1, "b");
    run_ms(W, 100);
    ASSERT_TRUE(leads(W, 0));
    int64_t renewed = W->nodes[0].l.request.sent_ms;
    close_node(W, 0);
    EXPECT_EQ(0, store_names(&W->s).locks);
    ASSERT_GT(until_leads(W, 1, 2 * L), 0);
    EXPECT_GT(clock_ms, renewed + L);
    EXPECT_LE(clock_ms, renewed + L + 10);
}
UTEST_F(file, a_restarted_process_reclaims_its_kept_lease_at_once) {
    leader_config c = config_of(W, 0, "a");
    c.keep_lease_on_stop = true;
    open_node(utest_result, W, 0, &c);
    run_ms(W, 100);
    close_node(W, 0);
    join(utest_result, W, 1, "b");
    run_ms(W, 10);
    EXPECT_FALSE(leads(W, 1));
    c = config_of(W, 2, "a");
    c.reclaim_identity = true;
    open_node(utest_result, W, 2, &c);
    EXPECT_EQ(1, until_leads(W, 2, 10));
    run_ms(W, 2 * L);
    EXPECT_TRUE(leads(W, 2));
}
UTEST_F(file, work_that_is_not_drained_in_time_leaves_the_lease_to_expire) {
    leader_config c = config_of(W, 0, "a");
    c.drain_timeout_ms = 5000;
    open_node(utest_result, W, 0, &c);
    join(utest_result, W, 1, "b");
    run_ms(W, 100);
    W->nodes[0].drained = false;
    leader_stop(&W->nodes[0].l);
    int64_t asked = clock_ms;
    run_ms(W, 4990);                                 // draining: the lease is renewed, nobody leads
    EXPECT_FALSE(leads(W, 0));
    EXPECT_FALSE(leads(W, 1));
    EXPECT_EQ(LEADER_STATE_DRAINING, leader_get_state(&W->nodes[0].l));
    run_ms(W, 60);
    EXPECT_TRUE(leader_is_stopped(&W->nodes[0].l));
    int64_t renewed = W->nodes[0].l.request.sent_ms;
    EXPECT_GT(renewed, asked + 3000);
    close_node(W, 0);
    ASSERT_GT(until_leads(W, 1, 2 * L), 0);
    EXPECT_GT(clock_ms, renewed + L);
    EXPECT_EQ((uint64_t)0, stats(W, 1).failures);
}
UTEST_F(file, close_before_the_work_is_drained_leaves_the_lease) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    run_ms(W, 100);
    W->nodes[0].drained = false;
    clock_step_ms = 1;
    EXPECT_EQ(LEADER_E_TIMEOUT, leader_close(&W->nodes[0].l, 300));
    clock_step_ms = 0;
    W->nodes[0].open = false;
    int64_t renewed = W->nodes[0].l.request.sent_ms;
    EXPECT_EQ(0, store_names(&W->s).locks);
    ASSERT_GT(until_leads(W, 1, 2 * L), 0);
    EXPECT_GT(clock_ms, renewed + L);
}
UTEST_F(file, release_happens_only_once_the_work_is_drained) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    run_ms(W, 100);
    W->nodes[0].drained = false;
    leader_stop(&W->nodes[0].l);
    run_ms(W, 4 * L);
    EXPECT_FALSE(leads(W, 1));
    W->nodes[0].drained = true;
    EXPECT_LE(until_leads(W, 1, 1000), 60);
    EXPECT_EQ((uint64_t)1, stats(W, 0).releases);
}

/* ---- who one is -------------------------------------------------------------------------------- */

UTEST_F(file, a_record_of_ones_own_is_adopted_by_a_write_with_a_new_token) {
    join(utest_result, W, 0, "a");
    record r = record_of("a", 500, clock_ms);
    r.nonce = W->nodes[0].l.nonce;
    r.seq = 1;
    ASSERT_TRUE(record_put(&W->s, &r));
    EXPECT_EQ(1, until_leads(W, 0, 10));
    EXPECT_EQ((uint64_t)501, W->nodes[0].token);
    EXPECT_EQ(1, store_names(&W->s).terms);
    run_ms(W, 2 * L);
    EXPECT_EQ(1, W->nodes[0].started);
}
UTEST_F(file, a_record_of_ones_own_from_a_later_request_is_not_adopted) {
    join(utest_result, W, 0, "a");
    record r = record_of("a", 500, clock_ms);
    r.nonce = W->nodes[0].l.nonce;
    r.seq = 77;
    ASSERT_TRUE(record_put(&W->s, &r));
    run_ms(W, 100);
    EXPECT_FALSE(leads(W, 0));
}
UTEST_F(file, an_answer_after_the_deadline_starts_no_term) {
    join(utest_result, W, 0, "a");
    clock_step_ms = D;                               // the store took longer than the deadline
    leader_tick(&W->nodes[0].l);
    clock_step_ms = 0;
    EXPECT_FALSE(leads(W, 0));
    EXPECT_EQ(0, W->nodes[0].started);
    uint64_t written = store_names(&W->s).token;
    ASSERT_NE(written, (uint64_t)0);
    ASSERT_GT(until_leads(W, 0, 2 * L), 0);
    EXPECT_GT(W->nodes[0].token, written);
}
UTEST_F(file, of_two_candidates_of_one_name_the_second_is_a_duplicate) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "a");
    run_ms(W, 5 * L);
    EXPECT_TRUE(leads(W, 0));
    EXPECT_EQ(0, W->nodes[1].started);
    EXPECT_EQ(LEADER_E_DUPLICATE, stats(W, 1).last_error);
    EXPECT_GT(stats(W, 1).failures_duplicate, (uint64_t)0);
    EXPECT_TRUE(said(W, 1, "another process uses our identity \"a\""));
    close_node(W, 0);
    EXPECT_GE(until_leads(W, 1, 5000), 0);
}
UTEST_F(file, reclaim_identity_counts_for_the_first_answer_only) {
    join(utest_result, W, 0, "a");
    run_ms(W, 10);
    W->nodes[0].idle = true;                         // the caller vouches that this one is dead
    clock_ms += D;
    leader_config c = config_of(W, 1, "a");
    c.reclaim_identity = true;
    open_node(utest_result, W, 1, &c);
    EXPECT_EQ(1, until_leads(W, 1, 10));
    c = config_of(W, 2, "b");                        // another name's lease is not reclaimed
    c.reclaim_identity = true;
    open_node(utest_result, W, 2, &c);
    run_ms(W, 2 * L);
    EXPECT_TRUE(leads(W, 1));
    W->nodes[0].idle = false;                        // it lives after all: it has lost, and says why
    run_ms(W, 3 * L);
    EXPECT_TRUE(leads(W, 1));
    EXPECT_EQ(1, W->nodes[0].started);
    EXPECT_GT(stats(W, 0).failures_duplicate, (uint64_t)0);
}
UTEST_F(file, without_reclaim_identity_the_same_name_waits_for_the_lease) {
    record r = record_of("a", 500, clock_ms);
    ASSERT_TRUE(record_put(&W->s, &r));
    join(utest_result, W, 0, "a");
    EXPECT_GT(until_leads(W, 0, 3 * L), L);
}
UTEST_F(file, the_longest_and_the_strangest_names_are_kept_byte_for_byte) {
    char longest[LEADER_IDENTITY_MAX + 1], leader[LEADER_IDENTITY_MAX + 1];
    for (int i = 0; i < LEADER_IDENTITY_MAX; i++) longest[i] = "\x01\"\\\x7f\xc3\xa9"[i % 6];
    longest[LEADER_IDENTITY_MAX - 3] = 0;            // whole characters only
    join(utest_result, W, 0, longest);
    join(utest_result, W, 1, "b");
    run_ms(W, 100);
    EXPECT_TRUE(leads(W, 0));
    leader_get_leader(&W->nodes[1].l, leader, sizeof leader);
    EXPECT_STREQ(longest, leader);
    memset(longest, 1, LEADER_IDENTITY_MAX);         // six bytes each in the record
    longest[LEADER_IDENTITY_MAX] = 0;
    close_node(W, 0);
    close_node(W, 1);
    join(utest_result, W, 0, longest);
    join(utest_result, W, 1, "b");
    run_ms(W, L);
    EXPECT_TRUE(leads(W, 0));
    leader_get_leader(&W->nodes[1].l, leader, sizeof leader);
    EXPECT_STREQ(longest, leader);
}

/* ---- tokens ------------------------------------------------------------------------------------ */

UTEST_F(file, tokens_rise_over_terms_restarts_and_wipes) {
    uint64_t before = 0;
    for (int round = 0; round < 12; round++) {
        if (round % 4 == 2) store_remove_tree(W->s.dir);                     // the copy is left
        if (round == 7) { store_remove_tree(W->s.dir); unlink(W->s.path); usleep(1100000); }    // nothing is
        join(utest_result, W, round % 2, "a");
        ASSERT_GE(until_leads(W, round % 2, 3 * L), 0);
        EXPECT_GT(W->nodes[round % 2].token, before);
        before = W->nodes[round % 2].token;
        run_ms(W, 50 * (round % 3));
        if (round % 3 == 0) leader_resign(&W->nodes[round % 2].l, 1), run_ms(W, 1500);
        EXPECT_GE(W->nodes[round % 2].token, before);
        before = W->nodes[round % 2].token;
        close_node(W, round % 2);
    }
}
UTEST_F(file, the_highest_token_seen_survives_a_wipe) {
    record r = record_of("a", UINT64_C(8000000000000000), clock_ms - 2000);
    ASSERT_TRUE(record_put(&W->s, &r));
    join(utest_result, W, 0, "b");
    run_ms(W, 10);
    store_remove_tree(W->s.dir);
    ASSERT_GT(until_leads(W, 0, 3 * L), L);
    EXPECT_GT(W->nodes[0].token, UINT64_C(8000000000000000));
}
UTEST_F(file, the_copy_left_of_a_wiped_store_has_token_and_hold_off) {
    char text[1024];
    record r = record_of("", UINT64_C(8000000000000000), 1);
    size_t len = record_text(text, sizeof text, &r);
    ASSERT_TRUE(file_put(W->s.path, text, len));
    join(utest_result, W, 0, "b");
    EXPECT_GT(until_leads(W, 0, 2 * L), L);          // "released", but somebody may have led since
    EXPECT_EQ(UINT64_C(8000000000000001), W->nodes[0].token);
}
UTEST_F(file, when_no_token_is_left_it_says_so_and_nobody_leads) {
    record r = record_of("", (UINT64_C(1) << 53) - 1, 1);
    ASSERT_TRUE(record_put(&W->s, &r));
    join(utest_result, W, 0, "b");
    run_ms(W, 2 * L);
    EXPECT_FALSE(leads(W, 0));
    EXPECT_TRUE(said(W, 0, "no token is left below 2^53"));
    EXPECT_EQ(1, store_names(&W->s).records);
}
UTEST_F(file, another_name_among_the_records_is_refused_and_stays) {
    ASSERT_EQ(0, mkdir(W->s.dir, 0700));
    ASSERT_EQ(0, mkdir(in_dir(&W->s, "record"), 0700));
    ASSERT_TRUE(file_put(in_dir(&W->s, "record/notes.txt"), "x", 1));
    join(utest_result, W, 0, "b");
    run_ms(W, 3 * L);
    EXPECT_FALSE(leads(W, 0));
    EXPECT_TRUE(said(W, 0, "record holds 0 records and 1 other names (notes.txt)"));
    EXPECT_TRUE(file_exists(in_dir(&W->s, "record/notes.txt")));
    unlink(in_dir(&W->s, "record/notes.txt"));
    EXPECT_GE(until_leads(W, 0, 4 * L), 0);
}

/* The holder has a lease of 60 s and believes in it; its text is gone. The name still says how long. */
static void lost_text(int *utest_result, struct file *w, record *r) {
    ASSERT_TRUE(record_put(&w->s, r));
    ASSERT_EQ(0, unlink(term_name(&w->s)));
    join(utest_result, w, 0, "b");
    int64_t first_look = clock_ms + 1;
    ASSERT_GT(until_leads(w, 0, 80000), 0);
    EXPECT_GT(clock_ms, first_look + 60000);
    EXPECT_TRUE(said(w, 0, "cannot be read: term.5eed5eed5eed5eed.1 is missing"));
}
UTEST_F(file, a_record_whose_text_is_lost_keeps_its_own_lease) {
    record r = record_of("a", 500, 1);
    r.lease_ms = 60000;
    lost_text(utest_result, W, &r);
}
UTEST_F(file, a_record_whose_text_is_lost_keeps_its_hold_off) {
    record r = record_of("a", 500, 1);
    r.hold_off_ms = 60000;
    lost_text(utest_result, W, &r);
}
UTEST_F(file, a_record_that_lost_its_text_and_then_its_name_is_no_release) {
    record r = record_of("a", 500, 1);
    r.lease_ms = 60000;
    ASSERT_TRUE(record_put_text(&W->s, &r, "", 0));
    join(utest_result, W, 0, "b");
    run_ms(W, 1000);
    store_remove_tree(W->s.dir);
    int64_t gone = clock_ms;
    ASSERT_GT(until_leads(W, 0, 130000), 0);
    EXPECT_GT(clock_ms, gone + 60000);
}

/* ---- observers --------------------------------------------------------------------------------- */

UTEST_F(file, an_observer_sees_who_leads_and_changes_nothing) {
    char leader[LEADER_IDENTITY_MAX + 1];
    leader_config c = config_of(W, 2, "watcher");
    c.observe_only = true;
    open_node(utest_result, W, 2, &c);
    run_ms(W, 2 * L);
    EXPECT_FALSE(file_exists(W->s.dir));
    EXPECT_FALSE(file_exists(W->s.path));
    EXPECT_EQ((uint64_t)0, stats(W, 2).failures);
    join(utest_result, W, 0, "a");
    run_ms(W, 1100);
    leader_get_leader(&W->nodes[2].l, leader, sizeof leader);
    EXPECT_STREQ("a", leader);
    EXPECT_EQ(W->nodes[0].token, leader_get_view(&W->nodes[2].l).token);
    close_node(W, 0);
    run_ms(W, 1100);
    leader_get_leader(&W->nodes[2].l, leader, sizeof leader);
    EXPECT_STREQ("", leader);
    EXPECT_EQ(0, W->nodes[2].started);
    EXPECT_EQ(0, store_names(&W->s).locks);
}
UTEST_F(file, an_observer_reports_a_corrupt_record_and_goes_on) {
    leader_config c = config_of(W, 2, "watcher");
    c.observe_only = true;
    record r = record_of("x", 7, 1);
    ASSERT_TRUE(record_put_text(&W->s, &r, "{", 1));
    open_node(utest_result, W, 2, &c);
    run_ms(W, 5 * L);
    EXPECT_TRUE(said(W, 2, "cannot be read: not JSON at byte 1"));
    EXPECT_EQ(0, W->nodes[2].started);
    char text[8];
    EXPECT_EQ((ssize_t)1, file_get(term_name(&W->s), text, sizeof text));
}

/* Kills node i as far as others can see: its descriptors go without a word. */
static void die(struct file *w, int i) {
    w->nodes[i].l.life = 0;
    w->nodes[i].open = false;
    close(w->nodes[i].f.lock_fd);
    close(w->nodes[i].f.notify_fd);
}

/* ---- a store that forgot ----------------------------------------------------------------------- */

/* Node 1 has seen node 0 lead; then `forget` happens. Node 0 does not tick for a while, so it believes in
   its term until the deadline. Its successor must not lead before a full lease has passed. */
static void forgets(int *utest_result, struct file *w, void (*forget)(struct file *), bool newcomer_waits) {
    join(utest_result, w, 0, "a");
    join(utest_result, w, 1, "b");
    run_ms(w, 1200);
    ASSERT_TRUE(leads(w, 0));
    w->nodes[0].idle = true;
    forget(w);
    int64_t forgot = clock_ms;
    if (newcomer_waits) join(utest_result, w, 2, "c");
    for (int i = 0; i < L; i++) {
        run_ms(w, 1);
        if (leads(w, 1) || leads(w, 2)) break;
    }
    EXPECT_GE(clock_ms, forgot + L);
    w->nodes[0].idle = false;
    int64_t start = clock_ms;
    while (!leads(w, 0) && !leads(w, 1) && !leads(w, 2) && clock_ms - start < 3 * L) run_ms(w, 1);
    EXPECT_TRUE(leads(w, 0) || leads(w, 1) || leads(w, 2));
    run_ms(w, 3 * L);
    EXPECT_TRUE(leads(w, 0) || leads(w, 1) || leads(w, 2));
}
static void forget_record(struct file *w) {
    unlink(record_name(&w->s));
}
/* Where no witness is left, the wall clock alone keeps tokens rising, by the millisecond: terms that the
   simulated clock lets begin faster than that are waited for. */
static void outlast_tokens(void) {
    struct timespec t;
    uint64_t wall_ms;
    do {
        clock_gettime(CLOCK_REALTIME, &t);
        wall_ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
    } while (wall_ms <= last_token && last_token <= wall_ms + 1000);
}
static void forget_directory(struct file *w) {
    store_remove_tree(w->s.dir);
    outlast_tokens();
}
static void forget_by_moving(struct file *w) {
    char aside[300];
    snprintf(aside, sizeof aside, "%s.moved", w->s.dir);
    rename(w->s.dir, aside);
}
static void forget_by_replacing(struct file *w) {
    forget_by_moving(w);
    mkdir(w->s.dir, 0700);
}
static void forget_all(struct file *w) { forget_directory(w); unlink(w->s.path); }
static void forget_by_restoring_older(struct file *w) {
    record r = record_of("", 900, 1);
    forget_record(w);
    record_put(&w->s, &r);
}
static void forget_by_restoring_an_older_holder(struct file *w) {
    record r = record_of("old", 900, 1);             // long expired
    forget_record(w);
    record_put(&w->s, &r);
}
UTEST_F(file, what_was_moved_away_before_its_copy_is_not_copied) {
    join(utest_result, W, 0, "a");
    leader_tick(&W->nodes[0].l);
    ASSERT_TRUE(leads(W, 0));
    forget_by_replacing(W);
    leader_tick(&W->nodes[0].l);
    EXPECT_FALSE(file_exists(W->s.path));
}
UTEST_F(file, the_record_removed_is_no_release) {
    forgets(utest_result, W, forget_record, true);
}
UTEST_F(file, directory_removed_is_no_release) {
    forgets(utest_result, W, forget_directory, true);
}
UTEST_F(file, directory_moved_away_is_no_release) {
    forgets(utest_result, W, forget_by_moving, true);
}
UTEST_F(file, directory_moved_away_and_replaced_is_no_release) {
    forgets(utest_result, W, forget_by_replacing, true);
}
UTEST_F(file, a_removed_directory_is_no_release) { forgets(utest_result, W, forget_all, false); }
UTEST_F(file, a_lower_released_record_restored_is_no_release) {
    forgets(utest_result, W, forget_by_restoring_older, false);
}
UTEST_F(file, a_lower_expired_record_restored_is_no_release) {
    forgets(utest_result, W, forget_by_restoring_an_older_holder, false);
}

/* The record was free whenever node 1 looked; then node 0 leads again, and everything is wiped. */
static void seen_released_only(int *utest_result, struct file *w) {
    join(utest_result, w, 0, "a");
    run_ms(w, 10);
    leader_resign(&w->nodes[0].l, 500);
    run_ms(w, 100);
    ASSERT_FALSE(leads(w, 0));
    leader_config c = config_of(w, 1, "b");
    c.observe_only = true;
    open_node(utest_result, w, 1, &c);
    run_ms(w, 10);
    w->nodes[1].idle = true;
    ASSERT_GE(until_leads(w, 0, L), 0);
    w->nodes[0].idle = true;
    w->nodes[1].l.cfg.observe_only = false;          // as if it had been unhealthy so far
    w->nodes[1].idle = false;
}
UTEST_F(file, one_that_saw_only_a_release_distrusts_a_wiped_store) {
    seen_released_only(utest_result, W);
    forget_all(W);
    int64_t forgot = clock_ms;
    ASSERT_GE(until_leads(W, 1, 3 * L), 0);
    EXPECT_GE(clock_ms, forgot + L);
}
UTEST_F(file, a_newcomer_that_finds_a_released_copy_alone_holds_off) {
    join(utest_result, W, 0, "a");
    run_ms(W, 10);
    leader_resign(&W->nodes[0].l, 500);
    run_ms(W, 100);
    char text[4096];
    ssize_t len = file_get(W->s.path, text, sizeof text);
    ASSERT_GT(len, 0);
    ASSERT_GE(until_leads(W, 0, L), 0);
    W->nodes[0].idle = true;
    forget_directory(W);
    ASSERT_TRUE(file_put(W->s.path, text, (size_t)len));     // the new term's copy had not been written yet
    int64_t forgot = clock_ms;
    join(utest_result, W, 1, "b");
    ASSERT_GE(until_leads(W, 1, 3 * L), 0);
    EXPECT_GE(clock_ms, forgot + L);
}
/* Between the look and the first record everything can happen, another wipe included: the record must say
   that it holds off. */
static void first_record_says_so(int *utest_result, struct file *w, const char *text, size_t len) {
    ASSERT_TRUE(file_put(w->s.path, text, len));
    join(utest_result, w, 0, "b");
    for (int i = 0; i < 2 * L && store_names(&w->s).records == 0; i++) run_ms(w, 1);
    names n = store_names(&w->s);
    const char *hold_off = strrchr(n.record, '.');
    ASSERT_TRUE(hold_off != NULL);
    EXPECT_EQ((long)L, strtol(hold_off + 1, NULL, 16));
    EXPECT_FALSE(leads(w, 0));
    ASSERT_GE(until_leads(w, 0, 2 * L), 0);
    close_node(w, 0);
    forget_all(w);
}
UTEST_F(file, a_first_record_made_upon_a_copy_says_that_it_holds_off) {
    static const char foreign[] =
        "{\"holder\": \"cron\", \"renewTime\": \"2026-11-16T01:28:19Z\", \"leaseDuration\": \"2s\"}";
    char text[1024];
    record held = record_of("a", 500, clock_ms);
    record released = record_of("", 600, clock_ms);
    first_record_says_so(utest_result, W, text, record_text(text, sizeof text, &held));
    first_record_says_so(utest_result, W, text, record_text(text, sizeof text, &released));
    first_record_says_so(utest_result, W, foreign, sizeof foreign - 1);
    first_record_says_so(utest_result, W, "my thesis", 9);
}
UTEST_F(file, a_release_into_a_wiped_directory_makes_no_record) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    run_ms(W, 100);
    ASSERT_TRUE(leads(W, 0));
    W->nodes[1].idle = true;
    forget_all(W);
    ASSERT_EQ(0, mkdir(W->s.dir, 0700));
    ASSERT_EQ(0, mkdir(in_dir(&W->s, "record"), 0700));
    leader_stop(&W->nodes[0].l);
    run_ms(W, 10);
    EXPECT_FALSE(leads(W, 0));
    EXPECT_EQ(0, store_names(&W->s).records);
    int64_t stopped = clock_ms;
    W->nodes[1].idle = false;
    ASSERT_GE(until_leads(W, 1, 3 * L), 0);
    EXPECT_GE(clock_ms, stopped + L);                // not a hand-over
}

UTEST_F(file, a_leader_whose_record_was_wiped_steps_down_and_holds_off) {
    join(utest_result, W, 0, "a");
    run_ms(W, 100);
    forget_all(W);
    run_ms(W, 1000);
    EXPECT_FALSE(leads(W, 0));
    EXPECT_EQ(LEADER_LOST, W->nodes[0].why);
    int64_t lost = clock_ms;
    ASSERT_GE(until_leads(W, 0, 3 * L), 0);
    EXPECT_GE(clock_ms, lost + L - 100);
    EXPECT_EQ(2, W->nodes[0].started);
}
/* The directory is moved away when it is open and the next record is about to be renamed. */
static struct file *forget_while_renaming;
int test_renameat(int from_dir, const char *from, int to_dir, const char *to) {
    if (forget_while_renaming && from[0] >= '0' && from[0] <= '9') {
        forget_by_moving(forget_while_renaming);
        forget_while_renaming = NULL;
    }
    return renameat(from_dir, from, to_dir, to);
}
UTEST_F(file, a_renewal_in_a_directory_that_was_moved_does_not_count) {
    join(utest_result, W, 0, "a");
    run_ms(W, 100);
    ASSERT_TRUE(leads(W, 0));
    forget_while_renaming = W;
    run_ms(W, 1000);
    EXPECT_TRUE(forget_while_renaming == NULL);
    EXPECT_EQ(1, W->nodes[0].stopped);
    EXPECT_EQ(LEADER_LOST, W->nodes[0].why);
}
UTEST_F(file, a_leader_in_a_moved_directory_cannot_renew) {
    join(utest_result, W, 0, "a");
    run_ms(W, 100);
    forget_by_moving(W);
    run_ms(W, 1100);
    EXPECT_EQ(1, W->nodes[0].stopped);
    EXPECT_EQ(LEADER_LOST, W->nodes[0].why);
}
UTEST_F(file, one_that_finds_only_the_copy_waits_for_its_writer) {
    char text[1024];
    record r = record_of("a", 500, clock_ms);
    r.duration = "7s";
    size_t len = record_text(text, sizeof text, &r);
    ASSERT_TRUE(file_put(W->s.path, text, len));
    join(utest_result, W, 0, "b");
    ASSERT_GT(until_leads(W, 0, 10 * L), 7000);
    EXPECT_LE(clock_ms, 1000000 + 7000 + 50);
}
UTEST_F(file, one_that_holds_off_is_inherited_with_its_hold_off) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    run_ms(W, 1200);
    W->nodes[0].idle = true;
    forget_all(W);
    int64_t forgot = clock_ms;
    run_ms(W, 1100);                                 // b has taken the record and holds off
    EXPECT_EQ(1, store_names(&W->s).records);
    EXPECT_FALSE(leads(W, 1));
    die(W, 1);
    join(utest_result, W, 2, "c");
    while (!leads(W, 2) && clock_ms < forgot + 4 * L) run_ms(W, 1);
    EXPECT_TRUE(leads(W, 2));
    EXPECT_GT(clock_ms, forgot + L);
}
UTEST_F(file, a_hold_off_longer_than_the_heirs_lease_is_inherited_in_full) {
    leader_config c = config_of(W, 0, "a");          // the forgotten one has a lease of 60 s
    c.lease_ms = 60000;
    open_node(utest_result, W, 0, &c);
    join(utest_result, W, 1, "b");
    run_ms(W, 100);
    ASSERT_TRUE(leads(W, 0));
    W->nodes[0].idle = true;                         // and believes in its term for 40 s
    forget_all(W);
    run_ms(W, 1200);
    EXPECT_EQ(1, store_names(&W->s).records);        // b took the record, and holds off for 60 s
    W->nodes[1].idle = true;                         // b stalls: its lease of 3 s runs out
    join(utest_result, W, 2, "c");                   // c has seen only b's record
    run_ms(W, 45000);
    EXPECT_FALSE(leads(W, 2));
    EXPECT_GE(until_leads(W, 2, 80000), 0);
}
UTEST_F(file, a_longer_hold_off_is_inherited_in_full) {
    record r = record_of("b", 500, clock_ms);
    ASSERT_EQ(0, mkdir(W->s.dir, 0700));
    ASSERT_TRUE(file_put(in_dir(&W->s, "lock.5eed5eed5eed5eed"), "", 0));
    struct stat st;
    ASSERT_EQ(0, stat(in_dir(&W->s, "lock.5eed5eed5eed5eed"), &st));
    r.lock_device = (uint64_t)st.st_dev;
    r.lock_inode = (uint64_t)st.st_ino;
    r.hold_off_ms = 40000;
    ASSERT_TRUE(record_put(&W->s, &r));
    join(utest_result, W, 0, "c");
    run_ms(W, 39900);
    EXPECT_FALSE(leads(W, 0));
    EXPECT_GE(until_leads(W, 0, 60000), 0);
}
UTEST_F(file, cautious_start_trusts_an_empty_store_only_after_one_lease) {
    leader_config c = config_of(W, 0, "a");
    c.cautious_start = true;
    open_node(utest_result, W, 0, &c);
    EXPECT_GT(until_leads(W, 0, 3 * L), L);
    EXPECT_LE(clock_ms, 1000000 + L + 20);
}
UTEST_F(file, cautious_start_takes_a_released_record_at_once) {
    record r = record_of("", 500, clock_ms);
    ASSERT_TRUE(record_put(&W->s, &r));
    leader_config c = config_of(W, 0, "a");
    c.cautious_start = true;
    open_node(utest_result, W, 0, &c);
    EXPECT_GE(until_leads(W, 0, 3 * L), 0);
}

/* ---- what is on disk --------------------------------------------------------------------------- */

static struct { int count; ino_t inodes[16]; } synced;

int test_fsync(int fd) {
    struct stat st;
    if (fstat(fd, &st) == 0 && synced.count < 16) synced.inodes[synced.count++] = st.st_ino;
    return 0;
}
static bool was_synced(const char *name) {
    struct stat st;
    if (stat(name, &st) != 0) return false;
    for (int i = 0; i < synced.count; i++) if (synced.inodes[i] == st.st_ino) return true;
    return false;
}
UTEST_F(file, a_term_begins_when_text_record_and_names_are_on_disk) {
    for (int term = 0; term < 3; term++) {
        memset(&synced, 0, sizeof synced);
        join(utest_result, W, 0, "a");
        ASSERT_GE(until_leads(W, 0, 10), 0);
        EXPECT_TRUE(was_synced(term_name(&W->s)));
        EXPECT_TRUE(was_synced(in_dir(&W->s, "record")));
        EXPECT_TRUE(was_synced(W->s.dir));
        EXPECT_TRUE(was_synced(W->s.root));
        memset(&synced, 0, sizeof synced);
        run_ms(W, L);
        EXPECT_EQ(0, synced.count);                  // renewals need none: the token is part of the name
        close_node(W, 0);
    }
}

UTEST_F(file, a_standby_syncs_what_its_take_over_need_not) {
    leader_config c = config_of(W, 2, "watcher");
    c.observe_only = true;
    join(utest_result, W, 0, "a");
    ASSERT_GE(until_leads(W, 0, 10), 0);
    memset(&synced, 0, sizeof synced);
    open_node(utest_result, W, 2, &c);
    run_ms(W, 10);
    EXPECT_EQ(0, synced.count);                      // an observer never takes over
    join(utest_result, W, 1, "b");
    run_ms(W, 10);
    EXPECT_EQ(1, synced.count);
    EXPECT_TRUE(was_synced(W->s.root));
    memset(&synced, 0, sizeof synced);
    leader_resign(&W->nodes[0].l, 20000);
    ASSERT_GE(until_leads(W, 1, 5000), 0);    // at once where there are notices
    EXPECT_EQ(3, synced.count);
    EXPECT_TRUE(was_synced(term_name(&W->s)));
    EXPECT_TRUE(was_synced(in_dir(&W->s, "record")));
    EXPECT_TRUE(was_synced(W->s.dir));
}
UTEST_F(file, a_new_directory_is_synced_by_those_who_synced_the_old) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    run_ms(W, 100);
    ASSERT_TRUE(leads(W, 0));
    W->nodes[0].idle = true;
    forget_all(W);
    record r = record_of("c", 500, clock_ms);        // of one that died before it synced anything
    ASSERT_TRUE(record_put(&W->s, &r));
    memset(&synced, 0, sizeof synced);
    EXPECT_GE(until_leads(W, 1, 5 * L), 0);
    EXPECT_TRUE(was_synced(W->s.root));
}

/* ---- listings in parts ------------------------------------------------------------------------- */

/* The directory of the record is read one name at a time, and the leader renews between two names: the
   reader may see the old name, the new one, both or none. Whatever it sees, it must take nothing from it.
   */
static struct { bool on; int calls, at, cursor, renewed; struct file *w; } torn;

long test_syscall(long number, ...) {
    va_list args;
    va_start(args, number);
    long fd = va_arg(args, long), buf = va_arg(args, long), cap = va_arg(args, long);
    va_end(args);
    if (number != SYS_getdents64 || !torn.on) return syscall(number, fd, buf, cap);
    torn.on = false;
    if (torn.calls++ == torn.at) {
        run_ms(torn.w, 100);
        torn.renewed++;
    }
    torn.on = true;
    char all[4096];
    long got = syscall(number, fd, all, sizeof all);
    if (got <= 0) return got;
    uint16_t length;                                 // hand out one name, and go on behind it
    uint64_t next;
    memcpy(&length, all + 16, sizeof length);
    memcpy(&next, all + 8, sizeof next);
    memcpy((char *)buf, all, length);
    lseek((int)fd, (off_t)next, SEEK_SET);
    return length;
}
UTEST_F(file, a_listing_torn_by_a_renewal_makes_no_second_leader) {
    int renewed = 0;
    for (int n = 0; n < 12; n++) {
        for (int i = 0; i < 2; i++) {
            leader_config c = config_of(W, i, i ? "late" : "early");
            c.renew_ms = 100;
            open_node(utest_result, W, i, &c);
        }
        W->nodes[1].idle = true;
        run_ms(W, 150);
        ASSERT_TRUE(leads(W, 0));
        memset(&torn, 0, sizeof torn);
        torn.w = W;
        torn.at = n;
        torn.on = true;
        leader_tick(&W->nodes[1].l);
        torn.on = false;
        renewed += torn.renewed;
        count_leaders(W);
        W->nodes[1].idle = false;
        run_ms(W, 200);
        EXPECT_TRUE(leads(W, 0));
        EXPECT_EQ(0, W->nodes[1].started);
        for (int i = 0; i < 2; i++) close_node(W, i);
        ASSERT_EQ(0, W->overlaps);
    }
    EXPECT_GE(renewed, 3);                           // or nothing was torn
}

/* ---- files and places -------------------------------------------------------------------------- */

UTEST_F(file, job_lease_is_a_readable_copy_with_the_documented_fields) {
    char command[2048];
    join(utest_result, W, 0, "h\xc3\xa9 \"q\" \\ \x01");
    run_ms(W, 1500);                                 // renewed once: the copy follows
    snprintf(command, sizeof command,
             "python3 -c 'import json,re,sys\n"
             "r=json.load(open(\"%s\"))\n"
             "assert r[\"holder\"]==\"h\\u00e9 \\\"q\\\" \\\\ \\u0001\", r\n"
             "assert r[\"leaseDuration\"]==\"3s\", r\n"
             "for k in (\"renewTime\",\"acquireTime\"): assert "
             "re.fullmatch(r\"\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{6}Z\", r[k]), r\n"
             "assert r[\"renewTime\"]>r[\"acquireTime\"], r\n"
             "assert r[\"token\"]==%llu and type(r[\"token\"]) is int, r\n"
             "assert r[\"nonce\"]==\"%016llx\", r\n"
             "assert r[\"bootId\"]==open(\"/proc/sys/kernel/random/boot_id\").read().strip(), r\n"
             "assert abs(r[\"bootClockMs\"]-%lld)<=1 and r[\"timeNamespace\"]==%llu and r[\"seq\"]>=1 and "
             "r[\"lockInode\"]>0, r\n"
             "'",
             W->s.path, (unsigned long long)W->nodes[0].token, (unsigned long long)W->nodes[0].l.nonce,
             (long long)W->nodes[0].l.request.sent_ms, (unsigned long long)this_time_namespace());
    EXPECT_EQ(0, system(command));
    char copy_bytes[4096];
    close_node(W, 0);
    file_get(W->s.path, copy_bytes, sizeof copy_bytes);
    EXPECT_TRUE(strstr(copy_bytes, "\"holder\": \"\"") != NULL);
}
UTEST_F(file, a_copy_that_cannot_be_written_is_logged_once) {
    join(utest_result, W, 0, "a");
    run_ms(W, 10);
    unlink(W->s.path);
    ASSERT_EQ(0, mkdir(W->s.path, 0700));
    run_ms(W, 5 * L);
    EXPECT_TRUE(leads(W, 0));
    EXPECT_EQ(1, W->nodes[0].started);
    EXPECT_TRUE(said(W, 0, "cannot be updated"));
    EXPECT_TRUE(strstr(strstr(W->nodes[0].said, "cannot be updated") + 1, "cannot be updated") == NULL);
    EXPECT_EQ(0, store_names(&W->s).drafts);
}

static int mode_of(const char *name) {
    struct stat st;
    return lstat(name, &st) == 0 ? (int)(st.st_mode & 07777) : -1;
}
static void modes(int *utest_result, struct file *w, int mode, mode_t mask, int want_file, int want_dir) {
    char lock[40];
    leader_config c = config_of(w, 0, "a");
    if (mode >= 0) leader_file_mode(&w->nodes[0].f, mode);
    open_node(utest_result, w, 0, &c);
    mode_t old = umask(mask);
    run_ms(w, 1200);
    umask(old);
    ASSERT_TRUE(leads(w, 0));
    snprintf(lock, sizeof lock, "lock.%016llx", (unsigned long long)w->nodes[0].l.nonce);
    EXPECT_EQ(want_file, mode_of(w->s.path));
    EXPECT_EQ(want_file, mode_of(term_name(&w->s)));
    EXPECT_EQ(want_file, mode_of(record_name(&w->s)));
    EXPECT_EQ(want_dir, mode_of(in_dir(&w->s, "record")));
    EXPECT_EQ(want_file, mode_of(in_dir(&w->s, lock)));
    EXPECT_EQ(want_dir, mode_of(w->s.dir));
}
UTEST_F(file, files_are_for_their_owner_alone_by_default) { modes(utest_result, W, -1, 0, 0600, 0700); }
UTEST_F(file, a_mode_of_ones_own_is_kept_whatever_the_umask) {
    modes(utest_result, W, 0660, 077, 0660, 0770);
}
UTEST_F(file, a_mode_readable_by_all_lets_all_enter_the_directory) {
    modes(utest_result, W, 0644, 022, 0644, 0755);
}
UTEST_F(file, no_umask_locks_us_out_of_the_directory)   { modes(utest_result, W, -1, 0177, 0600, 0700); }
UTEST_F(file, a_mode_beyond_permissions_is_refused_by_name) {
    leader_config c = config_of(W, 0, "a");
    leader_file_mode(&W->nodes[0].f, 01777);
    EXPECT_EQ(LEADER_E_CONFIG, leader_init(&W->nodes[0].l, &c));
    EXPECT_TRUE(strstr(leader_error(&W->nodes[0].l), "leader_file_mode") != NULL);
}

UTEST_F(file, a_relative_path_is_that_of_init_whatever_chdir_follows) {
    char before[1024];
    ASSERT_TRUE(getcwd(before, sizeof before) != NULL);
    ASSERT_EQ(0, chdir(W->s.root));
    leader_config c = config_of(W, 0, "a");
    c.backend = leader_file_backend(&W->nodes[0].f, "job.lease");
    open_node(utest_result, W, 0, &c);
    EXPECT_EQ(0, chdir("/"));
    run_ms(W, 10);
    EXPECT_TRUE(leads(W, 0));
    EXPECT_TRUE(file_exists(W->s.path));
    EXPECT_EQ(0, chdir(before));
    join(utest_result, W, 1, "b");
    run_ms(W, 2 * L);
    EXPECT_TRUE(leads(W, 0));
    EXPECT_FALSE(leads(W, 1));
}
static void refused_path(int *utest_result, struct file *w, const char *path, const char *why) {
    leader_config c = config_of(w, 0, "a");
    c.backend = leader_file_backend(&w->nodes[0].f, path);
    EXPECT_EQ(LEADER_E_CONFIG, leader_init(&w->nodes[0].l, &c));
    EXPECT_TRUE_MSG(strstr(leader_error(&w->nodes[0].l), why) != NULL, leader_error(&w->nodes[0].l));
}
UTEST_F(file, paths_that_cannot_be_are_refused_at_init_with_their_field) {
    char path[LEADER_PATH_MAX + 3], before[1024];
    memset(path, 'x', sizeof path);
    path[0] = '/';
    path[LEADER_PATH_MAX + 1] = 0;
    refused_path(utest_result, W, NULL, "path is missing");
    refused_path(utest_result, W, "", "path is missing");
    refused_path(utest_result, W, "/tmp/", "path names a directory");
    refused_path(utest_result, W, path, "path is longer than LEADER_PATH_MAX");
    path[0] = 'x';
    path[LEADER_PATH_MAX] = 0;                       // fits, but not behind the working directory
    refused_path(utest_result, W, path, "with the working directory before it");
    ASSERT_TRUE(getcwd(before, sizeof before) != NULL);
    ASSERT_EQ(0, mkdir(W->s.dir, 0700));
    ASSERT_EQ(0, chdir(W->s.dir));
    ASSERT_EQ(0, rmdir(W->s.dir));
    refused_path(utest_result, W, "job.lease", "the working directory has no name");
    ASSERT_EQ(0, chdir(before));
}
UTEST_F(file, the_longest_path_works_and_a_longer_one_is_named) {
    char path[LEADER_PATH_MAX + 2];
    snprintf(path, sizeof path, "%s", W->s.root);
    while (strlen(path) < 800) {
        memset(path + strlen(path) + 1, 0, 2);
        strcat(path, "/");
        size_t n = strlen(path);
        memset(path + n, 'd', 100);
        path[n + 100] = 0;
        ASSERT_EQ(0, mkdir(path, 0700));
    }
    strcat(path, "/");
    size_t n = strlen(path);
    memset(path + n, 'f', LEADER_PATH_MAX - n);
    path[LEADER_PATH_MAX] = 0;
    for (size_t at = n + 100; at < LEADER_PATH_MAX - 1; at += 101) {
        path[at] = 0;
        ASSERT_EQ(0, mkdir(path, 0700));
        path[at] = '/';
    }
    leader_config c = config_of(W, 0, "a");
    c.backend = leader_file_backend(&W->nodes[0].f, path);
    open_node(utest_result, W, 0, &c);
    EXPECT_EQ(1, until_leads(W, 0, 10));
    snprintf(path, sizeof path, "%s/", W->s.root);
    n = strlen(path);
    memset(path + n, 'f', 254);                      // with ".d" one more than the system allows
    path[n + 254] = 0;
    c = config_of(W, 1, "a");
    c.backend = leader_file_backend(&W->nodes[1].f, path);
    open_node(utest_result, W, 1, &c);
    run_ms(W, 10);
    EXPECT_TRUE(said(W, 1, "File name too long"));
    EXPECT_TRUE_MSG(strstr(leader_error(&W->nodes[1].l), "File name too long") != NULL,
                    leader_error(&W->nodes[1].l));
}
UTEST_F(file, a_directory_full_of_other_files_keeps_them_all) {
    ASSERT_EQ(0, mkdir(W->s.dir, 0700));
    for (int i = 0; i < 300; i++) {
        char name[80];
        static const char *const forms[] = {"noise-%d",     "term.%d", "%dx",     "lock.%d.notes",
                                            "draft.%d.txt", "-%d",     "lock.%d", "term.000000000000000%d"};
        snprintf(name, sizeof name, forms[i % 8], i);
        ASSERT_TRUE(file_put(in_dir(&W->s, name), "mine", 4));
    }
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    run_ms(W, 3 * L);
    EXPECT_TRUE(leads(W, 0));
    EXPECT_EQ(1, W->nodes[0].started);
    close_node(W, 0);
    EXPECT_LE(until_leads(W, 1, L), 3);
    names n = store_names(&W->s);
    EXPECT_EQ(300, n.locks - 1 + n.terms - 1 + n.drafts + n.others);
}

/* Leaves what a process leaves that dies at the worst moment: its lock, free, and a draft. */
static void leave_behind(int *utest_result, struct file *w, uint64_t nonce) {
    char name[40];
    snprintf(name, sizeof name, "lock.%016llx", (unsigned long long)nonce);
    ASSERT_TRUE(file_put(in_dir(&w->s, name), "", 0));
    snprintf(name, sizeof name, "term.%016llx.1", (unsigned long long)nonce);
    ASSERT_TRUE(file_put(in_dir(&w->s, name), "{", 1));
    snprintf(name, sizeof name, "new.%016llx", (unsigned long long)nonce);
    ASSERT_EQ(0, mkdir(in_dir(&w->s, name), 0700));
    snprintf(name, sizeof name, "new.%016llx/x", (unsigned long long)nonce);
    ASSERT_TRUE(file_put(in_dir(&w->s, name), "", 0));
}
UTEST_F(file, only_what_dead_processes_left_is_swept) {
    ASSERT_EQ(0, mkdir(W->s.dir, 0700));
    for (uint64_t i = 1; i <= 40; i++) leave_behind(utest_result, W, i * UINT64_C(0x9e3779b97f4a7c15));
    char name[40];
    leave_behind(utest_result, W, 77);
    snprintf(name, sizeof name, "lock.%016llx", 77ULL);
    int living = open(in_dir(&W->s, name), O_RDWR | O_CLOEXEC);
    struct flock lock;
    memset(&lock, 0, sizeof lock);
    lock.l_type = F_WRLCK;
    ASSERT_EQ(0, fcntl(living, F_OFD_SETLK, &lock));
    join(utest_result, W, 0, "a");
    EXPECT_EQ(1, until_leads(W, 0, 10));
    run_ms(W, L);                                    // with its first renewal
    names n = store_names(&W->s);
    EXPECT_EQ(2, n.locks);                           // the living one's and the leader's
    EXPECT_EQ(2, n.terms);
    EXPECT_EQ(1, n.drafts);
    close(living);
    close_node(W, 0);
    join(utest_result, W, 0, "a");
    run_ms(W, L);
    n = store_names(&W->s);
    EXPECT_EQ(1, n.locks);
    EXPECT_EQ(1, n.terms);
    EXPECT_EQ(0, n.drafts);
}
UTEST_F(file, a_standby_that_closes_leaves_nothing_behind) {
    join(utest_result, W, 0, "a");
    run_ms(W, 10);
    join(utest_result, W, 1, "b");
    run_ms(W, 2 * L);
    close_node(W, 1);
    names n = store_names(&W->s);
    EXPECT_EQ(1, n.locks);
    EXPECT_EQ(1, n.records);
    close_node(W, 0);
    n = store_names(&W->s);
    EXPECT_EQ(0, n.locks + n.drafts + n.others);
    EXPECT_EQ(1, n.records);
}
UTEST_F(file, closing_closes_every_descriptor) {
    int before = dup(0), after;
    close(before);
    for (int i = 0; i < 20; i++) {
        join(utest_result, W, 0, "a");
        run_ms(W, 1100);
        close_node(W, 0);
    }
    after = dup(0);
    close(after);
    EXPECT_EQ(before, after);
}

/* ---- things in the way ------------------------------------------------------------------------- */

/* Runs one candidate against what was put in its way: nobody leads, the error is said, and it recovers
   when the way is free. */
static void in_the_way(int *utest_result, struct file *w, const char *why, leader_result code,
                       void (*clear)(struct file *)) {
    join(utest_result, w, 0, "a");
    run_ms(w, 5 * L);
    EXPECT_FALSE(leads(w, 0));
    EXPECT_TRUE_MSG(strstr(leader_error(&w->nodes[0].l), why) != NULL, leader_error(&w->nodes[0].l));
    EXPECT_EQ(code, stats(w, 0).last_error);
    clear(w);
    EXPECT_GE(until_leads(w, 0, 4 * L), 0);
}
static void clear_path(struct file *w) { remove(w->s.path); }
static void clear_dir(struct file *w) { remove(w->s.dir); }
static void make_root(struct file *w) { mkdir(w->s.root, 0700); }

UTEST_F(file, a_missing_directory_is_named_and_its_coming_noticed) {
    ASSERT_EQ(0, rmdir(W->s.root));
    in_the_way(utest_result, W, "No such file or directory: make the directory around it first", LEADER_E_IO,
               make_root);
}
/* As what is mounted can be: nothing is known about the record until the directory around it is back. */
static void take_root_away(struct file *w, int64_t ms) {
    char aside[300];
    snprintf(aside, sizeof aside, "%s.away", w->s.root);
    rename(w->s.root, aside);
    run_ms(w, ms);
    rename(aside, w->s.root);
}

UTEST_F(file, a_term_goes_on_when_a_missing_directory_is_back_in_time) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    ASSERT_GE(until_leads(W, 0, 4 * L), 0);
    uint64_t token = leader_token(&W->nodes[0].l);
    run_ms(W, L / 6);
    take_root_away(W, L / 3 - 100);         // a renewal falls due meanwhile
    run_ms(W, 2 * L);
    EXPECT_EQ(token, leader_token(&W->nodes[0].l));
}

UTEST_F(file, a_directory_that_was_away_for_long_is_led_at_once) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    ASSERT_GE(until_leads(W, 0, 4 * L), 0);
    take_root_away(W, 5 * L);
    EXPECT_FALSE(leads(W, 0));
    run_ms(W, L / 2);               // two tries of a standby, half a lease
    EXPECT_TRUE(leads(W, 0) || leads(W, 1));
}

UTEST_F(file, a_directory_in_the_files_place_is_refused) {
    ASSERT_EQ(0, mkdir(W->s.path, 0700));
    in_the_way(utest_result, W, "job.lease: it is not a regular file", LEADER_E_CONFIG, clear_path);
}
UTEST_F(file, a_symbolic_link_at_the_path_is_refused) {
    char target[300];
    snprintf(target, sizeof target, "%s/precious", W->s.root);
    ASSERT_TRUE(file_put(target, "precious", 8));
    ASSERT_EQ(0, symlink(target, W->s.path));
    in_the_way(utest_result, W, "job.lease: it is a symbolic link", LEADER_E_CONFIG, clear_path);
    char text[32];
    EXPECT_EQ((ssize_t)8, file_get(target, text, sizeof text));
}
UTEST_F(file, a_dangling_symbolic_link_at_the_path_is_refused) {
    ASSERT_EQ(0, symlink("nowhere", W->s.path));
    in_the_way(utest_result, W, "job.lease: it is a symbolic link", LEADER_E_CONFIG, clear_path);
}
UTEST_F(file, a_fifo_in_the_files_place_is_refused_without_waiting) {
    ASSERT_EQ(0, mkfifo(W->s.path, 0600));
    in_the_way(utest_result, W, "job.lease: it is not a regular file", LEADER_E_CONFIG, clear_path);
}
UTEST_F(file, a_file_in_the_directorys_place_is_refused_and_kept) {
    ASSERT_TRUE(file_put(W->s.dir, "mine", 4));
    in_the_way(utest_result, W, "job.lease.d is in the way", LEADER_E_CONFIG, clear_dir);
}
UTEST_F(file, a_symbolic_link_as_the_directory_is_refused) {
    char target[300];
    snprintf(target, sizeof target, "%s/elsewhere", W->s.root);
    ASSERT_EQ(0, mkdir(target, 0700));
    ASSERT_EQ(0, symlink(target, W->s.dir));
    in_the_way(utest_result, W, "job.lease.d is in the way", LEADER_E_CONFIG, clear_dir);
    EXPECT_EQ(0, rmdir(target));                     // still empty
}
UTEST_F(file, a_fifo_in_the_directorys_place_is_refused_without_waiting) {
    ASSERT_EQ(0, mkfifo(W->s.dir, 0600));
    in_the_way(utest_result, W, "job.lease.d is in the way", LEADER_E_CONFIG, clear_dir);
}
UTEST_F(file, a_directory_that_everybody_may_write_into_is_refused) {
    ASSERT_EQ(0, mkdir(W->s.dir, 0700));
    ASSERT_EQ(0, chmod(W->s.dir, 0777));
    in_the_way(utest_result, W, "everybody may write into", LEADER_E_AUTH, clear_dir);
}
UTEST_F(file, a_directory_of_another_user_is_refused) {
    if (geteuid() != 0) UTEST_SKIP("only root can give a directory away");
    ASSERT_EQ(0, mkdir(W->s.dir, 0700));
    ASSERT_EQ(0, chown(W->s.dir, 12345, (gid_t)-1));
    in_the_way(utest_result, W, "belongs to user 12345, who could make anybody leader: chown -R 0",
               LEADER_E_AUTH, clear_dir);
}
static void in_the_terms_place(int *utest_result, struct file *w, const char *why) {
    join(utest_result, w, 0, "a");
    run_ms(w, 2 * L);
    EXPECT_FALSE(leads(w, 0));
    EXPECT_TRUE_MSG(strstr(leader_error(&w->nodes[0].l), why) != NULL, leader_error(&w->nodes[0].l));
    EXPECT_EQ(LEADER_E_CONFIG, stats(w, 0).last_error);
    remove(term_name(&w->s));
    EXPECT_GE(until_leads(w, 0, 4 * L), 0);          // without a text it belongs to an unknown for a lease
}
UTEST_F(file, a_directory_in_a_texts_place_is_refused) {
    record r = record_of("x", 5, 1);
    ASSERT_TRUE(record_put(&W->s, &r));
    ASSERT_EQ(0, unlink(term_name(&W->s)));
    ASSERT_EQ(0, mkdir(term_name(&W->s), 0700));
    in_the_terms_place(utest_result, W, "it is not a regular file");
}
UTEST_F(file, a_symbolic_link_in_a_texts_place_is_refused) {
    record r = record_of("x", 5, 1);
    ASSERT_TRUE(record_put(&W->s, &r));
    ASSERT_EQ(0, unlink(term_name(&W->s)));
    ASSERT_EQ(0, symlink("/etc/passwd", term_name(&W->s)));
    in_the_terms_place(utest_result, W, "it is a symbolic link");
}
UTEST_F(file, a_fifo_in_a_texts_place_is_refused_without_waiting) {
    record r = record_of("x", 5, 1);
    ASSERT_TRUE(record_put(&W->s, &r));
    ASSERT_EQ(0, unlink(term_name(&W->s)));
    ASSERT_EQ(0, mkfifo(term_name(&W->s), 0600));
    in_the_terms_place(utest_result, W, "it is not a regular file");
}

/* ---- what the system refuses: each in a child of its own, which changes what it may do --------- */

static void in_child(int *utest_result, struct file *w, void (*body)(int *utest_result, struct file *w)) {
    fflush(stdout);
    pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
        int result = UTEST_TEST_PASSED;
        body(&result, w);
        fflush(stdout);
        _exit(result);
    }
    int status;
    ASSERT_EQ(pid, waitpid(pid, &status, 0));
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == UTEST_TEST_SKIPPED)
        UTEST_SKIP("the system does not let this test mount anything");
    EXPECT_EQ(UTEST_TEST_PASSED, WEXITSTATUS(status));
}
/* A mount namespace of our own; where we are not root, in a user namespace in which we are. */
static bool private_mounts(void) {
    if (unshare(CLONE_NEWNS) != 0) {
        char map[2][40];
        snprintf(map[0], sizeof map[0], "0 %u 1", (unsigned)geteuid());
        snprintf(map[1], sizeof map[1], "0 %u 1", (unsigned)getegid());
        static const char *const files[] = {"/proc/self/setgroups", "/proc/self/uid_map",
                                            "/proc/self/gid_map"};
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
        for (int i = 0; i < 3; i++) {
            const char *text = i == 0 ? "deny" : map[i - 1];
            int fd = open(files[i], O_WRONLY | O_CLOEXEC);
            if (fd < 0 || write(fd, text, strlen(text)) < 0) return false;
            close(fd);
        }
    }
    return mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0;
}

static bool become_somebody(void) { return getuid() != 0 || (setgid(65534) == 0 && setuid(65534) == 0); }
static void without_rights(int *utest_result, struct file *w) {
    ASSERT_TRUE(become_somebody());
    join(utest_result, w, 0, "a");
    run_ms(w, 3 * L);
    EXPECT_FALSE(leads(w, 0));
    EXPECT_EQ(LEADER_E_AUTH, stats(w, 0).last_error);
    EXPECT_TRUE_MSG(strstr(leader_error(&w->nodes[0].l), "Permission denied") != NULL,
                    leader_error(&w->nodes[0].l));
    EXPECT_TRUE_MSG(strstr(leader_error(&w->nodes[0].l), "job.lease") != NULL, leader_error(&w->nodes[0].l));
    close_node(w, 0);
}
UTEST_F(file, no_right_to_make_the_directory_is_an_error_of_rights) {
    ASSERT_EQ(0, chmod(W->s.root, 0555));
    in_child(utest_result, W, without_rights);
    chmod(W->s.root, 0700);
}
UTEST_F(file, no_right_to_enter_the_directory_is_an_error_of_rights) {
    ASSERT_EQ(0, chmod(W->s.root, 0777));
    ASSERT_EQ(0, mkdir(W->s.dir, 0));
    in_child(utest_result, W, without_rights);
    chmod(W->s.dir, 0700);
}
UTEST_F(file, no_right_to_read_the_record_is_an_error_of_rights) {
    record r = record_of("", 5, 1);
    ASSERT_EQ(0, chmod(W->s.root, 0777));
    ASSERT_TRUE(record_put(&W->s, &r));
    ASSERT_EQ(0, chmod(term_name(&W->s), 0));
    ASSERT_EQ(0, chmod(in_dir(&W->s, "record"), 0755));
    ASSERT_EQ(0, chmod(W->s.dir, 0755));
    in_child(utest_result, W, without_rights);
}
UTEST_F(file, no_right_to_write_a_record_is_an_error_of_rights) {
    record r = record_of("", 5, 1);
    ASSERT_EQ(0, chmod(W->s.root, 0777));
    ASSERT_TRUE(record_put(&W->s, &r));
    ASSERT_EQ(0, chmod(term_name(&W->s), 0444));
    ASSERT_EQ(0, chmod(in_dir(&W->s, "record"), 0555));
    ASSERT_EQ(0, chmod(W->s.dir, 0555));
    in_child(utest_result, W, without_rights);
    chmod(W->s.dir, 0700);
}
static void with_rights_to_watch(int *utest_result, struct file *w) {
    char leader[LEADER_IDENTITY_MAX + 1];
    ASSERT_TRUE(become_somebody());
    leader_config c = config_of(w, 1, "watcher");
    c.observe_only = true;
    open_node(utest_result, w, 1, &c);
    run_ms(w, 10);
    leader_get_leader(&w->nodes[1].l, leader, sizeof leader);
    EXPECT_STREQ("a", leader);
    close_node(w, 1);
}
UTEST_F(file, with_a_readable_mode_another_user_may_observe) {
    ASSERT_EQ(0, chmod(W->s.root, 0755));
    leader_config c = config_of(W, 0, "a");
    leader_file_mode(&W->nodes[0].f, 0644);
    open_node(utest_result, W, 0, &c);
    run_ms(W, 10);
    in_child(utest_result, W, with_rights_to_watch);
}

/* Two users of one group share an election. Node n is a process of user 4000 + n. */
enum { SHARED_GROUP = 5000 };

static bool become_member(int n) {
    gid_t shared = SHARED_GROUP;
    gid_t own = (gid_t)(4000 + n);
    return setgroups(1, &shared) == 0 && setgid(own) == 0 && setuid((uid_t)own) == 0;
}
static void member_leads(int *utest_result, struct file *w, int n, bool dies) {
    ASSERT_TRUE(become_member(n));
    leader_config c = config_of(w, n, n == 1 ? "one" : "two");
    leader_file_mode(&w->nodes[n].f, 0660);
    open_node(utest_result, w, n, &c);
    EXPECT_GE(until_leads(w, n, 100), 0);            // at once: released, or dead by its lock
    EXPECT_STREQ("", w->nodes[n].said);
    run_ms(w, 2 * L);
    EXPECT_TRUE(leads(w, n));
    if (!dies) close_node(w, n);
}
static void one_leads(int *utest_result, struct file *w) { member_leads(utest_result, w, 1, false); }
static void one_dies(int *utest_result, struct file *w) { member_leads(utest_result, w, 1, true); }
static void two_leads(int *utest_result, struct file *w) { member_leads(utest_result, w, 2, false); }
static void two_dies(int *utest_result, struct file *w) { member_leads(utest_result, w, 2, true); }

static void shared_by_group(int *utest_result, struct file *w, mode_t mode) {
    void (*const turns[])(int *, struct file *) = {one_leads, two_leads, one_dies, two_dies, one_leads};
    if (geteuid() != 0) UTEST_SKIP("only root can become two users");
    ASSERT_EQ(0, chown(w->s.root, 0, SHARED_GROUP));
    ASSERT_EQ(0, chmod(w->s.root, mode));
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
        in_child(utest_result, w, turns[i]);
        clock_ms += 3 * L;
    }
    struct stat st;
    ASSERT_EQ(0, stat(w->s.dir, &st));
    EXPECT_EQ((gid_t)SHARED_GROUP, st.st_gid);
    EXPECT_EQ(mode & S_ISGID, st.st_mode & S_ISGID);
    ASSERT_EQ(0, stat(term_name(&w->s), &st));
    EXPECT_EQ((gid_t)SHARED_GROUP, st.st_gid);
    EXPECT_EQ(0660u, st.st_mode & 07777u);
}
UTEST_F(file, two_users_of_a_group_take_over_in_a_setgid_directory) {
    shared_by_group(utest_result, W, 02770);
}
UTEST_F(file, two_users_of_a_group_take_over_in_a_plain_directory) {
    shared_by_group(utest_result, W, 0770);
}

static void read_only(int *utest_result, struct file *w) {
    if (!private_mounts() || mount("none", w->s.root, "tmpfs", 0, "size=1m") != 0) UTEST_SKIP("no mounts");
    join(utest_result, w, 0, "a");
    join(utest_result, w, 1, "b");
    run_ms(w, 100);
    EXPECT_TRUE(leads(w, 0));
    ASSERT_EQ(0, mount(w->s.root, w->s.root, NULL, MS_BIND, NULL));  // the same files, from now on ...
    ASSERT_EQ(0, mount(NULL, w->s.root, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL));      // ... read-only
    run_ms(w, 3 * L);
    EXPECT_FALSE(leads(w, 0));                       // its renewals failed, so it stepped down in time
    EXPECT_FALSE(leads(w, 1));
    EXPECT_EQ(1, w->nodes[0].stopped);
    EXPECT_EQ(LEADER_E_IO, stats(w, 0).last_error);
    EXPECT_EQ(LEADER_E_IO, stats(w, 1).last_error);
    EXPECT_TRUE_MSG(strstr(leader_error(&w->nodes[1].l), "Read-only file system") != NULL,
                    leader_error(&w->nodes[1].l));
    ASSERT_EQ(0, umount2(w->s.root, MNT_DETACH));
    run_ms(w, 2 * L);
    EXPECT_TRUE(leads(w, 0) || leads(w, 1));
    EXPECT_EQ(0, w->overlaps + unordered_tokens);
}
UTEST_F(file, on_a_read_only_disk_the_leader_steps_down_and_recovers) {
    in_child(utest_result, W, read_only);
}

static void full_disk(int *utest_result, struct file *w) {
    char name[300];
    static char block[65536];
    if (!private_mounts() || mount("none", w->s.root, "tmpfs", 0, "size=256k") != 0) UTEST_SKIP("no mounts");
    join(utest_result, w, 0, "a");
    join(utest_result, w, 1, "b");
    run_ms(w, 100);
    EXPECT_TRUE(leads(w, 0));
    snprintf(name, sizeof name, "%s/fill", w->s.root);
    int fd = open(name, O_WRONLY | O_CREAT, 0600);
    while (write(fd, block, sizeof block) > 0) {}
    while (write(fd, block, 1) > 0) {}
    close(fd);
    run_ms(w, 3 * L);
    EXPECT_TRUE(leads(w, 0));                        // to rename takes no space
    EXPECT_EQ(0, w->nodes[0].stopped);
    close_node(w, 0);
    run_ms(w, 3 * L);
    EXPECT_FALSE(leads(w, 1));
    EXPECT_EQ(LEADER_E_IO, stats(w, 1).last_error);
    EXPECT_TRUE_MSG(strstr(leader_error(&w->nodes[1].l), "No space left on device") != NULL,
                    leader_error(&w->nodes[1].l));
    EXPECT_EQ(0, store_names(&w->s).drafts);         // half a draft must not use up what little there is
    EXPECT_EQ(1, store_names(&w->s).terms);
    EXPECT_EQ(1, store_names(&w->s).records);
    unlink(name);
    run_ms(w, 2 * L);
    EXPECT_TRUE(leads(w, 1));
    EXPECT_EQ(0, w->overlaps + unordered_tokens);
}
UTEST_F(file, on_a_full_disk_the_leader_goes_on_and_nobody_takes_over) {
    in_child(utest_result, W, full_disk);
}

static void no_inodes(int *utest_result, struct file *w) {
    if (!private_mounts() || mount("none", w->s.root, "tmpfs", 0, "size=1m,nr_inodes=3") != 0)
        UTEST_SKIP("no mounts");
    join(utest_result, w, 0, "a");  // the root, the directory, and one more: a lock, no record
    run_ms(w, 2 * L);
    EXPECT_FALSE(leads(w, 0));
    EXPECT_TRUE_MSG(strstr(leader_error(&w->nodes[0].l), "No space left on device") != NULL,
                    leader_error(&w->nodes[0].l));
    ASSERT_EQ(0, mount("none", w->s.root, NULL, MS_REMOUNT, "nr_inodes=100"));
    EXPECT_GE(until_leads(w, 0, 2 * L), 0);
}
UTEST_F(file, without_a_free_inode_nobody_leads_and_all_recover) { in_child(utest_result, W, no_inodes); }

/* As on FAT: link fails with EPERM. */
static bool forbid_links(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {(unsigned short)(sizeof filter / sizeof filter[0]), filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
           && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
static void no_links(int *utest_result, struct file *w) {
    if (!forbid_links()) UTEST_SKIP("no seccomp");
    join(utest_result, w, 0, "a");
    run_ms(w, 1);
    EXPECT_TRUE(leads(w, 0));
    run_ms(w, 3 * L);
    EXPECT_TRUE(leads(w, 0));
}
UTEST_F(file, a_file_system_without_hard_links_will_do) { in_child(utest_result, W, no_links); }

/* Node 0 closes while its lock file is open and about to be asked. */
static struct file *close_while_asking;
int test_fcntl(int fd, int command, ...) {
    va_list args;
    va_start(args, command);
    bool locks = command == F_OFD_GETLK || command == F_OFD_SETLK;
    void *lock = locks ? va_arg(args, void *) : NULL;
    int number = locks ? 0 : va_arg(args, int);
    va_end(args);
    if (command == F_OFD_GETLK && close_while_asking) {
        struct file *w = close_while_asking;
        close_while_asking = NULL;
        close_node(w, 0);
    }
    return locks ? fcntl(fd, command, lock) : fcntl(fd, command, number);
}
UTEST_F(file, a_lease_kept_by_a_close_while_its_lock_is_asked_is_no_death) {
    leader_config c = config_of(W, 0, "a");
    c.keep_lease_on_stop = true;
    open_node(utest_result, W, 0, &c);
    run_ms(W, 10);
    ASSERT_TRUE(leads(W, 0));
    join(utest_result, W, 1, "b");
    close_while_asking = W;
    int64_t kept = clock_ms;
    ASSERT_GE(until_leads(W, 1, 2 * L), 0);
    EXPECT_TRUE(close_while_asking == NULL);
    EXPECT_GE(clock_ms, kept + L - 20);
}
UTEST_F(file, a_holder_whose_lock_is_free_is_succeeded_at_once) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    run_ms(W, 1100);
    die(W, 0);
    EXPECT_LE(until_leads(W, 1, 2 * L), 10);
}
static void without_proc(int *utest_result, struct file *w) {
    if (!private_mounts() || mount("none", "/proc", "tmpfs", 0, NULL) != 0) UTEST_SKIP("no mounts");
    join(utest_result, w, 0, "a");
    join(utest_result, w, 1, "b");
    run_ms(w, 2 * L);
    EXPECT_TRUE(leads(w, 0));
    die(w, 0);
    int64_t died = clock_ms;
    EXPECT_GE(until_leads(w, 1, 2 * L), 0);
    EXPECT_GT(clock_ms, died + L - 1000);  // no boot id: no death can be told, the lease is observed
    EXPECT_EQ(0, w->overlaps + unordered_tokens);
}
UTEST_F(file, where_no_boot_id_can_be_had_every_lease_is_observed) {
    in_child(utest_result, W, without_proc);
}

static void without_descriptors(int *utest_result, struct file *w) {
    struct rlimit limit = {40, 40};
    int fds[40], count = 0;
    ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
    join(utest_result, w, 0, "a");
    join(utest_result, w, 1, "b");
    run_ms(w, 100);
    ASSERT_TRUE(leads(w, 0));
    while (count < 40 && (fds[count] = dup(0)) >= 0) count++;
    run_ms(w, 3 * L);
    EXPECT_FALSE(leads(w, 0) || leads(w, 1));
    EXPECT_EQ(1, w->nodes[0].stopped);
    EXPECT_EQ(LEADER_E_IO, stats(w, 1).last_error);
    EXPECT_TRUE_MSG(strstr(leader_error(&w->nodes[1].l), "Too many open files") != NULL,
                    leader_error(&w->nodes[1].l));
    while (count > 0) close(fds[--count]);
    run_ms(w, 2 * L);
    EXPECT_TRUE(leads(w, 0) || leads(w, 1));
    for (int i = 0; i < 2; i++) close_node(w, i);
    int next = dup(0);                               // nothing leaked on the way
    EXPECT_LT(next, 20);
    EXPECT_EQ(0, w->overlaps + unordered_tokens);
}
UTEST_F(file, without_a_free_descriptor_the_leader_recovers) {
    in_child(utest_result, W, without_descriptors);
}

/* ---- what is not a record ---------------------------------------------------------------------- */

/* A record under a number that cannot be understood: said with the file and what is wrong in it, held by
   an unknown for a full lease, not a byte of it changed until then. */
static void corrupt_record(int *utest_result, struct file *w, const void *bytes, size_t len,
                           const char *why) {
    static char text[200000];
    int64_t start = clock_ms;
    record r = record_of("x", 5, 1);
    ASSERT_TRUE(record_put_text(&w->s, &r, bytes, len));
    join(utest_result, w, 0, "a");
    run_ms(w, 1);
    EXPECT_EQ_MSG(LEADER_E_CORRUPT, stats(w, 0).last_error, why);
    EXPECT_TRUE_MSG(strstr(leader_error(&w->nodes[0].l), "the record in ") != NULL,
                    leader_error(&w->nodes[0].l));
    EXPECT_TRUE_MSG(strstr(leader_error(&w->nodes[0].l), why) != NULL, leader_error(&w->nodes[0].l));
    run_ms(w, L);
    EXPECT_FALSE(leads(w, 0));
    EXPECT_EQ((ssize_t)len, file_get(term_name(&w->s), text, sizeof text));
    EXPECT_EQ(0, memcmp(text, bytes, len));
    EXPECT_EQ(1, store_names(&w->s).records);
    EXPECT_GE(until_leads(w, 0, L), 0);              // but not for ever
    EXPECT_GT(clock_ms, start + L + 1);
    close_node(w, 0);
    store_remove_tree(w->s.dir);
    unlink(w->s.path);
    last_token = 0;
}
#define GOOD_(holder, renew, duration, token, nonce, seq, rest)                                              \
    "{\"holder\": " holder ", \"renewTime\": " renew ", \"leaseDuration\": " duration ", \"token\": " token  \
    ", \"nonce\": " nonce ", \"seq\": " seq rest "}"
#define TIME_ "\"2026-11-16T01:28:19.182774Z\""
#define NONCE_ "\"5eed5eed5eed5eed\""
#define TEXT_ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

UTEST_F(file, a_record_with_a_wrong_field_is_refused_by_its_name) {
    static const struct { const char *text, *why; } cases[] = {
        
        {"{\"renewTime\": " TIME_ "}", "holder is missing"},
        {GOOD_("7", TIME_, "\"3s\"", "5", NONCE_, "1", ""), "holder is not a string"},
        {GOOD_("null", TIME_, "\"3s\"", "5", NONCE_, "1", ""), "holder is not a string"},
        {GOOD_("[\"a\"]", TIME_, "\"3s\"", "5", NONCE_, "1", ""), "holder is not a string"},
        {GOOD_("\"" TEXT_ TEXT_ TEXT_ TEXT_ "\"", TIME_, "\"3s\"", "5", NONCE_, "1", ""),
        "holder is not a string of at most 255 bytes"},
        {GOOD_("\"a\\u0000b\"", TIME_, "\"3s\"", "5", NONCE_, "1", ""), "holder is not a string"},
        {GOOD_("\"a\\ud800b\"", TIME_, "\"3s\"", "5", NONCE_, "1", ""), "holder is not a string"},
        {"{\"holder\": \"a\", \"leaseDuration\": \"3s\"}", "renewTime is missing"},
        {GOOD_("\"a\"", "1763256499", "\"3s\"", "5", NONCE_, "1", ""), "renewTime is not a time"},
        {GOOD_("\"a\"", "\"yesterday\"", "\"3s\"", "5", NONCE_, "1", ""), "renewTime is not a time"},
        {GOOD_("\"a\"", "\"\"", "\"3s\"", "5", NONCE_, "1", ""), "renewTime is not a time"},
        {"{\"holder\": \"a\", \"renewTime\": " TIME_ ", \"token\": 5}", "leaseDuration is missing"},
        {GOOD_("\"a\"", TIME_, "3", "5", NONCE_, "1", ""), "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"\"", "5", NONCE_, "1", ""), "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"3\"", "5", NONCE_, "1", ""), "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"s\"", "5", NONCE_, "1", ""), "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"0s\"", "5", NONCE_, "1", ""), "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"-3s\"", "5", NONCE_, "1", ""), "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"3d\"", "5", NONCE_, "1", ""), "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"3s \"", "5", NONCE_, "1", ""), "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"1e3s\"", "5", NONCE_, "1", ""), "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"1.2.3s\"", "5", NONCE_, "1", ""), "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"3s-1s\"", "5", NONCE_, "1", ""), "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"87601h\"", "5", NONCE_, "1", ""), "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"50000h50000h\"", "5", NONCE_, "1", ""), "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"99999999999999999999999999s\"", "5", NONCE_, "1", ""),
        "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"9223372036854775807ms\"", "5", NONCE_, "1", ""),
        "leaseDuration is not a duration"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "\"5\"", NONCE_, "1", ""), "token is not a whole number"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "-5", NONCE_, "1", ""), "token is not a whole number"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5.0", NONCE_, "1", ""), "token is not a whole number"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5e0", NONCE_, "1", ""), "token is not a whole number"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "9007199254740992", NONCE_, "1", ""),
        "token is not a whole number below 2^53"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "18446744073709551616", NONCE_, "1", ""),
        "token is not a whole number"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "05", NONCE_, "1", ""), "not JSON at byte"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5", "5", "1", ""), "nonce is not 16 hexadecimal digits"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5", "\"5eed\"", "1", ""), "nonce is not 16 hexadecimal digits"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5", "\"5eed5eed5eed5eeg\"", "1", ""),
        "nonce is not 16 hexadecimal digits"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5", "\"5eed5eed5eed5eed0\"", "1", ""),
        "nonce is not 16 hexadecimal digits"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5", NONCE_, "true", ""), "seq is not a whole number"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5", NONCE_, "-1", ""), "seq is not a whole number"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5", NONCE_, "1", ", \"bootId\": 7"), "bootId is not a string"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5", NONCE_, "1", ", \"bootId\": \"" TEXT_ "\""),
        "bootId is not a string of at most 39 bytes"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5", NONCE_, "1", ", \"timeNamespace\": \"x\""),
        "timeNamespace is not a whole number"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5", NONCE_, "1", ", \"lockDevice\": {}"),
        "lockDevice is not a whole number"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5", NONCE_, "1", ", \"lockInode\": null"),
        "lockInode is not a whole number"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5", NONCE_, "1", ", \"holdOffMs\": 1.5"),
        "holdOffMs is not a whole number"},
        {GOOD_("\"a\"", TIME_, "\"3s\"", "5", NONCE_, "1", ", \"holder\": \"b\""),
        "holder is missing, or there twice"},
        {"[]", "not a JSON object"},
        {"7", "not a JSON object"},
        {"\"a\"", "not a JSON object"},
        {"null", "not a JSON object"},
        {"", "not JSON at byte 0"},
        {"\n\n", "not JSON at byte 2"},
        {"nothing", "not JSON at byte"},
        {"{} x", "not JSON at byte 3"},
        {"{\"holder\": \"a\",}", "not JSON at byte 15"},
        {"{'holder': 'a'}", "not JSON at byte 1"},
        {"\xef\xbb\xbf{}", "not JSON at byte 0"},
        {"{\"holder\": \"\xff\"}", "not JSON at byte 12"},
        {"{\"holder\": \"a\nb\"}", "not JSON at byte 13"},
        {"{\"holder\": \"a", "not JSON at byte 13"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        corrupt_record(utest_result, W, cases[i].text, strlen(cases[i].text), cases[i].why);
}
UTEST_F(file, deep_nesting_binary_and_huge_records_are_refused) {
    static char bytes[100000];
    memset(bytes, '[', sizeof bytes);
    corrupt_record(utest_result, W, bytes, 8000, "not JSON at byte 32");
    corrupt_record(utest_result, W, bytes, sizeof bytes, "more than 8192 bytes");
    corrupt_record(utest_result, W, bytes, 8193, "more than 8192 bytes");
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7919 >> 3);
    corrupt_record(utest_result, W, bytes, 4000, "not JSON at byte 0");
    corrupt_record(utest_result, W, bytes, 70000, "more than 8192 bytes");
    memset(bytes, 0, sizeof bytes);
    corrupt_record(utest_result, W, bytes, 4096, "not JSON at byte 0");      // as a crash can leave a file
    memset(bytes, ' ', sizeof bytes);
    corrupt_record(utest_result, W, bytes, 8192, "not JSON at byte 8192");
}
UTEST_F(file, a_record_cut_off_at_any_byte_is_not_taken_before_a_lease) {
    char text[1024];
    record r = record_of("somebody", 5, 1);
    size_t len = record_text(text, sizeof text, &r);
    for (size_t cut = 0; cut + 1 < len; cut++) {
        ASSERT_TRUE(record_put_text(&W->s, &r, text, cut));
        join(utest_result, W, 0, "a");
        run_ms(W, 1);
        ASSERT_EQ(LEADER_E_CORRUPT, stats(W, 0).last_error);
        EXPECT_TRUE_MSG(strstr(leader_error(&W->nodes[0].l), "not JSON at byte") != NULL,
                        leader_error(&W->nodes[0].l));
        ASSERT_FALSE(leads(W, 0));
        close_node(W, 0);
        EXPECT_EQ(1, store_names(&W->s).records);
    }
}
UTEST_F(file, a_record_with_any_byte_changed_is_never_taken_early) {
    char text[1024], changed[1024];
    record r = record_of("somebody", 5, clock_ms);
    size_t len = record_text(text, sizeof text, &r);
    for (size_t at = 0; at < len; at++) {
        memcpy(changed, text, len + 1);
        changed[at] = (char)(changed[at] ^ (1 << at * 5 % 8));
        ASSERT_TRUE(record_put_text(&W->s, &r, changed, len));
        join(utest_result, W, 0, "a");
        clock_ms++;
        leader_tick(&W->nodes[0].l);
        /* Only a stamp that now says "long ago" makes it a record that may be taken. */
        bool over = strstr(changed, "\"bootClockMs\": 1000000") == NULL
                    && strstr(changed, "\"bootClockMs\": ") != NULL;
        EXPECT_TRUE_MSG(!leads(W, 0) || over, changed);
        close_node(W, 0);
        clock_ms = 1000000;
        forget_record(W);
        unlink(W->s.path);
    }
    last_token = 0;
}
UTEST_F(file, fields_that_others_added_and_white_space_do_no_harm) {
    const char *text =
        "\r\n\t {\"x\": [1, {\"holder\": \"no\"}, \"\\u00e9\\ud83d\\ude00\"], \"holder\"\n:\t\"a\", "
        "\"renewTime\": " TIME_ ", \"leaseDuration\": \"62m\", \"token\": 5, \"nonce\": "
                                "\"5EED5eed5eed5eed\", \"seq\": 1, \"y\": -1.5e+9, \"z\": null}  \n";
    char leader[LEADER_IDENTITY_MAX + 1];
    record r = record_of("a", 5, 1);
    r.boot = "elsewhere";
    r.lease_ms = 62 * 60000;
    ASSERT_TRUE(record_put_text(&W->s, &r, text, strlen(text)));
    join(utest_result, W, 0, "b");
    run_ms(W, 1);
    leader_get_leader(&W->nodes[0].l, leader, sizeof leader);
    EXPECT_STREQ("a", leader);
    EXPECT_EQ((uint64_t)0, stats(W, 0).failures);
    run_ms(W, 3 * L);
    EXPECT_FALSE(leads(W, 0));
    clock_ms += 3720000 - 3 * L - 100;
    run_ms(W, 100);
    EXPECT_FALSE(leads(W, 0));
    EXPECT_GE(until_leads(W, 0, 4000), 0);
}
UTEST_F(file, a_leader_rewrites_an_edited_record_and_keeps_its_term) {
    join(utest_result, W, 0, "a");
    join(utest_result, W, 1, "b");
    run_ms(W, 100);
    int fd = open(term_name(&W->s), O_WRONLY | O_TRUNC | O_CLOEXEC);
    EXPECT_EQ((ssize_t)6, write(fd, "vandal", 6));
    close(fd);
    run_ms(W, 3 * L);
    EXPECT_TRUE(leads(W, 0));
    EXPECT_EQ(1, W->nodes[0].started);
    EXPECT_EQ(0, W->nodes[1].started);
}

/* The path itself, where there is no record: something that we did not write. */
static void foreign_file(int *utest_result, struct file *w, const void *bytes, size_t len, const char *why) {
    static char text[200000];
    char pattern[300];
    int64_t start = clock_ms;
    ASSERT_TRUE(file_put(w->s.path, bytes, len));
    join(utest_result, w, 0, "a");
    run_ms(w, 1);
    EXPECT_EQ(LEADER_E_CORRUPT, stats(w, 0).last_error);
    EXPECT_TRUE_MSG(strstr(leader_error(&w->nodes[0].l), why) != NULL, leader_error(&w->nodes[0].l));
    run_ms(w, L);
    EXPECT_FALSE(leads(w, 0));
    EXPECT_EQ((ssize_t)len, file_get(w->s.path, text, sizeof text));
    EXPECT_EQ(0, memcmp(text, bytes, len));
    EXPECT_GE(until_leads(w, 0, 2 * L), 0);          // the file's lease, and a hold-off of our own
    EXPECT_GT(clock_ms, start + 2 * L);
    DIR *d = opendir(w->s.root);
    int found = 0;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (strncmp(e->d_name, "job.lease.corrupt-", 18) != 0) continue;
        snprintf(pattern, sizeof pattern, "%s/%.80s", w->s.root, e->d_name);
        EXPECT_EQ((ssize_t)len, file_get(pattern, text, sizeof text));
        EXPECT_EQ(0, memcmp(text, bytes, len));
        unlink(pattern);
        found++;
    }
    if (d) closedir(d);
    EXPECT_EQ(1, found);                             // moved aside, every byte of it
    close_node(w, 0);
    store_remove_tree(w->s.dir);
    unlink(w->s.path);
    last_token = 0;
}
UTEST_F(file, a_foreign_file_at_the_path_is_moved_aside_never_destroyed) {
    static char bytes[100000];
    foreign_file(utest_result, W, "", 0, "job.lease is no lease record: not JSON at byte 0");
    foreign_file(utest_result, W, "root:x:0:0:", 11, "job.lease is no lease record: not JSON at byte 0");
    foreign_file(utest_result, W, "{\"holder\": 1}", 13,
                 "job.lease is no lease record: holder is not a string");
    foreign_file(utest_result, W, bytes, sizeof bytes, "job.lease is no lease record: more than 8192 bytes");
    foreign_file(utest_result, W, bytes, 5000, "job.lease is no lease record: not JSON at byte 0");
}
UTEST_F(file, somebodys_own_file_is_kept_though_records_lie_beside_it) {
    char text[100];
    join(utest_result, W, 0, "a");
    run_ms(W, 10);
    close_node(W, 0);
    ASSERT_EQ(1, store_names(&W->s).records);
    ASSERT_TRUE(file_put(W->s.path, "my thesis", 9));
    join(utest_result, W, 0, "a");
    ASSERT_GE(until_leads(W, 0, L), 0);
    run_ms(W, 2 * L);
    close_node(W, 0);
    EXPECT_EQ((ssize_t)9, file_get(W->s.path, text, sizeof text));
    EXPECT_STREQ("my thesis", text);
    EXPECT_TRUE(said(W, 0, "something else stands there"));
}
UTEST_F(file, a_foreign_file_that_changes_is_left_alone_for_another_lease) {
    ASSERT_TRUE(file_put(W->s.path, "x", 1));
    join(utest_result, W, 0, "a");
    run_ms(W, L - 100);
    ASSERT_TRUE(file_put(W->s.path, "y", 1));
    EXPECT_GT(until_leads(W, 0, 4 * L), L - 100);
}

/* ---- life and death within one process --------------------------------------------------------- */

UTEST_F(file, a_child_of_fork_is_nobody_and_touches_nothing) {
    join(utest_result, W, 0, "a");
    run_ms(W, 10);
    fflush(stdout);
    pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
        bool good = !leader_is_leader(&W->nodes[0].l);
        clock_ms += L;
        leader_tick(&W->nodes[0].l);
        good = good && !leader_is_leader(&W->nodes[0].l) && leader_close(&W->nodes[0].l, 100) == LEADER_OK;
        _exit(good ? 0 : 1);
    }
    int status;
    ASSERT_EQ(pid, waitpid(pid, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_EQ(1, store_names(&W->s).locks);
    join(utest_result, W, 1, "b");
    run_ms(W, 3 * L);
    EXPECT_TRUE(leads(W, 0));
    EXPECT_EQ(1, W->nodes[0].started);
}
UTEST_F(file, one_leader_file_serves_one_election_after_another) {
    join(utest_result, W, 0, "a");
    run_ms(W, 10);
    close_node(W, 0);
    leader_config c = config_of(W, 0, "a");
    open_node(utest_result, W, 0, &c);
    run_ms(W, 10);
    EXPECT_TRUE(leads(W, 0));
    EXPECT_EQ(LEADER_OK, leader_close(&W->nodes[0].l, 0));
    ASSERT_EQ(LEADER_OK, leader_init(&W->nodes[0].l, &c));       // without making the backend afresh
    run_ms(W, 10);
    EXPECT_TRUE(leads(W, 0));
}
UTEST_F(file, six_candidates_that_come_and_go_never_lead_together) {
    uint64_t random = 88172645463325252u;
    for (int step = 0; step < 400; step++) {
        random ^= random << 13; random ^= random >> 7; random ^= random << 17;
        int i = (int)(random % NODES);
        char name[8];
        snprintf(name, sizeof name, "n%d", i);
        if (!W->nodes[i].open) join(utest_result, W, i, name);
        else if (random >> 60 < 4) close_node(W, i);
        else W->nodes[i].idle = random >> 60 < 9;
        run_ms(W, (int64_t)(random >> 20 & 255));
        clock_ms += (int64_t)(random >> 32 & 1023);  // the machine stalls
        count_leaders(W);
    }
    EXPECT_EQ(0, W->overlaps);
}

/* ---- strings as other languages write them ----------------------------------------------------- */

UTEST(json, characters_beyond_the_first_plane_come_in_pairs) {
    static const struct { const char *text, *means; } strings[] = {
        
        // NULL: refused
        {"\"\\ud83d\\ude00!\"", "\xf0\x9f\x98\x80!"},
        {"\"\\u00e9\\u20ac\"", "\xc3\xa9\xe2\x82\xac"},
        {"\"\\ud83d\"", NULL},
        {"\"\\ude00\\ud83d\"", NULL},
        {"\"\\ud83d\\u0041\"", NULL},
        {"\"\\ud83d\\ud83d\"", NULL},
        {"\"\\u0000\"", NULL},
        };
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        char means[32];
        leader_json_ value = {strings[i].text, strlen(strings[i].text)};
        ASSERT_EQ_MSG(strings[i].means != NULL, leader_json_string_(value, means, sizeof means),
                      strings[i].text);
        if (strings[i].means) ASSERT_STREQ(strings[i].means, means);
    }
}

UTEST(json, a_quoted_text_that_does_not_fit_says_how_long_it_would_be) {
    char buf[7];
    ASSERT_EQ(6u, leader_json_quote(buf, sizeof buf, "a\"b"));
    ASSERT_STREQ("\"a\\\"b\"", buf);
    ASSERT_EQ(7u, leader_json_quote(buf, sizeof buf, "a\"bc"));
    ASSERT_TRUE(memchr(buf, 0, sizeof buf) != NULL);
}

UTEST_MAIN()
