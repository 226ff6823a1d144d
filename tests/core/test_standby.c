/* Waiting for the lease: when to ask, how to back off, notices, observers, stores that forgot, names that
   come back. Rules 3, 6 and 9. */
#include "tests/core/fake_store.h"

UTEST_MAIN()

FAKE_FIXTURE(attempt)
FAKE_FIXTURE(back_off)
FAKE_FIXTURE(notice)
FAKE_FIXTURE(observer)
FAKE_FIXTURE(hold_off)
FAKE_FIXTURE(cautious_start)
FAKE_FIXTURE(reclaim)

/* ---- when to ask ------------------------------------------------------------------------------- */

FAKE_TEST(attempt, comes_every_retry_ms_while_the_lease_is_held_for_long) {
    always(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    run_to(f, 10000);
    ASSERT_STREQ("acquire 0, acquire 2000, acquire 4000, acquire 6000, acquire 8000, acquire 10000",
                 story(f));
    ASSERT_STREQ("leader b; ", f->said);
}

FAKE_TEST(attempt, custom_retry_ms_is_obeyed) {
    f->cfg.retry_ms = 700;
    always(f, ACQUIRE, held("b", 5, -1));       // -1: the store cannot tell
    begin(f);
    run_to(f, 2100);
    ASSERT_STREQ("acquire 0, acquire 700, acquire 1400, acquire 2100", story(f));
}

FAKE_TEST(attempt, is_planned_for_the_end_of_the_lease) {
    next(f, ACQUIRE, held("b", 5, 700));
    begin(f);
    run_to(f, 699);
    ASSERT_EQ(1, sends(f, ACQUIRE));            // never before
    run_to(f, 700);
    ASSERT_EQ(2, sends(f, ACQUIRE));
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(attempt, no_chance_delays_it) {
    for (int64_t i = 0; i < 50; i++) {
        well_again(f, ACQUIRE);
        f->scripted[ACQUIRE] = f->played[ACQUIRE] = 0;
        f->sent_count = 0;
        f->seq = 0;
        f->nonce = 0;
        next(f, ACQUIRE, held("b", 5, 1000));
        begin(f);
        int64_t before = f->now_ms;
        run(f, 1100);
        ASSERT_EQ(before + 1000, sent(f, ACQUIRE, 1).at_ms + FAKE_START_MS);
        finish(f);
        f->last_token = 0;
    }
}

FAKE_TEST(attempt, an_expired_lease_that_stays_refused_makes_no_storm) {
    always(f, ACQUIRE, held("b", 5, 0));
    begin(f);
    run_to(f, 100000);
    ASSERT_LE(sends(f, ACQUIRE), 50 * 9 + 9);
    ASSERT_GT(sends(f, ACQUIRE), 50);
}

FAKE_TEST(attempt, a_free_lease_is_taken_by_the_first_request) {
    begin(f);
    tick(f);
    ASSERT_STREQ("acquire 0", story(f));
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(attempt, sees_every_change_of_leader_once_and_in_order) {
    next(f, ACQUIRE, held("b", 5, 9000));
    next(f, ACQUIRE, held("b", 5, 9000));
    next(f, ACQUIRE, held("c", 6, 9000));
    next(f, ACQUIRE, held("b", 7, 9000));
    begin(f);
    run_to(f, 8000);
    ASSERT_STREQ("leader b; leader c; leader b; started 8; leader a; ", f->said);
    ASSERT_EQ(4u, stats(f).transitions);
}

FAKE_TEST(attempt, a_record_of_our_own_name_that_is_not_ours_to_lead_is_nobody) {
    next(f, ACQUIRE, held("b", 5, 9000));
    next(f, ACQUIRE, held("a", 6, 9000));       // our own, of an attempt whose outcome is unknown
    begin(f);
    run_to(f, 2000);
    ASSERT_STREQ("leader b; leader -; ", f->said);
    ASSERT_FALSE(leads(f));
}

/* ---- while the store fails --------------------------------------------------------------------- */

FAKE_TEST(back_off, goes_from_retry_ms_to_retry_max_ms_and_never_beyond) {
    f->cfg.retry_max_ms = 20000;
    always(f, ACQUIRE, says(LEADER_E_IO));
    begin(f);
    run_to(f, 400000);
    const int64_t base[] = {2000, 4000, 8000, 16000, 20000, 20000, 20000};
    for (int i = 0; i < 7; i++) {
        int64_t gap = sent(f, ACQUIRE, i + 1).at_ms - sent(f, ACQUIRE, i).at_ms;
        ASSERT_GE(gap, base[i]);
        ASSERT_LE(gap, base[i] + base[i] / 4 < 20000 ? base[i] + base[i] / 4 : 20000);
    }
    ASSERT_GE(sends(f, ACQUIRE), 20);           // it never gives up
}

FAKE_TEST(back_off, an_unreachable_store_is_tried_at_the_same_pace) {
    always(f, ACQUIRE, says(LEADER_E_IO));
    begin(f);
    run_to(f, 100000);
    ASSERT_GE(sends(f, ACQUIRE), 66);
    ASSERT_LE(sends(f, ACQUIRE), 200);
}

FAKE_TEST(back_off, leads_within_two_seconds_of_the_stores_return) {
    always(f, ACQUIRE, says(LEADER_E_IO));
    begin(f);
    run_to(f, 3600000);
    well_again(f, ACQUIRE);
    run(f, 2000);
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(back_off, a_silent_store_is_asked_again_soon_after_the_time_out) {
    next(f, ACQUIRE, never());
    begin(f);
    run_to(f, 3100);
    ASSERT_EQ(2, sends(f, ACQUIRE));
    ASSERT_GE(sent(f, ACQUIRE, 1).at_ms, 2500);
}

FAKE_TEST(back_off, errors_that_are_answered_grow_from_retry_ms_to_a_minute) {
    always(f, ACQUIRE, says(LEADER_E_STORE));
    begin(f);
    run_to(f, 400000);
    const int64_t base[] = {2000, 4000, 8000, 16000, 32000, 60000, 60000};
    for (int i = 0; i < 7; i++) {
        int64_t gap = sent(f, ACQUIRE, i + 1).at_ms - sent(f, ACQUIRE, i).at_ms;
        ASSERT_GE(gap, base[i]);
        ASSERT_LE(gap, base[i] + base[i] / 4);
    }
}

FAKE_TEST(back_off, silence_in_between_starts_the_back_off_again) {
    for (int i = 0; i < 4; i++) {
        next(f, ACQUIRE, says(LEADER_E_STORE));
    }
    next(f, ACQUIRE, says(LEADER_E_IO));
    always(f, ACQUIRE, says(LEADER_E_STORE));
    begin(f);
    run_to(f, 200000);
    int64_t gap = sent(f, ACQUIRE, 6).at_ms - sent(f, ACQUIRE, 5).at_ms;
    ASSERT_GE(gap, 2000);
    ASSERT_LE(gap, 2500);
}

FAKE_TEST(back_off, has_jitter) {
    int64_t least = INT64_MAX, most = 0;
    for (int i = 0; i < 30; i++) {
        f->sent_count = 0;
        f->seq = 0;
        f->nonce = 0;
        always(f, ACQUIRE, says(LEADER_E_IO));
        begin(f);
        run(f, 3000);
        int64_t gap = sent(f, ACQUIRE, 1).at_ms - sent(f, ACQUIRE, 0).at_ms;
        least = gap < least ? gap : least;
        most = gap > most ? gap : most;
        finish(f);
    }
    ASSERT_GE(least, 500);
    ASSERT_LE(most, 1500);
    ASSERT_GT(most - least, 50);
}

FAKE_TEST(back_off, ends_with_the_first_answer) {
    for (int i = 0; i < 5; i++) next(f, ACQUIRE, says(LEADER_E_IO));
    next(f, ACQUIRE, held("b", 5, 15000));
    next(f, ACQUIRE, held("b", 5, 15000));
    next(f, ACQUIRE, says(LEADER_E_IO));
    next(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    run_to(f, 200000);
    ASSERT_EQ(2000, sent(f, ACQUIRE, 6).at_ms - sent(f, ACQUIRE, 5).at_ms);
    ASSERT_LE(sent(f, ACQUIRE, 8).at_ms - sent(f, ACQUIRE, 7).at_ms, 2500);
    ASSERT_EQ(6u, stats(f).failures_io);
}

FAKE_TEST(back_off, is_slow_from_the_start_for_errors_that_time_does_not_heal) {
    const leader_result slow[] = {LEADER_E_CORRUPT, LEADER_E_DUPLICATE, LEADER_E_CONFIG};
    for (int i = 0; i < 3; i++) {
        f->sent_count = 0;
        f->seq = 0;
        f->nonce = 0;
        always(f, ACQUIRE, says(slow[i]));
        begin(f);
        run(f, 30000);
        ASSERT_GE(sent(f, ACQUIRE, 1).at_ms - sent(f, ACQUIRE, 0).at_ms, 8000);
        ASSERT_EQ(slow[i], stats(f).last_error);
        finish(f);
    }
}

FAKE_TEST(back_off, an_error_that_knows_the_expiry_is_retried_then) {
    fake_answer corrupt = says(LEADER_E_CORRUPT);
    corrupt.record.expires_in_ms = 4000;
    next(f, ACQUIRE, corrupt);
    begin(f);
    run_to(f, 4000);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    run_to(f, 5100);
    ASSERT_EQ(2, sends(f, ACQUIRE));
}

FAKE_TEST(back_off, honours_the_time_that_the_store_asked_for) {
    next(f, ACQUIRE, again_in(says(LEADER_E_IO), 30000));
    begin(f);
    run_to(f, 29999);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    run_to(f, 37501);
    ASSERT_EQ(2, sends(f, ACQUIRE));
}

FAKE_TEST(back_off, caps_the_time_that_the_store_asked_for) {
    next(f, ACQUIRE, again_in(says(LEADER_E_IO), INT64_MAX));
    begin(f);
    run_to(f, 59999);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    run_to(f, 60000);
    ASSERT_EQ(2, sends(f, ACQUIRE));
}

FAKE_TEST(back_off, of_an_observer_is_the_same) {
    f->cfg.observe_only = true;
    always(f, OBSERVE, says(LEADER_E_STORE));
    begin(f);
    run_to(f, 1000000);
    ASSERT_LE(sends(f, OBSERVE), 25);
    ASSERT_GE(sends(f, OBSERVE), 15);
}

/* ---- notices ----------------------------------------------------------------------------------- */

FAKE_TEST(notice, of_a_change_makes_a_standby_ask_at_once) {
    next(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    run_to(f, 500);
    f->changed = true;
    tick(f);
    stall(f, 1);
    tick(f);
    ASSERT_STREQ("acquire 0, acquire 500", story(f));
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(notice, poll_is_called_at_every_tick_and_during_requests) {
    next(f, ACQUIRE, after(says(LEADER_OK), 1000));
    begin(f);
    for (int i = 1; i <= 20; i++) {
        tick(f);
        ASSERT_EQ(i, f->polls);
        stall(f, 10);
    }
}

FAKE_TEST(notice, that_comes_while_a_request_is_under_way_is_not_lost) {
    next(f, ACQUIRE, after(held("b", 5, 15000), 1000));
    begin(f);
    run_to(f, 500);
    f->changed = true;
    run_to(f, 1000);
    ASSERT_STREQ("acquire 0, acquire 1000", story(f));
    ASSERT_TRUE(leads(f));
}

static void change_while_answering(fake *f) {
    f->changed = sends(f, ACQUIRE) == 1;
}

/* Read with the answer, on one connection: no descriptor tells of it again. */
FAKE_TEST(notice, that_comes_with_an_answer_does_not_wait_for_a_tick) {
    next(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    f->in_call = change_while_answering;
    tick(f);
    ASSERT_STREQ("acquire 0, acquire 0", story(f));
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(notice, is_a_hint_polling_goes_on_without) {
    f->cfg.backend.poll = NULL;
    next(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    run_to(f, 2000);
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(notice, a_store_that_changes_all_the_time_does_not_make_a_storm) {
    f->changed_always = true;
    always(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    for (int i = 0; i < 100000; i++) { tick(f); stall(f, 1); }
    ASSERT_LE(sends(f, ACQUIRE), 50 * 9 + 9);
    ASSERT_GT(sends(f, ACQUIRE), 50);
}

FAKE_TEST(notice, does_not_shorten_a_pause) {
    f->changed_always = true;
    begin(f);
    run_to(f, 10);
    leader_resign(&f->me, 30000);
    run_to(f, 30009);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    run_to(f, 32100);
    ASSERT_EQ(2, sends(f, ACQUIRE));
}

FAKE_TEST(notice, makes_a_leader_renew_once_per_retry_ms_at_most) {
    f->changed_always = true;
    begin(f);
    for (int i = 0; i <= 20000; i++) { tick(f); stall(f, 1); }
    ASSERT_LE(sends(f, RENEW), 11);
    ASSERT_GE(sends(f, RENEW), 9);
}

/* ---- observers --------------------------------------------------------------------------------- */

FAKE_TEST(observer, watches_who_leads_and_never_competes) {
    f->cfg.observe_only = true;
    next(f, OBSERVE, held("b", 5, 15000));
    next(f, OBSERVE, held("c", 6, 15000));
    next(f, OBSERVE, says(LEADER_OK));
    next(f, OBSERVE, held("b", 7, 15000));
    begin(f);
    run_to(f, 6000);
    ASSERT_STREQ("leader b; leader c; leader -; leader b; ", f->said);
    ASSERT_EQ(4, f->sent_count);
    ASSERT_EQ(4, sends(f, OBSERVE));
    ASSERT_EQ(3u, stats(f).transitions);
    ASSERT_EQ(0u, stats(f).acquires);
    ASSERT_STREQ("b", view(f).leader);
    ASSERT_EQ(7u, view(f).token);
    ASSERT_FALSE(view(f).leading);
    ASSERT_EQ(0u, leader_token(&f->me));
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
}

FAKE_TEST(observer, asks_when_the_lease_can_have_run_out) {
    f->cfg.observe_only = true;
    next(f, OBSERVE, held("b", 5, 300));
    begin(f);
    run_to(f, 310);
    ASSERT_EQ(2, sends(f, OBSERVE));
}

FAKE_TEST(observer, stops_without_a_word_to_the_store) {
    f->cfg.observe_only = true;
    begin(f);
    run_to(f, 100);
    leader_resign(&f->me, 10);
    run_to(f, 200);
    leader_stop(&f->me);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(sends(f, OBSERVE), f->sent_count);
}

FAKE_TEST(observer, is_not_asked_for_its_health) {
    f->cfg.observe_only = true;
    begin(f);
    run_to(f, 10000);
    ASSERT_EQ(0, f->healthy_asked);
}

/* ---- rule 6: a store that forgot is not a release ---------------------------------------------- */

FAKE_TEST(hold_off, keeps_renewing_without_leading_until_it_is_over) {
    next(f, ACQUIRE, granted(0, 15000));
    begin(f);
    run_to(f, 15000);
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(0u, leader_token(&f->me));
    ASSERT_EQ(0, leader_remaining_ms(&f->me));
    ASSERT_EQ(LEADER_STATE_HOLDING_OFF, state(f));
    ASSERT_STREQ("", f->said);
    ASSERT_STREQ("acquire 0, renew 5000, renew 10000, renew 15000", story(f));
    run_to(f, 15001);
    ASSERT_TRUE(leads(f));
    ASSERT_STREQ("started 1; leader a; ", f->said);
    ASSERT_EQ(9999, leader_remaining_ms(&f->me));       // from the send of the last renewal
}

FAKE_TEST(hold_off, ends_with_the_token_that_a_renewal_told) {
    next(f, ACQUIRE, granted(5, 15000));
    next(f, RENEW, granted(9, 0));
    next(f, RENEW, granted(0, 0));
    always(f, RENEW, granted(12, 0));
    begin(f);
    run_to(f, 14000);
    ASSERT_STREQ("", f->said);
    run_to(f, 16000);
    ASSERT_STREQ("started 12; leader a; ", f->said);
    run_to(f, 30000);
    ASSERT_EQ(12u, leader_token(&f->me));
}

FAKE_TEST(hold_off, runs_from_the_reply_not_from_the_send) {
    next(f, ACQUIRE, after(granted(0, 15000), 2000));
    begin(f);
    run_to(f, 17000);
    ASSERT_FALSE(leads(f));
    run_to(f, 17001);
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(hold_off, is_said_in_the_log) {
    next(f, ACQUIRE, granted(0, 15000));
    begin(f);
    tick(f);
    ASSERT_TRUE(strstr(f->log, "W the store had forgotten its holder: leading only after 15000 ms") != NULL);
}

FAKE_TEST(hold_off, of_a_stopped_process_starts_no_term_on_an_expired_lease) {
    next(f, ACQUIRE, granted(0, 15000));
    begin(f);
    tick(f);
    stall(f, 20000);                            // past the hold-off, but the lease has not been renewed
    tick(f);
    ASSERT_STREQ("acquire 0, renew 20000", story(f));
    ASSERT_TRUE(leads(f));                      // by that renewal, which the store granted
    ASSERT_EQ(10000, leader_remaining_ms(&f->me));
}

FAKE_TEST(hold_off, ends_when_the_store_says_that_it_is_not_ours) {
    next(f, ACQUIRE, granted(0, 15000));
    next(f, ACQUIRE, held("b", 9, 15000));
    next(f, RENEW, named(says(LEADER_LOST), "b", 9));
    begin(f);
    run_to(f, 5500);
    ASSERT_EQ(0, f->started);
    ASSERT_STREQ("leader b; ", f->said);
    ASSERT_EQ(LEADER_STATE_FOLLOWER, state(f));
}

FAKE_TEST(hold_off, survives_a_renewal_that_fails) {
    next(f, ACQUIRE, granted(0, 15000));
    next(f, RENEW, says(LEADER_E_IO));
    begin(f);
    run_to(f, 15001);
    ASSERT_EQ(5500, sent(f, RENEW, 1).at_ms);
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(hold_off, whose_lease_may_have_run_out_asks_again_and_holds_off) {
    next(f, ACQUIRE, granted(0, 30000));
    for (int i = 0; i < 20; i++) next(f, RENEW, says(LEADER_E_IO));
    begin(f);
    run_to(f, 29999);
    ASSERT_GE(sends(f, ACQUIRE), 2);
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(0, f->started);
    well_again(f, RENEW);
    run_to(f, 40000);
    ASSERT_EQ(1, f->started);
}

FAKE_TEST(hold_off, told_in_an_answer_that_came_too_late_is_kept) {
    next(f, ACQUIRE, taking(granted(0, 15000), 10000));
    begin(f);
    run_to(f, 24999);
    ASSERT_GE(sends(f, ACQUIRE), 2);
    ASSERT_EQ(0, f->started);
    run_to(f, 25001);
    ASSERT_EQ(1, f->started);
}

FAKE_TEST(hold_off, is_never_shortened_by_a_later_one) {
    next(f, ACQUIRE, granted(0, 30000));
    for (int i = 0; i < 10; i++) next(f, RENEW, says(LEADER_LOST));
    next(f, ACQUIRE, granted(0, 1));
    begin(f);
    run_to(f, 30000);
    ASSERT_GE(sends(f, ACQUIRE), 2);
    ASSERT_EQ(0, f->started);
}

/* ---- cautious_start ---------------------------------------------------------------------------- */

FAKE_TEST(cautious_start, trusts_an_empty_store_only_after_one_lease) {
    f->cfg.cautious_start = true;
    begin(f);
    run_to(f, 15000);
    ASSERT_FALSE(leads(f));
    ASSERT_EQ(3, sends(f, RENEW));
    run_to(f, 15001);
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(cautious_start, does_not_wait_where_a_holder_was_seen) {
    f->cfg.cautious_start = true;
    next(f, ACQUIRE, held("b", 5, 500));
    begin(f);
    run_to(f, 600);
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(cautious_start, does_not_wait_where_a_holder_was_watched) {
    f->cfg.cautious_start = true;
    f->cfg.defer_ms = 1000;
    next(f, OBSERVE, held("b", 5, 500));
    always(f, OBSERVE, says(LEADER_OK));
    begin(f);
    run_to(f, 1700);
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(cautious_start, does_not_trust_an_empty_store_that_was_watched) {
    f->cfg.cautious_start = true;
    f->cfg.defer_ms = 1000;
    always(f, OBSERVE, says(LEADER_OK));
    begin(f);
    run_to(f, 15900);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    ASSERT_EQ(0, f->started);
    run_to(f, 16100);
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(cautious_start, an_error_is_not_an_answer) {
    f->cfg.cautious_start = true;
    next(f, ACQUIRE, says(LEADER_E_IO));
    next(f, ACQUIRE, never());
    begin(f);
    run_to(f, 18000);
    ASSERT_EQ(0, f->started);
    run_to(f, 30000);
    ASSERT_EQ(1, f->started);
}

FAKE_TEST(cautious_start, that_is_stopped_hands_no_untrusted_store_over) {
    f->cfg.cautious_start = true;
    begin(f);
    run_to(f, 7000);
    leader_stop(&f->me);
    tick(f);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(0, sends(f, RELEASE));
}

FAKE_TEST(cautious_start, that_is_stopped_during_its_first_acquire_releases_nothing) {
    f->cfg.cautious_start = true;
    next(f, ACQUIRE, never());
    begin(f);
    run_to(f, 100);
    leader_stop(&f->me);
    run_to(f, 200);
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_EQ(0, sends(f, RELEASE));
}

FAKE_TEST(cautious_start, waits_only_once) {
    f->cfg.cautious_start = true;
    begin(f);
    run_to(f, 16000);
    ASSERT_TRUE(leads(f));
    leader_resign(&f->me, 1000);
    run_to(f, 17000);
    ASSERT_EQ(2, f->started);
}

/* ---- reclaim_identity -------------------------------------------------------------------------- */

FAKE_TEST(reclaim, is_asked_for_only_until_the_store_has_answered_once) {
    f->cfg.reclaim_identity = true;
    next(f, ACQUIRE, says(LEADER_E_IO));
    next(f, ACQUIRE, never());
    next(f, ACQUIRE, held("b", 5, 15000));
    next(f, ACQUIRE, held("b", 5, 15000));
    begin(f);
    run_to(f, 30000);
    ASSERT_TRUE(sent(f, ACQUIRE, 0).reclaim);
    ASSERT_TRUE(sent(f, ACQUIRE, 1).reclaim);
    ASSERT_TRUE(sent(f, ACQUIRE, 2).reclaim);
    ASSERT_FALSE(sent(f, ACQUIRE, 3).reclaim);
    ASSERT_FALSE(sent(f, ACQUIRE, 4).reclaim);
}

FAKE_TEST(reclaim, is_over_with_the_first_success) {
    f->cfg.reclaim_identity = true;
    begin(f);
    run_to(f, 5000);
    ASSERT_TRUE(sent(f, ACQUIRE, 0).reclaim);
    ASSERT_FALSE(sent(f, RENEW, 0).reclaim);
    leader_resign(&f->me, 10);
    run_to(f, 6000);
    ASSERT_FALSE(sent(f, ACQUIRE, 1).reclaim);
}

FAKE_TEST(reclaim, is_over_with_a_duplicate) {
    f->cfg.reclaim_identity = true;
    next(f, ACQUIRE, named(says(LEADER_E_DUPLICATE), "a", 5));
    begin(f);
    run_to(f, 20000);
    ASSERT_TRUE(sent(f, ACQUIRE, 0).reclaim);
    ASSERT_FALSE(sent(f, ACQUIRE, 1).reclaim);
}

FAKE_TEST(reclaim, is_not_asked_for_unless_configured) {
    begin(f);
    tick(f);
    ASSERT_FALSE(sent(f, ACQUIRE, 0).reclaim);
}

FAKE_TEST(reclaim, every_election_has_a_nonce_of_its_own) {
    begin(f);
    tick(f);
    uint64_t first = f->nonce;
    finish(f);
    f->nonce = f->seq = f->last_token = 0;
    begin(f);
    tick(f);
    ASSERT_NE(first, f->nonce);
    ASSERT_NE(0u, f->nonce);
}
