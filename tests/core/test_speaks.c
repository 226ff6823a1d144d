/* What a first-time user reads: warnings and errors on stderr, their causes, and how often they come. */
#include "tests/core/fake_store.h"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

UTEST_MAIN()

static void lead(fake *f) {
    begin(f);
    tick(f);
}

FAKE_FIXTURE(stderr_)
FAKE_FIXTURE(texts)
FAKE_FIXTURE(end_of_a_term)
FAKE_FIXTURE(set_up)
FAKE_FIXTURE(threads)
FAKE_FIXTURE(waiting)
FAKE_FIXTURE(health)
FAKE_FIXTURE(touch)
FAKE_FIXTURE(value)
FAKE_FIXTURE(defer)
FAKE_FIXTURE(close_all)

/* ---- stderr, caught in a file -------------------------------------------------------------------------- */

static int  kept_stderr = -1;
static char caught[8192];

static void catch_stderr(void) {
    FILE *file = tmpfile();
    fflush(stderr);
    kept_stderr = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    fclose(file);
}

static const char *caught_stderr(void) {
    fflush(stderr);
    memset(caught, 0, sizeof caught);
    ssize_t got = pread(STDERR_FILENO, caught, sizeof caught - 1, 0);
    if (got < 0) {
        abort();
    }
    dup2(kept_stderr, STDERR_FILENO);
    close(kept_stderr);
    return caught;
}

static int lines_in(const char *text) {
    int lines = 0;
    for (; *text; text++) {
        if (*text == '\n') {
            lines++;
        }
    }
    return lines;
}

FAKE_TEST(stderr_, gets_warnings_and_errors_when_there_is_no_on_log) {
    f->cfg.on_log = NULL;
    f->cfg.backend.name = "jobs/nightly";
    always(f, ACQUIRE, says(LEADER_E_IO));
    catch_stderr();
    begin(f);
    tick(f);
    ASSERT_STREQ("leader.h: jobs/nightly warning: acquire: the store could not be reached\n",
                 caught_stderr());
}

FAKE_TEST(stderr_, gets_nothing_that_is_only_information) {
    f->cfg.on_log = NULL;
    catch_stderr();
    lead(f);
    ASSERT_STREQ("", caught_stderr());
}

FAKE_TEST(stderr_, gets_the_same_line_once_per_retry_max_ms) {
    f->cfg.on_log = NULL;
    always(f, ACQUIRE, says(LEADER_E_IO));
    catch_stderr();
    begin(f);
    run_to(f, 59000);
    run_to(f, 125000);
    const char *text = caught_stderr();
    ASSERT_GE(lines_in(text), 2);
    ASSERT_LE(lines_in(text), 3);
    ASSERT_TRUE(strstr(text, " times)\n") != NULL);
}

static void say_nothing(void *user, leader_level level, const char *text) {
    (void)user;
    (void)level;
    (void)text;
}

FAKE_TEST(stderr_, is_silenced_by_an_empty_on_log) {
    f->cfg.on_log = say_nothing;
    always(f, ACQUIRE, says(LEADER_E_IO));
    catch_stderr();
    begin(f);
    run_to(f, 10000);
    ASSERT_STREQ("", caught_stderr());
}

FAKE_TEST(texts, for_on_log_name_their_election) {
    f->cfg.backend.name = "jobs/nightly";
    lead(f);
    ASSERT_TRUE(strstr(f->log, "jobs/nightly: leading, token 1") != NULL);
    ASSERT_STREQ("jobs/nightly", leader_name(&f->me));
}

/* ---- why a term ended -------------------------------------------------------------------------- */

FAKE_TEST(end_of_a_term, by_a_late_tick_says_how_late_it_was) {
    lead(f);
    stall(f, 5000 + 6564);
    tick(f);
    ASSERT_FALSE(leads(f));
    ASSERT_TRUE(strstr(f->log, "W no longer leading: leader_tick came 6564 ms late") != NULL);
    ASSERT_STREQ("leader_tick came 6564 ms late", stats(f).last_error_text);
}

FAKE_TEST(end_of_a_term, by_a_silent_store_says_no_answer_in_time) {
    lead(f);
    always(f, RENEW, never());
    run_to(f, 10000);
    ASSERT_FALSE(leads(f));
    ASSERT_TRUE(strstr(f->log, "W no longer leading: no answer in time from the store") != NULL);
    ASSERT_TRUE(strstr(f->log, " late") == NULL);
}

static fake *stalled;
static bool slow_health(void *user) {
    (void)user;
    stall(stalled, 12000);
    return true;
}

FAKE_TEST(end_of_a_term, by_a_slow_callback_says_how_long_it_took) {
    lead(f);
    stalled = f;
    f->me.cfg.is_healthy = slow_health;
    stall(f, 5000);
    tick(f);
    ASSERT_FALSE(leads(f));
    ASSERT_TRUE(strstr(f->log, "W no longer leading: leader_tick was held up for 12000 ms") != NULL);
}

FAKE_TEST(end_of_a_term, that_was_asked_for_is_no_warning) {
    lead(f);
    leader_resign(&f->me, 1000);
    tick(f);
    ASSERT_TRUE(strstr(f->log, "I no longer leading: asked to hand over") != NULL);
}

/* ---- wrong uses -------------------------------------------------------------------------------- */

FAKE_TEST(set_up, with_nothing_but_zeroes_is_a_silent_single_node) {
    leader_config zero;
    leader_t me;
    memset(&zero, 0, sizeof zero);
    catch_stderr();
    leader_result result = leader_init(&me, &zero);
    leader_tick(&me);
    bool led = leader_is_leader(&me);
    char name[LEADER_IDENTITY_MAX + 1];
    leader_get_leader(&me, name, sizeof name);
    leader_close(&me, 0);
    ASSERT_STREQ("", caught_stderr());
    ASSERT_EQ(LEADER_OK, result);
    ASSERT_TRUE(led);
    ASSERT_GT(strlen(name), (size_t)3);
    (void)f;
}

FAKE_TEST(set_up, with_a_forgotten_backend_says_what_to_do) {
    leader_config config;
    leader_t me;
    memset(&config, 0, sizeof config);
    config.identity = "a";
    catch_stderr();
    leader_init(&me, &config);
    leader_tick(&me);
    leader_tick(&me);
    leader_close(&me, 0);
    ASSERT_STREQ(
        "leader.h: single node warning: config.backend is not set, so this process always leads: set it, for "
        "example to leader_file_backend(), or to leader_single_backend() on purpose\n",
        caught_stderr());
    (void)f;
}

FAKE_TEST(set_up, with_a_lease_of_30_ms_asks_whether_seconds_were_meant) {
    f->cfg.lease_ms = 30;
    begin(f);
    tick(f);
    ASSERT_TRUE(strstr(f->log, "W lease_ms is 30 ms: did you mean seconds?") != NULL);
    finish(f);
    f->log[0] = 0;
    f->seq = 0;
    f->nonce = 0;
    f->last_token = 0;
    f->cfg.renew_deadline_ms = 20;
    begin(f);
    tick(f);
    ASSERT_TRUE(strstr(f->log, "did you mean seconds?") == NULL);
}

FAKE_TEST(set_up, blames_renew_ms_when_it_leaves_no_time) {
    f->cfg.renew_ms = 9999;
    ASSERT_EQ(LEADER_E_CONFIG, leader_init(&f->me, &f->cfg));
    ASSERT_TRUE(strstr(leader_error(&f->me), "renew_ms (9999) leaves no time") == leader_error(&f->me));
}

static leader_t *called_twice;

static void *tick_from_another_thread(void *result) {
    *(int *)result = leader_tick(called_twice);
    return NULL;
}

static void let_another_thread_tick(fake *f) {
    pthread_t thread;
    int wait_ms = 0;
    (void)f;
    if (pthread_create(&thread, NULL, tick_from_another_thread, &wait_ms) != 0) {
        abort();
    }
    pthread_join(thread, NULL);
    if (wait_ms != 100) {
        abort();
    }
}

FAKE_TEST(threads, two_that_tick_are_named_as_the_cause) {
    lead(f);
    called_twice = &f->me;
    f->in_call = let_another_thread_tick;
    stall(f, 5000);
    tick(f);
    f->in_call = NULL;
    tick(f);
    ASSERT_TRUE(strstr(leader_error(&f->me), "two threads tick this election at once")
                == leader_error(&f->me));
    ASSERT_TRUE(strstr(f->log, "E two threads tick this election at once") != NULL);
    ASSERT_TRUE(leads(f));
}

static void *stop_after_a_while(void *election) {
    struct timespec t = {0, 30000000};
    nanosleep(&t, NULL);
    leader_stop((leader_t *)election);
    return NULL;
}

FAKE_TEST(waiting, ends_soon_after_a_stop_from_another_thread) {
    pthread_t thread;
    f->real_time = true;
    f->cfg.retry_ms = 3600000;
    f->cfg.retry_max_ms = 3600000;
    always(f, ACQUIRE, says(LEADER_E_STORE));
    begin(f);
    ASSERT_EQ(0, pthread_create(&thread, NULL, stop_after_a_while, &f->me));
    // returns at all: the store would be asked in an hour
    ASSERT_EQ(LEADER_E_STATE, leader_wait(&f->me, -1));
    pthread_join(thread, NULL);
}

static leader_t *stopped_by_signal;

static void stop_in_handler(int sig) {
    (void)sig;
    leader_stop(stopped_by_signal);
}

FAKE_TEST(waiting, ends_at_once_with_a_stop_from_a_signal_handler) {
    struct itimerval soon = {{0, 0}, {0, 30000}};
    f->real_time = true;
    f->cfg.retry_ms = 3600000;
    f->cfg.retry_max_ms = 3600000;
    always(f, ACQUIRE, says(LEADER_E_STORE));
    begin(f);
    stopped_by_signal = &f->me;
    signal(SIGALRM, stop_in_handler);
    setitimer(ITIMER_REAL, &soon, NULL);
    leader_result result = leader_wait(&f->me, -1);
    signal(SIGALRM, SIG_DFL);
    // the signal ended the sleep, or came while the election ticked
    ASSERT_TRUE(result == LEADER_PENDING || result == LEADER_E_STATE);
    leader_tick(&f->me);
    ASSERT_TRUE(leader_is_stopped(&f->me));
}

FAKE_TEST(health, is_bad_when_the_first_tick_is_overdue) {
    begin(f);
    ASSERT_TRUE(leader_is_healthy(&f->me, 1000));
    stall(f, 1001);
    ASSERT_FALSE(leader_is_healthy(&f->me, 1000));
    tick(f);
    ASSERT_TRUE(leader_is_healthy(&f->me, 1000));
}

FAKE_TEST(touch, is_lost_when_the_store_has_been_silent_for_longer) {
    always(f, ACQUIRE, says(LEADER_E_IO));
    begin(f);
    tick(f);
    ASSERT_FALSE(leader_is_in_touch(&f->me, 1000000));
    well_again(f, ACQUIRE);
    run(f, 2000);
    ASSERT_TRUE(leads(f));
    ASSERT_TRUE(leader_is_in_touch(&f->me, 2000));
    always(f, RENEW, says(LEADER_E_IO));
    run(f, 8000);
    ASSERT_FALSE(leader_is_in_touch(&f->me, 5999));
}

/* ---- the leader's value, who goes first, hand-over by name ------------------------------------- */

FAKE_TEST(value, of_the_leader_is_shown_with_its_token) {
    char value[LEADER_VALUE_MAX + 1];
    f->cfg.value = "10.0.0.1:80";
    lead(f);
    ASSERT_STREQ("10.0.0.1:80", view(f).value);
    ASSERT_EQ(1u, view(f).token);
    ASSERT_EQ(11, leader_get_value(&f->me, value, sizeof value));
    ASSERT_STREQ("10.0.0.1:80", value);
}

FAKE_TEST(value, that_changes_is_written_at_once) {
    lead(f);
    run_to(f, 100);
    ASSERT_EQ(0, sends(f, RENEW));
    ASSERT_EQ(LEADER_OK, leader_set_value(&f->me, "moved"));
    ASSERT_EQ(0, leader_due_ms(&f->me));
    tick(f);
    ASSERT_EQ(1, sends(f, RENEW));
    ASSERT_STREQ("moved", leader_get_view(&f->me).value);
}

FAKE_TEST(value, that_is_wrong_changes_nothing) {
    char text[LEADER_VALUE_MAX + 2];
    memset(text, 'x', sizeof text);
    text[LEADER_VALUE_MAX + 1] = 0;
    f->cfg.value = "good";
    lead(f);
    ASSERT_EQ(LEADER_E_CONFIG, leader_set_value(&f->me, text));
    ASSERT_EQ(LEADER_E_CONFIG, leader_set_value(&f->me, "\xff"));
    ASSERT_STREQ("good", f->me.value);
    finish(f);
    f->cfg.value = text;
    ASSERT_EQ(LEADER_E_CONFIG, leader_init(&f->me, &f->cfg));
    ASSERT_TRUE(strstr(leader_error(&f->me), "value is longer than 255 bytes") != NULL);
}

FAKE_TEST(value, of_another_leader_goes_with_its_end) {
    fake_answer other = held("b", 5, 15000);
    snprintf(other.record.value, sizeof other.record.value, "there");
    next(f, ACQUIRE, other);
    begin(f);
    tick(f);
    ASSERT_STREQ("there", leader_get_view(&f->me).value);
    run_to(f, 2100);
    ASSERT_TRUE(leads(f));
    ASSERT_STREQ("", leader_get_view(&f->me).value);
}

FAKE_TEST(defer, only_looks_until_the_lease_was_free_for_that_long) {
    f->cfg.defer_ms = 3000;
    always(f, OBSERVE, says(LEADER_OK));
    begin(f);
    run_to(f, 2999);
    ASSERT_EQ(0, sends(f, ACQUIRE));
    run_to(f, 3010);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(defer, starts_again_when_another_one_took_it) {
    f->cfg.defer_ms = 3000;
    next(f, OBSERVE, says(LEADER_OK));
    next(f, OBSERVE, held("b", 5, 15000));
    always(f, OBSERVE, says(LEADER_OK));
    begin(f);
    run_to(f, 6900);
    ASSERT_EQ(0, sends(f, ACQUIRE));
    run_to(f, 7100);
    ASSERT_EQ(1, sends(f, ACQUIRE));
}

/* Such as a Redis key without a time to live, which only an attempt to take the lease sets right. */
FAKE_TEST(defer, takes_what_is_held_and_may_be_taken) {
    f->cfg.defer_ms = 3000;
    always(f, OBSERVE, held("b", 5, 0));
    begin(f);
    run_to(f, 2990);
    ASSERT_EQ(0, sends(f, ACQUIRE));
    run_to(f, 3100);
    ASSERT_EQ(1, sends(f, ACQUIRE));
}

FAKE_TEST(defer, needs_a_store_that_can_be_looked_at) {
    f->cfg.defer_ms = 3000;
    f->cfg.backend.observe = NULL;
    ASSERT_EQ(LEADER_E_CONFIG, leader_init(&f->me, &f->cfg));
    ASSERT_STREQ("backend.observe is missing, and defer_ms needs it", leader_error(&f->me));
}

FAKE_TEST(defer, can_be_changed_and_counts_from_when_it_was_free) {
    f->cfg.defer_ms = 60000;
    always(f, OBSERVE, says(LEADER_OK));
    begin(f);
    run_to(f, 2500);
    ASSERT_EQ(LEADER_OK, leader_set_defer(&f->me, 3000));
    run_to(f, 2990);
    ASSERT_EQ(0, sends(f, ACQUIRE));
    run_to(f, 3010);
    ASSERT_EQ(1, sends(f, ACQUIRE));
    ASSERT_TRUE(leads(f));
}

FAKE_TEST(defer, set_to_nothing_takes_a_free_lease_at_once) {
    f->cfg.defer_ms = 60000;
    always(f, OBSERVE, says(LEADER_OK));
    begin(f);
    run_to(f, 100);
    ASSERT_EQ(0, sends(f, ACQUIRE));
    ASSERT_EQ(LEADER_OK, leader_set_defer(&f->me, 0));
    ASSERT_EQ(0, leader_due_ms(&f->me));
    tick(f);
    ASSERT_EQ(1, sends(f, ACQUIRE));
}

FAKE_TEST(defer, set_on_a_held_lease_hurries_nothing) {
    f->cfg.defer_ms = 60000;
    always(f, OBSERVE, held("b", 5, 15000));
    begin(f);
    tick(f);
    ASSERT_EQ(LEADER_OK, leader_set_defer(&f->me, 1000));
    ASSERT_TRUE(leader_due_ms(&f->me) > 0);
    run_to(f, 60000);
    ASSERT_EQ(0, sends(f, ACQUIRE));
}

FAKE_TEST(defer, that_is_wrong_changes_nothing) {
    f->cfg.defer_ms = 0;
    f->cfg.backend.observe = NULL;
    begin(f);
    ASSERT_EQ(LEADER_E_CONFIG, leader_set_defer(&f->me, 3000));
    ASSERT_EQ(LEADER_E_CONFIG, leader_set_defer(&f->me, -1));
    ASSERT_TRUE(strstr(leader_error(&f->me), "defer_ms") != NULL);
    ASSERT_EQ(LEADER_OK, leader_set_defer(&f->me, 0));
    tick(f);
    ASSERT_EQ(1, sends(f, ACQUIRE));
}

FAKE_TEST(close_all, releases_every_election_at_once) {
    static fake other;
    leader_t *both[2] = {&f->me, &other.me};
    lead(f);
    prepare(&other);
    begin(&other);
    tick(&other);
    ASSERT_EQ(LEADER_OK, leader_close_all(both, 2, 1000));
    ASSERT_EQ(1, sends(f, RELEASE));
    ASSERT_EQ(1, sends(&other, RELEASE));
    ASSERT_TRUE(leader_is_stopped(&f->me));
    ASSERT_TRUE(leader_is_stopped(&other.me));
}
