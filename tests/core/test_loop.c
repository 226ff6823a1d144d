/* The election as its loop and its callbacks see it: ticks, descriptors, waiting, closing, and everything
   that can be asked. */
#include "tests/core/fake_store.h"
#include <poll.h>
#include <signal.h>
#include <sys/time.h>

UTEST_MAIN()

FAKE_FIXTURE(ticks)
FAKE_FIXTURE(fds)
FAKE_FIXTURE(callbacks)
FAKE_FIXTURE(waiting)
FAKE_FIXTURE(closing)
FAKE_FIXTURE(statistics)
FAKE_FIXTURE(views)
FAKE_FIXTURE(liveness)
FAKE_FIXTURE(errors)
FAKE_FIXTURE(clocks)

static void lead(fake *f) {
    begin(f);
    tick(f);
    if (!leads(f)) complain(f, "no leader to begin with");
}

/* ---- leader_tick's answer ---------------------------------------------------------------------- */

FAKE_TEST(ticks, answer_the_time_until_the_next_request_is_due) {
    begin(f);
    ASSERT_EQ(5000, tick(f));
    stall(f, 1234);
    ASSERT_EQ(3766, tick(f));
    ASSERT_EQ(1, f->sent_count);
}

FAKE_TEST(ticks, never_answer_more_than_a_minute) {
    f->cfg.lease_ms = INT64_C(1000) * 86400 * 3650;
    begin(f);
    ASSERT_EQ(LEADER_WAIT_MAX_MS, tick(f));
    ASSERT_EQ(LEADER_WAIT_MAX_MS, leader_due_ms(&f->me));
}

FAKE_TEST(ticks, never_answer_0_however_late_they_are) {
    always(f, RENEW, never());
    begin(f);
    for (int64_t late = 1; late < 5000; late = late * 3 / 2 + 1) {
        ASSERT_GE(tick(f), 1);
        stall(f, late);
    }
}

FAKE_TEST(ticks, answer_100_when_stopped) {
    begin(f);
    leader_stop(&f->me);
    leader_tick(&f->me);
    stall(f, 1);
    ASSERT_EQ(100, tick(f));
    stall(f, 100);
    ASSERT_EQ(100, tick(f));
}

FAKE_TEST(ticks, answer_100_for_zeroed_and_closed_memory) {
    ASSERT_EQ(100, leader_tick(&f->me));
    begin(f);
    leader_close(&f->me, 0);
    ASSERT_EQ(100, leader_tick(&f->me));
    ASSERT_EQ(0, f->sent_count);
}

FAKE_TEST(ticks, answer_at_most_20_during_requests_nobody_watches) {
    next(f, ACQUIRE, never());
    begin(f);
    ASSERT_EQ(20, tick(f));
    stall(f, 20);
    ASSERT_EQ(20, tick(f));
}

static void on_fd_(void *user, intptr_t fd, int events) {
    fake_say_((fake *)user, "fd %d %d; ", (int)fd, events);
}
static void on_due_(void *user) { fake_say_((fake *)user, "due; "); }
static void watch(fake *f) {
    f->cfg.on_fd = on_fd_;
    f->cfg.on_due = on_due_;
    f->cfg.loop_user = f;
}

FAKE_TEST(ticks, with_on_fd_answer_the_time_until_the_request_times_out) {
    watch(f);
    next(f, ACQUIRE, never());
    begin(f);
    ASSERT_EQ(2500, tick(f));
}

FAKE_TEST(ticks, obey_again_ms_of_a_request_under_way) {
    watch(f);
    next(f, ACQUIRE, again_in(never(), 70));
    begin(f);
    ASSERT_EQ(70, tick(f));
    stall(f, 2470);
    ASSERT_EQ(30, tick(f));                     // the time-out is sooner
}

FAKE_TEST(ticks, of_a_leader_with_a_request_come_back_at_the_deadline) {
    watch(f);
    f->cfg.request_timeout_ms = 5000;
    always(f, RENEW, never());
    begin(f);
    tick(f);
    stall(f, 7000);
    ASSERT_EQ(3000, tick(f));
}

FAKE_TEST(ticks, more_often_than_needed_ask_the_store_no_more_often) {
    begin(f);
    for (int i = 0; i < 1000; i++) tick(f);
    for (int i = 0; i < 4999; i++) { stall(f, 1); tick(f); }
    ASSERT_STREQ("acquire 0", story(f));
}

FAKE_TEST(ticks, of_one_millisecond_poll_an_idle_store_four_times) {
    begin(f);
    tick(f);
    int polls = f->polls;
    for (int i = 0; i < 100; i++) tick(f);
    ASSERT_EQ(polls + 3, f->polls);
    ASSERT_EQ(1, tick(f));                      // so the loop comes back in the next one
    stall(f, 1);
    tick(f);
    ASSERT_EQ(polls + 4, f->polls);
}

FAKE_TEST(ticks, due_ms_counts_down_to_the_next_one) {
    ASSERT_EQ(0, leader_due_ms(&f->me));
    begin(f);
    ASSERT_EQ(0, leader_due_ms(&f->me));
    tick(f);
    ASSERT_EQ(5000, leader_due_ms(&f->me));
    stall(f, 4999);
    ASSERT_EQ(1, leader_due_ms(&f->me));
    stall(f, 1000);
    ASSERT_EQ(0, leader_due_ms(&f->me));
}

FAKE_TEST(ticks, due_ms_falls_to_0_by_stop_and_resign) {
    lead(f);
    leader_resign(&f->me, 0);
    ASSERT_EQ(0, leader_due_ms(&f->me));
    tick(f);
    ASSERT_GT(leader_due_ms(&f->me), 0);
    leader_stop(&f->me);
    ASSERT_EQ(0, leader_due_ms(&f->me));
    tick(f);
    ASSERT_GT(leader_due_ms(&f->me), 0);
}

static void resign_while_stepping(fake *f) {
    if (f->started == 1 && f->sent_count == 2) leader_resign(&f->me, 1000);
}

FAKE_TEST(ticks, a_word_that_comes_while_they_step_makes_them_due_again) {
    f->in_call = resign_while_stepping;         // as another thread would, in the middle of the renewal
    begin(f);
    run_to(f, 5000);
    ASSERT_EQ(1, f->stopped);
    ASSERT_EQ(0, leader_due_ms(&f->me));
    tick(f);
    ASSERT_GT(leader_due_ms(&f->me), 0);
}

/* ---- descriptors ------------------------------------------------------------------------------- */

static void speak_of_fds(fake *f) {
    const leader_host *h = f->host;
    h->fd(h->core, 7, LEADER_READ);
    h->fd(h->core, 9, LEADER_READ | LEADER_WRITE);
    h->fd(h->core, 7, LEADER_READ);             // nothing new
    h->fd(h->core, 9, LEADER_READ);
    h->fd(h->core, 8, 0);                       // never watched
}
static void take_fds_back(fake *f) {
    const leader_host *h = f->host;
    h->fd(h->core, 7, 0);
    h->fd(h->core, 7, LEADER_WRITE);            // the same number, at once, as another descriptor
    h->fd(h->core, 9, 0);
}

FAKE_TEST(fds, every_change_is_told_once_and_leader_fds_says_the_same) {
    leader_fd fd[LEADER_FDS_MAX];
    watch(f);
    f->cfg.on_new_leader = NULL;
    f->cfg.on_started_leading = NULL;
    f->cfg.on_stopped_leading = NULL;
    f->in_call = speak_of_fds;
    begin(f);
    ASSERT_EQ(0, leader_fds(&f->me, fd));
    tick(f);
    ASSERT_STREQ("fd 7 1; fd 9 3; fd 9 1; ", f->said);
    ASSERT_EQ(2, leader_fds(&f->me, fd));
    ASSERT_EQ(7, fd[0].fd);
    ASSERT_EQ(LEADER_READ, fd[0].events);
    ASSERT_EQ(9, fd[1].fd);
    f->said[0] = 0;
    f->in_call = take_fds_back;
    run_to(f, 5000);
    ASSERT_STREQ("fd 7 0; fd 7 2; fd 9 0; ", f->said);
    ASSERT_EQ(1, leader_fds(&f->me, fd));
    ASSERT_EQ(7, fd[0].fd);
    ASSERT_EQ(LEADER_WRITE, fd[0].events);
    leader_close(&f->me, 0);
    ASSERT_EQ(0, leader_fds(&f->me, fd));
}

static void fill_fds(fake *f) {
    for (int i = 0; i < LEADER_FDS_MAX; i++) f->host->fd(f->host->core, 100 + i, LEADER_READ);
}

FAKE_TEST(fds, there_is_room_for_as_many_as_promised) {
    leader_fd fd[LEADER_FDS_MAX];
    f->in_call = fill_fds;
    begin(f);
    tick(f);
    ASSERT_EQ(LEADER_FDS_MAX, leader_fds(&f->me, fd));
    for (int i = 0; i < LEADER_FDS_MAX; i++) ASSERT_EQ(100 + i, fd[i].fd);
}

FAKE_TEST(fds, of_zeroed_memory_there_are_none) {
    leader_fd fd[LEADER_FDS_MAX];
    ASSERT_EQ(0, leader_fds(&f->me, fd));
}

FAKE_TEST(fds, due_from_outside_a_tick_asks_for_one) {
    watch(f);
    next(f, ACQUIRE, after(says(LEADER_OK), 10));
    begin(f);
    tick(f);
    ASSERT_GT(leader_due_ms(&f->me), 0);
    f->said[0] = 0;
    f->host->due(f->host->core);                // as another election does that shares the connection
    ASSERT_STREQ("due; ", f->said);
    ASSERT_EQ(0, leader_due_ms(&f->me));
}

static void say_due(fake *f) { f->host->due(f->host->core); }

FAKE_TEST(fds, due_from_inside_its_own_tick_needs_only_another_tick) {
    watch(f);
    f->in_call = say_due;
    next(f, ACQUIRE, after(says(LEADER_OK), 10));
    begin(f);
    ASSERT_EQ(1, tick(f));
    ASSERT_EQ(0, leader_due_ms(&f->me));
    ASSERT_TRUE(strstr(f->said, "due") == NULL);
}

static void ask_the_host(fake *f) {
    f->result = f->host->now_ms(f->host->core) - f->now_ms + f->host->config->lease_ms;
}

FAKE_TEST(fds, the_host_tells_the_clock_and_the_completed_configuration) {
    f->in_call = ask_the_host;
    begin(f);
    tick(f);
    ASSERT_EQ(15000, f->result);
}

/* ---- callbacks --------------------------------------------------------------------------------- */

static void told(fake *f, const char *what) {
    if (!strstr(leader_error(&f->me), "called from inside a callback")) complain(f, what);
    if (stats(f).last_error != LEADER_E_REENTRANT) complain(f, "the statistics were not told");
    leader_set_error_(&f->me, LEADER_OK, "");
}

static void misbehave(fake *f) {
    leader_state before = state(f);
    int requests = f->sent_count, polls = f->polls;
    if (leader_tick(&f->me) != 100) complain(f, "leader_tick in a callback did not answer 100");
    told(f, "leader_tick in a callback was not told so");
    if (leader_close(&f->me, 1000) != LEADER_E_REENTRANT) complain(f, "leader_close in a callback");
    told(f, "leader_close in a callback was not told so");
    if (leader_wait(&f->me, 1000) != LEADER_E_REENTRANT) complain(f, "leader_wait in a callback");
    told(f, "leader_wait in a callback was not told so");
    leader_sleep(&f->me, 60000);                // or this test would take a minute
    told(f, "leader_sleep in a callback was not told so");
    if (state(f) != before || f->sent_count != requests || f->polls != polls || f->closes)
        complain(f, "a callback that ticked changed something");
    f->result++;
}

FAKE_TEST(callbacks, that_tick_close_wait_or_sleep_change_nothing) {
    f->in_started = f->in_stopped = f->in_new = misbehave;
    begin(f);
    run_to(f, 5000);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(2, f->result);
    leader_resign(&f->me, 1000);
    run_to(f, 7000);
    ASSERT_STREQ("started 1; leader a; stopped 1 asked; leader -; started 2; leader a; ", f->said);
    ASSERT_STREQ("acquire 0, renew 5000, release 5000, acquire 6000", story(f));
    ASSERT_EQ(6, f->result);
}

static bool misbehaving_health(void *user) { misbehave((fake *)user); return true; }

FAKE_TEST(callbacks, is_healthy_is_drained_and_on_log_are_callbacks_too) {
    f->in_log = misbehave;
    f->cfg.is_healthy = f->cfg.is_drained = misbehaving_health;
    begin(f);
    run_to(f, 5000);
    ASSERT_TRUE(leads(f));
    leader_stop(&f->me);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_GT(f->result, 4);
}

FAKE_TEST(callbacks, backend_functions_are_callbacks_too) {
    f->in_call = misbehave;
    begin(f);
    run_to(f, 5000);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(2, f->result);
}

static void look_while_started(fake *f) {
    char leader[8];
    leader_get_leader(&f->me, leader, sizeof leader);
    if (!leads(f) || leader_token(&f->me) != 1 || strcmp(leader, "a") != 0)
        complain(f, "on_started_leading sees no leader");
    if (state(f) != LEADER_STATE_LEADER || leader_remaining_ms(&f->me) != 10000 || !view(f).leading)
        complain(f, "on_started_leading sees another state");
    f->result++;
}
static void look_while_stopped(fake *f) {
    char leader[8];
    if (leader_get_leader(&f->me, leader, sizeof leader) != 0)
        complain(f, "on_stopped_leading sees a leader");
    if (state(f) != LEADER_STATE_DRAINING || leader_remaining_ms(&f->me) != 10000)
        complain(f, "on_stopped_leading sees another state");
    f->result++;
}

FAKE_TEST(callbacks, can_ask_everything_and_get_the_answers_of_that_moment) {
    f->in_started = look_while_started;
    f->in_stopped = look_while_stopped;
    lead(f);
    leader_resign(&f->me, 0);
    tick(f);
    ASSERT_EQ(2, f->result);
}

FAKE_TEST(callbacks, none_at_all_is_fine) {
    f->cfg.on_started_leading = NULL;
    f->cfg.on_stopped_leading = NULL;
    f->cfg.on_new_leader = NULL;
    f->cfg.on_log = NULL;
    f->cfg.is_healthy = f->cfg.is_drained = NULL;
    next(f, RENEW, named(says(LEADER_LOST), "b", 5));
    next(f, ACQUIRE, says(LEADER_OK));
    next(f, ACQUIRE, says(LEADER_E_IO));
    begin(f);
    run_to(f, 60000);
    ASSERT_TRUE(leads(f));
    leader_stop(&f->me);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
}

FAKE_TEST(callbacks, none_runs_in_init_or_in_any_question) {
    begin(f);
    leader_stop(&f->me);
    leader_resign(&f->me, 1);
    view(f);
    stats(f);
    ASSERT_STREQ("", f->said);
    ASSERT_STREQ("", f->log);
    ASSERT_EQ(0, f->healthy_asked + f->drained_asked);
}

static void open_another(fake *f) {
    static fake other;
    if (f->result++) return;
    prepare(&other);
    other.cfg.backend = leader_single_backend();
    begin(&other);
    leader_tick(&other.me);
    if (!leader_is_leader(&other.me) || leader_close(&other.me, 0) != LEADER_OK || other.wrong[0])
        complain(f, "another election in a callback");
}

FAKE_TEST(callbacks, may_run_another_election) {
    f->in_started = open_another;
    lead(f);
    ASSERT_EQ(1, f->result);
}

FAKE_TEST(callbacks, are_paired_and_ordered_through_a_thousand_random_terms) {
    static const leader_result renewals[] = {LEADER_OK,     LEADER_OK,       LEADER_OK,
                                             LEADER_LOST,   LEADER_E_IO,     LEADER_E_DUPLICATE,
                                             LEADER_E_AUTH, LEADER_E_TIMEOUT};
    uint64_t random = 42;
    begin(f);
    for (int i = 0; i < 20000; i++) {
        random = leader_mix_(random + (uint64_t)i);
        fake_answer a = named(says(renewals[random % 8]), "b", f->token + random / 64 % 2);
        if (random / 8 % 8 == 0) a.after_ms = (int64_t)(random % 4000);
        if (random / 64 % 16 == 0) a.takes_ms = (int64_t)(random % 12000);
        well_again(f, RENEW);
        always(f, RENEW, a);
        if (random % 7 == 0) always(f, ACQUIRE, held("c", f->token + 1, (int64_t)(random % 5000)));
        else if (random % 7 == 1) always(f, ACQUIRE, says(LEADER_E_IO));
        else f->has_always[ACQUIRE] = false;
        if (random % 11 == 0) leader_resign(&f->me, (int64_t)(random % 3000));
        f->drained = random % 5 != 0;
        f->healthy = random % 13 != 0;
        if (random % 3 == 0) stall(f, (int64_t)(random % 9000));
        if (f->sent_count > FAKE_SENT_MAX - 100) f->sent_count = 0;
        f->said[0] = f->log[0] = 0;
        run(f, (int64_t)(random % 1500));
    }
    ASSERT_GT(f->started, 1000);                // and the fixture has watched them all
}

/* ---- leader_wait, leader_sleep ----------------------------------------------------------------- */

FAKE_TEST(waiting, ends_with_ok_when_leader) {
    f->real_time = true;
    next(f, ACQUIRE, after(says(LEADER_OK), 30));
    begin(f);
    ASSERT_EQ(LEADER_OK, leader_wait(&f->me, -1));
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(LEADER_OK, leader_wait(&f->me, 0));
    ASSERT_EQ(1, f->started);
}

FAKE_TEST(waiting, ends_with_a_time_out_when_somebody_else_leads) {
    f->real_time = true;
    always(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    ASSERT_EQ(LEADER_E_TIMEOUT, leader_wait(&f->me, 0));
    int64_t start = leader_clock_ms_();
    ASSERT_EQ(LEADER_E_TIMEOUT, leader_wait(&f->me, 40));
    ASSERT_GE(leader_clock_ms_() - start, 40);
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
}

static void on_alarm(int signal_number) { (void)signal_number; }

/* A signal every 10 ms, so that one that comes just before the sleep costs no more than that. */
static void alarms(bool on) {
    struct sigaction action;
    struct itimerval every;
    memset(&action, 0, sizeof action);
    memset(&every, 0, sizeof every);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    if (on) every.it_interval.tv_usec = every.it_value.tv_usec = 10000;
    setitimer(ITIMER_REAL, &every, NULL);
}

FAKE_TEST(waiting, ends_with_pending_when_a_signal_came) {
    f->real_time = true;
    always(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    alarms(true);
    leader_result result = leader_wait(&f->me, -1);
    alarms(false);
    ASSERT_EQ(LEADER_PENDING, result);
}

FAKE_TEST(waiting, is_impossible_for_observers_stopped_closed_and_zeroed_ones) {
    ASSERT_EQ(LEADER_E_STATE, leader_wait(&f->me, -1));
    f->cfg.observe_only = true;
    begin(f);
    ASSERT_EQ(LEADER_E_STATE, leader_wait(&f->me, -1));
    leader_close(&f->me, 0);
    ASSERT_EQ(LEADER_E_STATE, leader_wait(&f->me, -1));
    f->cfg.observe_only = false;
    f->seq = f->nonce = 0;
    begin(f);
    leader_stop(&f->me);
    ASSERT_EQ(LEADER_E_STATE, leader_wait(&f->me, -1));
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(LEADER_E_STATE, leader_wait(&f->me, -1));
}

FAKE_TEST(waiting, ends_when_a_stopping_leader_still_drains) {
    lead(f);
    f->drained = false;
    leader_stop(&f->me);
    ASSERT_EQ(LEADER_E_STATE, leader_wait(&f->me, -1));
    ASSERT_EQ(LEADER_STATE_DRAINING, state(f));
}

FAKE_TEST(waiting, sleep_ends_at_once_when_there_is_nothing_to_wait_for) {
    int64_t start = leader_clock_ms_();
    begin(f);
    leader_sleep(&f->me, 60000);                // due now
    tick(f);
    leader_sleep(&f->me, 0);
    leader_sleep(&f->me, -5);
    leader_stop(&f->me);
    leader_sleep(&f->me, 60000);
    ASSERT_LT(leader_clock_ms_() - start, 60000);
}

static int a_pipe[2];
static void watch_the_pipe(fake *f) { f->host->fd(f->host->core, a_pipe[0], LEADER_READ); }

FAKE_TEST(waiting, sleep_ends_when_a_descriptor_is_ready) {
    ASSERT_EQ(0, pipe(a_pipe));
    f->in_call = watch_the_pipe;
    f->real_time = true;
    lead(f);                                    // due in 5 s
    int64_t start = leader_clock_ms_();
    ASSERT_EQ(1, write(a_pipe[1], "!", 1));
    leader_sleep(&f->me, 4000);
    ASSERT_LT(leader_clock_ms_() - start, 4000);
    close(a_pipe[0]);
    close(a_pipe[1]);
}

/* A notice in the very millisecond of the last look at it is read in the next one. Until then sleep must
   not return at once, time and again: a program that counts its rounds would be through with them. */
FAKE_TEST(waiting, sleep_does_not_spin_on_a_descriptor_left_unread) {
    ASSERT_EQ(0, pipe(a_pipe));
    f->in_call = watch_the_pipe;
    lead(f);
    ASSERT_EQ(1, write(a_pipe[1], "x", 1));
    int64_t start = leader_clock_ms_();
    for (int i = 0; i < 60; i++) {              // the simulated clock stands
        tick(f);
        leader_sleep(&f->me, 1000);
    }
    ASSERT_GE(leader_clock_ms_() - start, 40);
    close(a_pipe[0]);
    close(a_pipe[1]);
}

static bool pipe_has_more(void) {
    struct pollfd readable = {a_pipe[0], POLLIN, 0};
    return poll(&readable, 1, 0) == 1;
}

static bool read_the_pipe(void *self) {
    char byte;
    (void)self;
    return pipe_has_more() && read(a_pipe[0], &byte, 1) == 1;
}

/* One round of a loop with poll(), on the simulated clock. */
static void poll_and_tick(fake *f, int *wait_ms) {
    leader_fd fds[LEADER_FDS_MAX];
    bool watched = leader_fds(&f->me, fds) > 0;
    if (!watched || !pipe_has_more()) {
        stall(f, *wait_ms);
    }
    *wait_ms = tick(f);
}

/* However many ticks there were in that millisecond already. */
FAKE_TEST(waiting, a_notice_costs_a_poll_loop_two_ticks_at_most) {
    enum { SPENT_MAX = 8 };
    ASSERT_EQ(0, pipe(a_pipe));
    f->in_call = watch_the_pipe;
    f->cfg.backend.poll = read_the_pipe;
    always(f, ACQUIRE, held("other", 7, 60000));
    begin(f);
    for (int spent = 0; spent <= SPENT_MAX; spent++) {
        int wait_ms = tick(f);
        stall(f, 1);
        for (int i = 0; i < spent; i++) {
            wait_ms = tick(f);
        }
        int ticks = 0;
        ASSERT_EQ(1, write(a_pipe[1], "x", 1));
        while (pipe_has_more() && ticks < 100) {
            poll_and_tick(f, &wait_ms);
            ticks++;
        }
        ASSERT_LE(ticks, 2);
        stall(f, 5000);
    }
    close(a_pipe[0]);
    close(a_pipe[1]);
}

FAKE_TEST(waiting, sleep_of_zeroed_and_closed_memory_just_sleeps) {
    int64_t start = leader_clock_ms_();
    leader_sleep(&f->me, 20);
    ASSERT_GE(leader_clock_ms_() - start, 19);
    begin(f);
    leader_close(&f->me, 0);
    start = leader_clock_ms_();
    leader_sleep(&f->me, 20);                   // a loop that goes on must not spin
    ASSERT_GE(leader_clock_ms_() - start, 19);
}

/* ---- leader_close ------------------------------------------------------------------------------ */

static void everything_says_no(int *utest_result, const fake *f) {
    char leader[8];
    EXPECT_FALSE(leads(f));
    EXPECT_EQ(0u, leader_token(&f->me));
    EXPECT_EQ(0, leader_remaining_ms(&f->me));
    EXPECT_EQ(0, leader_due_ms(&f->me));
    EXPECT_TRUE(leader_is_stopped(&f->me));
    EXPECT_FALSE(leader_is_healthy(&f->me, INT64_MAX));
    EXPECT_EQ(LEADER_STATE_NONE, state(f));
    EXPECT_EQ(0, leader_get_leader(&f->me, leader, sizeof leader));
    EXPECT_STREQ("", leader);
    EXPECT_STREQ("", leader_error(&f->me));
    EXPECT_EQ(LEADER_STATE_NONE, view(f).state);
    EXPECT_FALSE(view(f).leading);
    EXPECT_EQ(0u, view(f).token);
    EXPECT_EQ(0, view(f).remaining_ms);
    EXPECT_EQ(-1, view(f).age_ms);
    EXPECT_EQ(-1, view(f).since_ms);
    EXPECT_EQ(0u, stats(f).terms);
    EXPECT_EQ(0u, stats(f).acquires);
    EXPECT_EQ(-1, stats(f).since_success_ms);
    EXPECT_EQ(-1, stats(f).latency_ms_last);
}

FAKE_TEST(closing, of_a_leader_releases_in_one_tick) {
    lead(f);
    ASSERT_EQ(LEADER_OK, leader_close(&f->me, 0));
    ASSERT_STREQ("acquire 0, release 0", story(f));
    ASSERT_STREQ("started 1; leader a; stopped 1 asked; leader -; ", f->said);
    ASSERT_EQ(1, f->closes);
    everything_says_no(utest_result, f);
}

FAKE_TEST(closing, can_be_repeated) {
    lead(f);
    for (int i = 0; i < 5; i++) ASSERT_EQ(LEADER_OK, leader_close(&f->me, 1000));
    ASSERT_EQ(1, f->closes);
    ASSERT_EQ(1, f->stopped);
}

FAKE_TEST(closing, of_zeroed_memory_and_of_a_failed_init_is_fine) {
    everything_says_no(utest_result, f);
    ASSERT_EQ(LEADER_OK, leader_close(&f->me, -1));
    f->cfg.identity = NULL;
    ASSERT_EQ(LEADER_E_CONFIG, leader_init(&f->me, &f->cfg));
    ASSERT_EQ(LEADER_OK, leader_close(&f->me, -1));
    ASSERT_EQ(0, f->closes);
    leader_stop(&f->me);
    leader_resign(&f->me, 5);
    ASSERT_FALSE(leads(f));
}

FAKE_TEST(closing, that_runs_out_of_time_leaves_the_lease_to_expire) {
    lead(f);
    f->drained = false;
    ASSERT_EQ(LEADER_E_TIMEOUT, leader_close(&f->me, 0));
    ASSERT_EQ(0, sends(f, RELEASE));
    ASSERT_EQ(1, f->stopped);
    ASSERT_EQ(1, f->closes);
    everything_says_no(utest_result, f);
    ASSERT_EQ(LEADER_OK, leader_close(&f->me, 0));
    ASSERT_EQ(1, f->closes);
}

FAKE_TEST(closing, that_runs_out_of_time_in_the_release_cancels_it) {
    next(f, RELEASE, never());
    lead(f);
    ASSERT_EQ(LEADER_E_TIMEOUT, leader_close(&f->me, 0));
    ASSERT_EQ(1, f->cancels);
    ASSERT_EQ(1, f->closes);
}

static bool drained_after_a_few_questions(void *user) { return ++((fake *)user)->drained_asked > 3; }

FAKE_TEST(closing, without_limit_waits_for_the_work_and_for_the_release) {
    f->real_time = true;
    f->cfg.is_drained = drained_after_a_few_questions;
    next(f, RELEASE, after(says(LEADER_OK), 30));
    lead(f);
    ASSERT_EQ(LEADER_OK, leader_close(&f->me, -1));
    ASSERT_EQ(1, sends(f, RELEASE));
    ASSERT_EQ(0, f->cancels);
    ASSERT_EQ(4, f->drained_asked);
}

FAKE_TEST(closing, with_a_limit_waits_that_long) {
    f->real_time = true;
    f->drained = false;
    lead(f);
    int64_t start = leader_clock_ms_();
    ASSERT_EQ(LEADER_E_TIMEOUT, leader_close(&f->me, 60));
    ASSERT_GE(leader_clock_ms_() - start, 60);
}

FAKE_TEST(closing, is_not_cut_short_by_signals) {
    f->real_time = true;
    f->drained = false;
    lead(f);
    alarms(true);
    int64_t start = leader_clock_ms_();
    leader_result result = leader_close(&f->me, 60);
    int64_t took = leader_clock_ms_() - start;
    alarms(false);
    ASSERT_EQ(LEADER_E_TIMEOUT, result);
    ASSERT_GE(took, 60);
}

FAKE_TEST(closing, with_an_acquire_under_way_releases) {
    next(f, ACQUIRE, never());
    begin(f);
    tick(f);
    ASSERT_EQ(LEADER_OK, leader_close(&f->me, 0));
    ASSERT_STREQ("acquire 0, release 0", story(f));
    ASSERT_EQ(1, f->cancels);
}

FAKE_TEST(closing, before_the_first_tick_asks_the_store_nothing) {
    begin(f);
    ASSERT_EQ(LEADER_OK, leader_close(&f->me, 1000));
    ASSERT_EQ(0, f->sent_count);
    ASSERT_EQ(1, f->closes);
}

FAKE_TEST(closing, of_a_stopped_one_only_frees) {
    lead(f);
    leader_stop(&f->me);
    tick(f);
    int requests = f->sent_count;
    ASSERT_EQ(LEADER_OK, leader_close(&f->me, 1000));
    ASSERT_EQ(requests, f->sent_count);
}

FAKE_TEST(closing, is_followed_by_init_as_if_new) {
    lead(f);
    leader_close(&f->me, 0);
    f->nonce = f->seq = f->last_token = 0;
    lead(f);
    ASSERT_EQ(1u, stats(f).terms);
    ASSERT_EQ(1u, f->seq);
    ASSERT_EQ(2, f->opens);
    ASSERT_EQ(1, f->closes);
}

/* ---- statistics -------------------------------------------------------------------------------- */

FAKE_TEST(statistics, before_anything_happened_say_so) {
    begin(f);
    leader_stats s = stats(f);
    ASSERT_EQ(0u, s.terms + s.acquires + s.renewals + s.releases + s.transitions + s.failures);
    ASSERT_EQ(-1, s.latency_ms_last);
    ASSERT_EQ(-1, s.latency_ms_max);
    ASSERT_EQ(-1, s.margin_ms_min);
    ASSERT_EQ(-1, s.tick_late_ms_max);
    ASSERT_EQ(-1, s.since_success_ms);
    ASSERT_EQ(LEADER_OK, s.last_error);
    ASSERT_STREQ("", s.last_error_text);
}

FAKE_TEST(statistics, count_terms_attempts_renewals_releases_and_transitions) {
    next(f, ACQUIRE, held("b", 5, 15000));
    next(f, ACQUIRE, says(LEADER_E_IO));
    begin(f);
    run_to(f, 20000);
    leader_resign(&f->me, 1000);
    run_to(f, 22000);
    ASSERT_EQ(2u, stats(f).terms);
    ASSERT_EQ(4u, stats(f).acquires);           // attempts, not successes
    ASSERT_EQ((uint64_t)sends(f, RENEW), stats(f).renewals);
    ASSERT_EQ(1u, stats(f).releases);
    ASSERT_EQ(3u, stats(f).transitions);        // b, a, a again
}

FAKE_TEST(statistics, count_failures_by_kind) {
    const leader_result kinds[] = {LEADER_E_IO,      LEADER_E_TIMEOUT,   LEADER_E_AUTH,
                                   LEADER_E_CORRUPT, LEADER_E_DUPLICATE, LEADER_E_CONFIG};
    for (int i = 0; i < 6; i++) next(f, ACQUIRE, says(kinds[i]));
    begin(f);
    run_to(f, 600000);
    leader_stats s = stats(f);
    ASSERT_EQ(6u, s.failures);
    ASSERT_EQ(1u, s.failures_io);
    ASSERT_EQ(1u, s.failures_timeout);
    ASSERT_EQ(1u, s.failures_auth);
    ASSERT_EQ(1u, s.failures_corrupt);
    ASSERT_EQ(1u, s.failures_duplicate);
    ASSERT_EQ(LEADER_E_CONFIG, s.last_error);
    ASSERT_STREQ("acquire: wrong configuration", s.last_error_text);
}

FAKE_TEST(statistics, tell_the_last_and_the_worst_latency) {
    next(f, ACQUIRE, after(says(LEADER_OK), 200));
    next(f, RENEW, taking(says(LEADER_OK), 700));
    next(f, RENEW, taking(says(LEADER_OK), 30));
    begin(f);
    run_to(f, 200);
    ASSERT_EQ(200, stats(f).latency_ms_last);
    run_to(f, 12000);
    ASSERT_EQ(30, stats(f).latency_ms_last);
    ASSERT_EQ(700, stats(f).latency_ms_max);
}

FAKE_TEST(statistics, tell_the_smallest_margin_to_the_deadline_ever_left) {
    next(f, RENEW, taking(says(LEADER_OK), 1000));
    next(f, RENEW, taking(says(LEADER_OK), 4000));
    next(f, RENEW, taking(says(LEADER_OK), 2000));
    begin(f);
    tick(f);
    ASSERT_EQ(-1, stats(f).margin_ms_min);
    run_to(f, 6000);
    ASSERT_EQ(4000, stats(f).margin_ms_min);
    run_to(f, 30000);
    ASSERT_EQ(1000, stats(f).margin_ms_min);
}

FAKE_TEST(statistics, tell_the_worst_lateness_of_a_tick) {
    begin(f);
    stall(f, 100);                              // the first one is never late
    tick(f);
    ASSERT_EQ(-1, stats(f).tick_late_ms_max);
    stall(f, 5300);
    tick(f);
    ASSERT_EQ(300, stats(f).tick_late_ms_max);
    run(f, 20000);
    ASSERT_EQ(300, stats(f).tick_late_ms_max);
}

FAKE_TEST(statistics, tell_the_time_since_the_last_success) {
    next(f, ACQUIRE, says(LEADER_E_IO));
    begin(f);
    tick(f);
    ASSERT_EQ(-1, stats(f).since_success_ms);
    run_to(f, 3000);
    stall_to(f, 7000);
    ASSERT_EQ(7000 - sent(f, ACQUIRE, 1).at_ms, stats(f).since_success_ms);
}

FAKE_TEST(statistics, remember_the_last_error_after_it_healed) {
    next(f, ACQUIRE, says(LEADER_E_IO));
    begin(f);
    run_to(f, 10000);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(LEADER_E_IO, stats(f).last_error);
    ASSERT_STREQ("acquire: the store could not be reached", stats(f).last_error_text);
}

/* ---- views ------------------------------------------------------------------------------------- */

FAKE_TEST(views, of_a_standby_that_has_heard_nothing) {
    begin(f);
    leader_view v = view(f);
    ASSERT_EQ(LEADER_STATE_FOLLOWER, v.state);
    ASSERT_FALSE(v.leading);
    ASSERT_EQ(0u, v.token);
    ASSERT_EQ(0, v.remaining_ms);
    ASSERT_EQ(-1, v.age_ms);
    ASSERT_EQ(-1, v.since_ms);
    ASSERT_STREQ("", v.leader);
}

FAKE_TEST(views, of_a_standby_tell_the_leader_its_token_and_how_old_that_is) {
    always(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    run_to(f, 4000);
    stall(f, 700);
    leader_view v = view(f);
    ASSERT_EQ(LEADER_STATE_FOLLOWER, v.state);
    ASSERT_FALSE(v.leading);
    ASSERT_EQ(5u, v.token);
    ASSERT_EQ(0, v.remaining_ms);
    ASSERT_EQ(700, v.age_ms);
    ASSERT_EQ(4700, v.since_ms);
    ASSERT_STREQ("b", v.leader);
}

FAKE_TEST(views, a_new_term_of_the_same_leader_counts_from_its_start) {
    next(f, ACQUIRE, held("b", 5, 15000));
    always(f, ACQUIRE, held("b", 6, 15000));
    begin(f);
    run_to(f, 4000);
    ASSERT_EQ(6u, view(f).token);
    ASSERT_EQ(2000, view(f).since_ms);
    ASSERT_STREQ("leader b; ", f->said);        // nobody new
}

FAKE_TEST(views, of_a_leader) {
    next(f, RENEW, taking(says(LEADER_OK), 300));
    begin(f);
    run_to(f, 6000);
    leader_view v = view(f);
    ASSERT_EQ(LEADER_STATE_LEADER, v.state);
    ASSERT_TRUE(v.leading);
    ASSERT_EQ(1u, v.token);
    ASSERT_EQ(9000, v.remaining_ms);
    ASSERT_EQ(700, v.age_ms);                   // the answer came at 5300
    ASSERT_EQ(6000, v.since_ms);
    ASSERT_STREQ("a", v.leader);
}

FAKE_TEST(views, of_one_that_drains) {
    lead(f);
    f->drained = false;
    leader_resign(&f->me, 0);
    tick(f);
    leader_view v = view(f);
    ASSERT_EQ(LEADER_STATE_DRAINING, v.state);
    ASSERT_FALSE(v.leading);
    ASSERT_EQ(0u, v.token);
    ASSERT_EQ(10000, v.remaining_ms);
    ASSERT_EQ(-1, v.since_ms);
    ASSERT_STREQ("", v.leader);
}

FAKE_TEST(views, a_term_after_a_hold_off_is_as_old_as_its_last_renewal) {
    next(f, ACQUIRE, granted(0, 12000));
    begin(f);
    run_to(f, 12001);
    ASSERT_TRUE(leads(f));
    ASSERT_EQ(2001, view(f).age_ms);
    ASSERT_EQ(0, view(f).since_ms);
}

FAKE_TEST(views, errors_do_not_confirm_anything) {
    next(f, ACQUIRE, held("b", 5, 15000));
    always(f, ACQUIRE, says(LEADER_E_IO));
    begin(f);
    run_to(f, 30000);
    ASSERT_EQ(30000, view(f).age_ms);
    ASSERT_STREQ("b", view(f).leader);
}

FAKE_TEST(views, get_leader_answers_as_snprintf) {
    next(f, ACQUIRE, held("a-rather-long-name", 5, 15000));
    begin(f);
    tick(f);
    char small[7], none[1] = {'x'};
    ASSERT_EQ(18, leader_get_leader(&f->me, small, sizeof small));
    ASSERT_STREQ("a-rath", small);
    ASSERT_EQ(18, leader_get_leader(&f->me, NULL, 0));
    ASSERT_EQ(18, leader_get_leader(&f->me, none, 1));
    ASSERT_STREQ("", none);
}

/* ---- leader_is_healthy ------------------------------------------------------------------------- */

FAKE_TEST(liveness, of_a_standby_is_that_it_ticks) {
    always(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    ASSERT_TRUE(leader_is_healthy(&f->me, 0));
    tick(f);
    ASSERT_TRUE(leader_is_healthy(&f->me, 0));
    stall(f, 2000);
    ASSERT_TRUE(leader_is_healthy(&f->me, 0));
    stall(f, 500);
    ASSERT_FALSE(leader_is_healthy(&f->me, 499));
    ASSERT_TRUE(leader_is_healthy(&f->me, 500));
    ASSERT_TRUE(leader_is_healthy(&f->me, INT64_MAX));
    tick(f);
    ASSERT_TRUE(leader_is_healthy(&f->me, 0));
}

FAKE_TEST(liveness, of_a_leader_is_that_its_renewals_succeed) {
    always(f, RENEW, says(LEADER_E_IO));
    begin(f);
    run_to(f, 5000);
    ASSERT_TRUE(leader_is_healthy(&f->me, 0));
    run_to(f, 6500);
    ASSERT_FALSE(leader_is_healthy(&f->me, 1499));
    ASSERT_TRUE(leader_is_healthy(&f->me, 1500));
    well_again(f, RENEW);
    run_to(f, 8500);
    ASSERT_TRUE(leader_is_healthy(&f->me, 0));
}

FAKE_TEST(liveness, of_a_standby_whose_store_fails_is_not_in_doubt) {
    always(f, ACQUIRE, says(LEADER_E_IO));
    begin(f);
    run_to(f, 100000);
    ASSERT_TRUE(leader_is_healthy(&f->me, 0));
}

FAKE_TEST(liveness, of_a_stopped_one_is_not_in_doubt) {
    begin(f);
    leader_stop(&f->me);
    ASSERT_TRUE(leader_is_healthy(&f->me, 0));
    tick(f);
    stall(f, 1000000);
    ASSERT_TRUE(leader_is_healthy(&f->me, 0));
}

static void hang_for_a_minute(fake *f) {
    stall(f, 60000);
    f->result = leader_is_healthy(&f->me, 30000);
}

FAKE_TEST(liveness, of_a_loop_that_hangs_inside_a_tick_is_denied) {
    f->in_call = hang_for_a_minute;             // asked by another thread, in truth
    f->result = true;
    always(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    leader_tick(&f->me);
    ASSERT_FALSE(f->result);
}

/* ---- leader_error ------------------------------------------------------------------------------ */

static void say_what_is_wrong(fake *f) {
    f->host->log(f->host->core, LEADER_LOG_ERROR, "the moon is in the way");
}

FAKE_TEST(errors, of_the_backend_are_told_in_its_own_words) {
    f->in_call = say_what_is_wrong;
    always(f, ACQUIRE, says(LEADER_E_AUTH));
    begin(f);
    tick(f);
    ASSERT_STREQ("the moon is in the way", leader_error(&f->me));
    ASSERT_STREQ("the moon is in the way", stats(f).last_error_text);
    ASSERT_EQ(LEADER_E_AUTH, stats(f).last_error);
    ASSERT_STREQ("E the moon is in the way\n", f->log); // once
}

FAKE_TEST(errors, without_words_of_the_backend_name_the_request) {
    next(f, ACQUIRE, says(LEADER_E_AUTH));
    begin(f);
    tick(f);
    ASSERT_STREQ("acquire: the store refused our credentials or rights", leader_error(&f->me));
    ASSERT_STREQ("W acquire: the store refused our credentials or rights\n", f->log);
}

FAKE_TEST(errors, are_gone_after_the_next_success) {
    next(f, ACQUIRE, says(LEADER_E_IO));
    next(f, RENEW, says(LEADER_E_IO));
    begin(f);
    tick(f);
    ASSERT_STRNE("", leader_error(&f->me));
    run_to(f, 3000);
    ASSERT_TRUE(leads(f));
    ASSERT_STREQ("", leader_error(&f->me));
    run_to(f, sent(f, ACQUIRE, 1).at_ms + 5000);
    ASSERT_STRNE("", leader_error(&f->me));
    run(f, 500);
    ASSERT_STREQ("", leader_error(&f->me));
}

FAKE_TEST(errors, of_a_release_are_gone_after_its_success) {
    next(f, RELEASE, says(LEADER_E_IO));
    lead(f);
    leader_stop(&f->me);
    tick(f);
    ASSERT_STRNE("", leader_error(&f->me));
    run(f, 1000);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_STREQ("", leader_error(&f->me));
}

static void say_too_much(fake *f) {
    char text[600];
    for (int i = 0; i < 199; i++) memcpy(text + 3 * i, "\xe2\x82\xac", 3);    // euro signs
    text[597] = 0;
    f->host->log(f->host->core, LEADER_LOG_ERROR, text);
}

FAKE_TEST(errors, that_are_too_long_are_cut_at_a_whole_character) {
    f->in_call = say_too_much;
    always(f, ACQUIRE, says(LEADER_E_IO));
    begin(f);
    tick(f);
    ASSERT_EQ((size_t)237, strlen(leader_error(&f->me)));
    ASSERT_STREQ(leader_error(&f->me), stats(f).last_error_text);
    f->in_call = NULL;
}

/* ---- clocks that start anywhere ---------------------------------------------------------------- */

static void a_life_from(fake *f, int64_t start_ms) {
    f->now_ms = start_ms;
    f->nonce = f->seq = f->last_token = 0;
    begin(f);
    if (leader_due_ms(&f->me) != 0 || !leader_is_healthy(&f->me, 0))
        complain(f, "not due, or not healthy, at first");
    run(f, 12000);
    if (!leads(f) || leader_remaining_ms(&f->me) != 8000 || !leader_is_healthy(&f->me, 0))
        complain(f, "no leader");
    if (view(f).age_ms != 2000 || view(f).since_ms != 12000) complain(f, "another age");
    stall(f, 8000);
    if (leads(f)) complain(f, "leader too long");
    if (leader_is_healthy(&f->me, 0)) complain(f, "healthy without ticks");
    run(f, 5000);
    if (!leads(f)) complain(f, "no second term");
    leader_close(&f->me, 0);
}

static void ask_in_the_call(fake *f) {
    if (leader_due_ms(&f->me) < 0 || !leader_is_healthy(&f->me, 1000)) complain(f, "questions inside a tick");
}

FAKE_TEST(clocks, that_start_at_zero_below_it_or_far_above_work) {
    f->in_call = ask_in_the_call;
    a_life_from(f, 0);
    a_life_from(f, -1000000);
    a_life_from(f, -20000);                     // crosses zero
    a_life_from(f, INT64_MAX / 2);
    a_life_from(f, INT64_MIN / 2);
    ASSERT_EQ(10, f->started);
}
