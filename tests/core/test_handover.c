/* How a term ends on purpose: draining, releasing, stopping, resigning, bad health. Rule 8. */
#include "tests/core/fake_store.h"

UTEST_MAIN()

FAKE_FIXTURE(draining)
FAKE_FIXTURE(release)
FAKE_FIXTURE(stop)
FAKE_FIXTURE(resign)
FAKE_FIXTURE(health)

static void lead(fake *f) {
    begin(f);
    tick(f);
    if (!leads(f)) complain(f, "no leader to begin with");
}
/* Leader, asked to hand over, with work that is not over. */
static void drain(fake *f) {
    lead(f);
    f->drained = false;
    leader_resign(&f->me, 0);
    tick(f);
    if (state(f) != LEADER_STATE_DRAINING) complain(f, "not draining");
}

/* ---- draining ---------------------------------------------------------------------------------- */

FAKE_TEST(draining, is_not_leading_but_the_lease_is_still_ours) {
    drain(f);
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(0u, leader_token(&f->me));
    ASSERT_EQ(10000, leader_remaining_ms(&f->me));
    ASSERT_STREQ("started 1; leader a; stopped 1 asked; leader -; ", f->said);
    ASSERT_EQ(0, sends(f, RELEASE));
}

FAKE_TEST(draining, renews_the_lease_until_is_drained_and_then_releases) {
    drain(f);
    run_to(f, 100000);
    ASSERT_EQ(LEADER_STATE_DRAINING, state(f));
    ASSERT_EQ(0, sends(f, RELEASE));
    ASSERT_EQ(21, sends(f, RENEW));             // at once, and then every renew_ms
    ASSERT_GT(leader_remaining_ms(&f->me), 0);
    f->drained = true;
    run(f, 50);
    ASSERT_EQ(1, sends(f, RELEASE));
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
    ASSERT_EQ(0, leader_remaining_ms(&f->me));
}

FAKE_TEST(draining, asks_is_drained_often_enough_for_a_quick_hand_over) {
    drain(f);
    run(f, 1000);
    int asked = f->drained_asked;
    run(f, 1000);
    ASSERT_GE(f->drained_asked - asked, 20);
}

FAKE_TEST(draining, a_failing_renewal_is_retried_for_as_long_as_it_takes) {
    always(f, RENEW, says(LEADER_E_IO));
    drain(f);
    run_to(f, 60000);
    ASSERT_EQ(LEADER_STATE_DRAINING, state(f));
    ASSERT_GT(sends(f, RENEW), 20);
    ASSERT_EQ(0, leader_remaining_ms(&f->me));  // but nobody is told that there is time left
    ASSERT_EQ(0, sends(f, RELEASE));
    ASSERT_EQ(1, f->stopped);
}

FAKE_TEST(draining, past_drain_timeout_ms_leaves_the_lease_to_expire) {
    f->cfg.drain_timeout_ms = 7000;
    drain(f);
    run_to(f, 6999);
    ASSERT_EQ(LEADER_STATE_DRAINING, state(f));
    run_to(f, 7000);
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
    ASSERT_TRUE(strstr(f->log, "W the work was not over within drain_timeout_ms") != NULL);
    int renewals = sends(f, RENEW);
    run_to(f, 100000);
    ASSERT_EQ(0, sends(f, RELEASE));
    ASSERT_EQ(renewals, sends(f, RENEW));
    ASSERT_EQ(1, sends(f, ACQUIRE));            // its earlier work is not over: it does not compete
    f->drained = true;
    run(f, 2500);
    ASSERT_EQ(2, f->started);
}

FAKE_TEST(draining, without_is_drained_ends_when_on_stopped_leading_returns) {
    f->cfg.is_drained = NULL;
    lead(f);
    leader_resign(&f->me, 0);
    tick(f);
    ASSERT_EQ(1, sends(f, RELEASE));
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
}

static void no_release_yet(fake *f) {
    if (sends(f, RELEASE))
        complain(f, "released before on_stopped_leading");
}

FAKE_TEST(draining, on_stopped_leading_runs_before_any_release) {
    f->in_stopped = no_release_yet;
    lead(f);
    leader_stop(&f->me);
    tick(f);
    ASSERT_EQ(1, sends(f, RELEASE));
}

FAKE_TEST(draining, every_end_but_lost_passes_through_it) {
    lead(f);
    f->drained = false;
    stall(f, 10000);                            // the deadline
    tick(f);
    ASSERT_EQ(LEADER_STATE_DRAINING, state(f));
    f->drained = true;
    run(f, 3000);
    ASSERT_TRUE(leads(f));
    f->drained = f->healthy = false;            // bad health
    run(f, 5000);
    ASSERT_EQ(LEADER_STATE_DRAINING, state(f));
    f->drained = f->healthy = true;
    run(f, 3000);
    ASSERT_TRUE(leads(f));
    f->drained = false;                         // the store fails until the deadline
    always(f, RENEW, says(LEADER_E_IO));
    run(f, 11000);
    ASSERT_EQ(LEADER_STATE_DRAINING, state(f));
    well_again(f, RENEW);
    leader_stop(&f->me);                        // asked to
    run(f, 9000);
    ASSERT_EQ(LEADER_STATE_DRAINING, state(f));
    ASSERT_TRUE(strstr(f->said, "stopped 1 deadline; leader -; started 2; leader a; stopped 2 unhealthy; "
                                "leader -; started 3; leader a; stopped 3 deadline; ")
                != NULL);
}

FAKE_TEST(draining, a_renewal_that_was_under_way_is_forgotten_not_credited) {
    next(f, RENEW, after(says(LEADER_OK), 2000));
    begin(f);
    run_to(f, 6000);
    f->drained = false;
    leader_resign(&f->me, 0);
    tick(f);
    ASSERT_EQ(1, f->cancels);
    ASSERT_EQ(2, sends(f, RENEW));
    ASSERT_EQ(10000, leader_remaining_ms(&f->me));
}

/* ---- releasing --------------------------------------------------------------------------------- */

FAKE_TEST(release, that_fails_is_retried_and_then_left_to_expire) {
    always(f, RELEASE, says(LEADER_E_IO));
    always(f, ACQUIRE, held("b", 5, 15000));
    next(f, ACQUIRE, says(LEADER_OK));
    lead(f);
    leader_resign(&f->me, 60000);
    tick(f);
    ASSERT_EQ(LEADER_STATE_RELEASING, state(f));
    run_to(f, 3500);
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
    ASSERT_EQ(0, sent(f, RELEASE, 0).at_ms);
    ASSERT_EQ(500, sent(f, RELEASE, 1).at_ms);
    ASSERT_EQ(1500, sent(f, RELEASE, 2).at_ms);
    ASSERT_EQ(3500, sent(f, RELEASE, 3).at_ms);
    ASSERT_EQ(4, sends(f, RELEASE));
    ASSERT_TRUE(strstr(f->log, "W the lease could not be released: it is left to expire") != NULL);
    ASSERT_EQ(0u, stats(f).releases);
    ASSERT_EQ(4u, stats(f).failures_io);
}

FAKE_TEST(release, that_succeeds_at_the_second_try_is_one_release) {
    next(f, RELEASE, says(LEADER_E_IO));
    lead(f);
    leader_resign(&f->me, 60000);
    run_to(f, 3000);
    ASSERT_EQ(2, sends(f, RELEASE));
    ASSERT_EQ(1u, stats(f).releases);
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
}

FAKE_TEST(release, of_what_is_no_longer_ours_is_over_at_once) {
    next(f, RELEASE, says(LEADER_LOST));
    lead(f);
    leader_stop(&f->me);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(1, sends(f, RELEASE));
    ASSERT_EQ(0u, stats(f).failures);
}

FAKE_TEST(release, while_it_is_under_way_no_time_is_left) {
    next(f, RELEASE, after(says(LEADER_OK), 1000));
    lead(f);
    leader_resign(&f->me, 0);
    tick(f);
    ASSERT_EQ(LEADER_STATE_RELEASING, state(f));
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(0, leader_remaining_ms(&f->me));  // it may be somebody else's this very moment
}

FAKE_TEST(release, without_an_answer_is_cancelled_and_retried) {
    next(f, RELEASE, never());
    lead(f);
    leader_stop(&f->me);
    run_to(f, 2500);
    ASSERT_EQ(1, f->cancels);
    ASSERT_FALSE(leader_is_stopped(&f->me));
    run_to(f, 3000);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(2, sends(f, RELEASE));
}

FAKE_TEST(release, is_followed_by_competing_again_after_retry_ms) {
    lead(f);
    stall(f, 10000);
    tick(f);
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
    run_to(f, 11999);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    run_to(f, 12000);
    ASSERT_EQ(2, f->started);
}

FAKE_TEST(release, is_not_sent_while_holding_off) {
    next(f, ACQUIRE, granted(0, 15000));
    begin(f);
    run_to(f, 7000);
    leader_stop(&f->me);
    run(f, 100);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(0, sends(f, RELEASE));
}

FAKE_TEST(release, is_not_sent_by_a_resign_while_holding_off) {
    next(f, ACQUIRE, granted(0, 15000));
    begin(f);
    run_to(f, 1000);
    leader_resign(&f->me, 2000);
    run_to(f, 15000);
    ASSERT_EQ(0, sends(f, RELEASE));
    ASSERT_EQ(2, sends(f, ACQUIRE));
    ASSERT_EQ(0, f->started);
    run_to(f, 15001);
    ASSERT_EQ(1, f->started);
}

/* ---- leader_stop from every state -------------------------------------------------------------- */

FAKE_TEST(stop, of_a_leader_ends_the_term_releases_and_is_over) {
    lead(f);
    leader_stop(&f->me);
    ASSERT_TRUE(leads(f));                      // it acts in the next tick
    ASSERT_EQ(0, leader_due_ms(&f->me));
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(LEADER_STATE_STOPPED, state(f));
    ASSERT_STREQ("acquire 0, release 0", story(f));
    ASSERT_STREQ("started 1; leader a; stopped 1 asked; leader -; ", f->said);
}

FAKE_TEST(stop, any_number_of_times_is_one_stop) {
    begin(f);
    for (int i = 0; i < 100; i++) {
        leader_stop(&f->me);
        leader_stop(&f->me);
        tick(f);
        stall(f, 100);
    }
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(0, f->sent_count);
    ASSERT_STREQ("", f->said);
}

FAKE_TEST(stop, of_a_leader_many_times_is_one_callback_and_one_release) {
    lead(f);
    for (int i = 0; i < 100; i++) {
        leader_stop(&f->me);
        tick(f);
        stall(f, 100);
    }
    ASSERT_EQ(1, f->stopped);
    ASSERT_EQ(1, sends(f, RELEASE));
}

FAKE_TEST(stop, before_the_first_tick_asks_the_store_nothing) {
    begin(f);
    leader_stop(&f->me);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(0, f->sent_count);
}

FAKE_TEST(stop, of_a_standby_asks_the_store_nothing) {
    always(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    run_to(f, 1000);
    leader_stop(&f->me);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_STREQ("acquire 0", story(f));
}

FAKE_TEST(stop, with_an_acquire_under_way_cancels_it_and_sends_a_release) {
    next(f, ACQUIRE, never());
    begin(f);
    run_to(f, 100);
    leader_stop(&f->me);
    tick(f);
    ASSERT_EQ(1, f->cancels);
    ASSERT_STREQ("acquire 0, release 100", story(f));
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(0, f->started);
    ASSERT_GT(sent(f, RELEASE, 0).seq, sent(f, ACQUIRE, 0).seq);
}

FAKE_TEST(stop, with_a_renewal_under_way_cancels_it_and_releases) {
    next(f, RENEW, never());
    begin(f);
    run_to(f, 5100);
    leader_stop(&f->me);
    tick(f);
    ASSERT_EQ(1, f->cancels);
    ASSERT_STREQ("acquire 0, renew 5000, release 5100", story(f));
    ASSERT_TRUE(leader_is_stopped(&f->me));
}

FAKE_TEST(stop, with_an_observation_under_way_is_over_at_once) {
    f->cfg.observe_only = true;
    next(f, OBSERVE, never());
    begin(f);
    tick(f);
    leader_stop(&f->me);
    tick(f);
    ASSERT_EQ(1, f->cancels);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(0, sends(f, RELEASE));
}

FAKE_TEST(stop, while_draining_waits_for_the_work_and_then_releases) {
    drain(f);
    leader_stop(&f->me);
    run_to(f, 60000);
    ASSERT_FALSE(leader_is_stopped(&f->me));
    ASSERT_EQ(LEADER_STATE_DRAINING, state(f));
    f->drained = true;
    run(f, 50);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(1, sends(f, RELEASE));
    ASSERT_EQ(1, f->stopped);
}

FAKE_TEST(stop, while_releasing_is_over_with_that_release) {
    next(f, RELEASE, after(says(LEADER_OK), 1000));
    lead(f);
    leader_resign(&f->me, 0);
    run_to(f, 500);
    ASSERT_EQ(LEADER_STATE_RELEASING, state(f));
    leader_stop(&f->me);
    run_to(f, 999);
    ASSERT_FALSE(leader_is_stopped(&f->me));
    run_to(f, 1000);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(1, sends(f, RELEASE));
}

FAKE_TEST(stop, while_paused_is_over_at_once) {
    lead(f);
    leader_resign(&f->me, 100000);
    run_to(f, 5000);
    leader_stop(&f->me);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(1, sends(f, RELEASE));
}

FAKE_TEST(stop, is_for_good) {
    lead(f);
    leader_stop(&f->me);
    tick(f);
    int requests = f->sent_count;
    leader_resign(&f->me, 1);
    run(f, 1000000);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(requests, f->sent_count);
    ASSERT_GT(f->polls, 0);                     // a shared client needs it
    ASSERT_EQ(1, f->started);
}

FAKE_TEST(stop, with_keep_lease_on_stop_leaves_the_lease_in_the_store) {
    f->cfg.keep_lease_on_stop = true;
    lead(f);
    leader_stop(&f->me);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(0, sends(f, RELEASE));
    ASSERT_EQ(1, f->stopped);
}

FAKE_TEST(stop, with_keep_lease_on_stop_still_waits_for_the_work) {
    f->cfg.keep_lease_on_stop = true;
    lead(f);
    f->drained = false;
    leader_stop(&f->me);
    run_to(f, 30000);
    ASSERT_EQ(LEADER_STATE_DRAINING, state(f));
    ASSERT_EQ(7, sends(f, RENEW));
    f->drained = true;
    run(f, 50);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(0, sends(f, RELEASE));
}

FAKE_TEST(stop, with_keep_lease_on_stop_releases_no_pending_acquire) {
    f->cfg.keep_lease_on_stop = true;
    next(f, ACQUIRE, never());
    begin(f);
    run_to(f, 100);
    leader_stop(&f->me);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(1, f->cancels);
    ASSERT_EQ(0, sends(f, RELEASE));
}

FAKE_TEST(stop, with_keep_lease_on_stop_lets_a_resign_release) {
    f->cfg.keep_lease_on_stop = true;
    lead(f);
    leader_resign(&f->me, 0);
    tick(f);
    ASSERT_EQ(1, sends(f, RELEASE));
}

FAKE_TEST(stop, past_drain_timeout_ms_is_over_without_a_release) {
    f->cfg.drain_timeout_ms = 3000;
    lead(f);
    f->drained = false;
    leader_stop(&f->me);
    run_to(f, 2999);
    ASSERT_FALSE(leader_is_stopped(&f->me));
    run_to(f, 3000);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(0, sends(f, RELEASE));
}

FAKE_TEST(stop, at_the_deadline_reports_the_deadline_not_the_request) {
    lead(f);
    stall(f, 10000);
    leader_stop(&f->me);
    tick(f);
    ASSERT_STREQ("started 1; leader a; stopped 1 deadline; leader -; ", f->said);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(1, sends(f, RELEASE));
}

static void stop_me(fake *f) { leader_stop(&f->me); }
static void resign_me(fake *f) { leader_resign(&f->me, 3000); }

FAKE_TEST(stop, inside_on_started_leading_works) {
    f->in_started = stop_me;
    begin(f);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_STREQ("started 1; leader a; stopped 1 asked; leader -; ", f->said);
}

FAKE_TEST(stop, inside_on_stopped_leading_works) {
    f->in_stopped = stop_me;
    lead(f);
    stall(f, 10000);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(1, sends(f, RELEASE));
}

FAKE_TEST(stop, inside_on_stopped_leading_of_a_lost_term_works) {
    f->in_stopped = stop_me;
    next(f, RENEW, named(says(LEADER_LOST), "b", 5));
    begin(f);
    run_to(f, 5000);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(0, sends(f, RELEASE));
    ASSERT_STREQ("started 1; leader a; stopped 1 lost; leader b; ", f->said);
}

FAKE_TEST(stop, inside_on_new_leader_works) {
    f->in_new = stop_me;
    begin(f);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(1, f->stopped);
}

FAKE_TEST(stop, inside_on_log_works) {
    f->in_log = stop_me;
    begin(f);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(f->started, f->stopped);
}

/* ---- leader_resign ----------------------------------------------------------------------------- */

FAKE_TEST(resign, of_a_leader_hands_over_pauses_and_competes_again) {
    lead(f);
    leader_resign(&f->me, 30000);
    tick(f);
    ASSERT_STREQ("started 1; leader a; stopped 1 asked; leader -; ", f->said);
    ASSERT_EQ(1, sends(f, RELEASE));
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
    run_to(f, 29999);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    ASSERT_GT(sends(f, OBSERVE), 10);           // while it pauses it watches
    run_to(f, 30000);
    ASSERT_EQ(2, sends(f, ACQUIRE));
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(resign, with_a_pause_of_0_pauses_for_one_lease) {
    lead(f);
    leader_resign(&f->me, 0);
    run_to(f, 14999);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    run_to(f, 15000);
    ASSERT_EQ(2, sends(f, ACQUIRE));
}

FAKE_TEST(resign, with_a_pause_shorter_than_retry_ms_competes_after_the_pause) {
    lead(f);
    leader_resign(&f->me, 300);
    run_to(f, 299);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    run_to(f, 300);
    ASSERT_EQ(2, sends(f, ACQUIRE));
}

FAKE_TEST(resign, with_a_pause_that_is_over_competes_at_once) {
    lead(f);
    f->creep_ms = 2;
    leader_resign(&f->me, 1);
    tick(f);
    tick(f);
    ASSERT_EQ(2, sends(f, ACQUIRE));
    f->creep_ms = 0;
}

FAKE_TEST(resign, pauses_from_the_end_of_the_release_not_from_the_request) {
    drain(f);
    leader_resign(&f->me, 1000);
    run_to(f, 5000);
    f->drained = true;
    run_to(f, 5900);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    run_to(f, 6100);
    ASSERT_EQ(2, sends(f, ACQUIRE));
}

FAKE_TEST(resign, of_a_standby_pauses_it) {
    always(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    run_to(f, 1000);
    leader_resign(&f->me, 20000);
    run_to(f, 20999);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    ASSERT_EQ(0, sends(f, RELEASE));
    run_to(f, 21000);
    ASSERT_EQ(2, sends(f, ACQUIRE));
    ASSERT_EQ(0, f->started);
}

FAKE_TEST(resign, with_an_acquire_under_way_cancels_releases_and_pauses) {
    next(f, ACQUIRE, never());
    begin(f);
    run_to(f, 100);
    leader_resign(&f->me, 20000);
    tick(f);
    ASSERT_STREQ("acquire 0, release 100", story(f));
    run_to(f, 20099);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    run_to(f, 20100);
    ASSERT_EQ(1, f->started);
}

FAKE_TEST(resign, without_end_does_not_overflow) {
    lead(f);
    leader_resign(&f->me, INT64_MAX);
    run(f, 1000000);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    leader_resign(&f->me, INT64_MIN);           // as 0: one lease
    run(f, 15001);
    ASSERT_EQ(2, sends(f, ACQUIRE));
}

FAKE_TEST(resign, then_stop_stops) {
    lead(f);
    leader_resign(&f->me, 1000);
    leader_stop(&f->me);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(1, f->stopped);
    ASSERT_EQ(1, sends(f, RELEASE));
}

FAKE_TEST(resign, inside_on_started_leading_works_every_time) {
    f->in_started = resign_me;
    begin(f);
    run_to(f, 6000);
    ASSERT_EQ(3, f->started);                   // at 0, 3000, 6000
    ASSERT_EQ(3, f->stopped);
    ASSERT_EQ(3, sends(f, RELEASE));
}

FAKE_TEST(resign, inside_on_stopped_leading_pauses) {
    f->in_stopped = resign_me;
    lead(f);
    stall(f, 10000);
    tick(f);
    run_to(f, 12999);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    run_to(f, 13000);
    ASSERT_EQ(2, sends(f, ACQUIRE));
}

/* ---- is_healthy -------------------------------------------------------------------------------- */

FAKE_TEST(health, is_asked_before_each_renewal_and_false_hands_over) {
    lead(f);
    int asked = f->healthy_asked;
    run_to(f, 15000);
    ASSERT_EQ(asked + 3, f->healthy_asked);
    f->healthy = false;
    run_to(f, 19999);
    ASSERT_TRUE(leads(f));
    run_to(f, 20000);
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(3, sends(f, RENEW));              // the fourth was not sent
    ASSERT_EQ(1, sends(f, RELEASE));
    ASSERT_STREQ("started 1; leader a; stopped 1 unhealthy; leader -; ", f->said);
}

FAKE_TEST(health, is_asked_before_an_acquire_and_else_a_standby_watches) {
    f->healthy = false;
    next(f, OBSERVE, held("b", 5, 15000));
    begin(f);
    run_to(f, 20000);
    ASSERT_EQ(0, sends(f, ACQUIRE));
    ASSERT_EQ(11, sends(f, OBSERVE));
    ASSERT_TRUE(strstr(f->said, "leader b; ") != NULL);
    f->healthy = true;
    run(f, 2000);
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(health, without_observe_an_unhealthy_standby_just_waits) {
    f->healthy = false;
    f->cfg.backend.observe = NULL;
    begin(f);
    run_to(f, 20000);
    ASSERT_EQ(0, f->sent_count);
    ASSERT_LE(f->healthy_asked, 12);
    f->healthy = true;
    run(f, 2000);
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(health, that_is_bad_starts_no_term_when_the_hold_off_is_over) {
    next(f, ACQUIRE, granted(0, 15000));
    begin(f);
    run_to(f, 14000);
    f->healthy = false;
    run_to(f, 20000);
    ASSERT_EQ(0, f->started);
    ASSERT_EQ(1, sends(f, RELEASE));            // nobody needs to wait for it any longer
    ASSERT_GT(sent(f, RELEASE, 0).at_ms, 15000);
    f->healthy = true;
    run(f, 3000);
    ASSERT_EQ(1, f->started);
}

static bool slowly_healthy(void *user) {
    fake *f = (fake *)user;
    if (f->healthy_asked++ == 1) stall(f, 10000);
    return true;
}

FAKE_TEST(health, that_is_told_late_starts_no_term_on_an_expired_lease) {
    f->cfg.is_healthy = slowly_healthy;
    next(f, ACQUIRE, granted(0, 7000));
    begin(f);
    run_to(f, 6999);
    stall_to(f, 7001);
    tick(f);
    ASSERT_EQ(1, f->started);                   // by the renewal that followed, with all its time left
    ASSERT_EQ(2, sends(f, RENEW));
    ASSERT_EQ(0, f->stopped);
    ASSERT_EQ(10000, leader_remaining_ms(&f->me));
}

static void unhealthy_once(fake *f) { f->healthy = true; }

FAKE_TEST(health, that_comes_back_while_draining_does_not_bring_the_term_back) {
    f->in_stopped = unhealthy_once;
    lead(f);
    f->drained = f->healthy = false;
    run_to(f, 30000);
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(LEADER_STATE_DRAINING, state(f));
    f->drained = true;
    run(f, 3000);
    ASSERT_EQ(2, f->started);
}
