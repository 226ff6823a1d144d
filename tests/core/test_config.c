/* What leader_init accepts, fills in and refuses; identities; texts; and what an election answers that is
   not open. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/tools/utest.h"
#include <sys/wait.h>

/* ---- a store of one record, a clock that stands still unless told ------------------------------ */

static struct {
    int64_t now_ms;
    int     opens, closes, acquires, renews, releases, observes;
    int     callbacks, warnings, starts, stops;
    leader_result acquire_answer, renew_answer, why_stopped;
    const char *wrong;                           // what open finds wrong
    leader_config effective;                     // with the defaults filled in, as the backend sees it
    leader_request last;
    int64_t sent_ms[64];                         // when each of the first requests came
    int     sent;
    bool    drained, healthy;
} world;

static leader_result answer(leader_result result, const leader_request *request, leader_record *seen) {
    world.last = *request;
    if (world.sent < 64) world.sent_ms[world.sent++] = request->now_ms;
    seen->expires_in_ms = -1;
    if (result == LEADER_OK) {
        memcpy(seen->holder, request->identity, strlen(request->identity) + 1);
        seen->token = request->min_token;
    } else if (result == LEADER_HELD) {
        memcpy(seen->holder, "rival", 6);
        seen->token = 7;
    }
    return result;
}
static leader_result fake_acquire(void *self, const leader_request *r, leader_record *seen) {
    (void)self;
    world.acquires++;
    return answer(world.acquire_answer, r, seen);
}
static leader_result fake_renew(void *self, const leader_request *r, leader_record *seen) {
    (void)self;
    world.renews++;
    return answer(world.renew_answer, r, seen);
}
static leader_result fake_release(void *self, const leader_request *r, leader_record *seen) {
    (void)self;
    world.releases++;
    return answer(LEADER_OK, r, seen);
}
static leader_result fake_observe(void *self, const leader_request *r, leader_record *seen) {
    (void)self;
    world.observes++;
    return answer(LEADER_HELD, r, seen);
}
static const char *fake_open(void *self, const leader_host *host) {
    (void)self;
    world.opens++;
    world.effective = *host->config;
    return world.wrong;
}
static void fake_close(void *self) { (void)self; world.closes++; }

static int64_t fake_clock(void *user) { (void)user; return world.now_ms; }
static void on_started(void *user, uint64_t token) {
    (void)user;
    (void)token;
    world.callbacks++;
    world.starts++;
}
static void on_stopped(void *user, uint64_t token, leader_result why) {
    (void)user;
    (void)token;
    world.callbacks++;
    world.stops++;
    world.why_stopped = why;
}
static void on_leader(void *user, const char *identity) { (void)user; (void)identity; world.callbacks++; }
static void on_log(void *user, leader_level level, const char *text) {
    (void)user;
    (void)text;
    world.callbacks++;
    if (level == LEADER_LOG_WARN)
        world.warnings++;
}
static bool is_drained(void *user) { (void)user; return world.drained; }
static bool is_healthy(void *user) { (void)user; return world.healthy; }

static leader_config good_config(void) {
    leader_config config;
    memset(&world, 0, sizeof world);
    world.now_ms = 1000000;
    world.drained = world.healthy = true;
    memset(&config, 0, sizeof config);
    config.identity = "duck";
    config.backend.self = &world;
    config.backend.acquire = fake_acquire;
    config.backend.renew = fake_renew;
    config.backend.release = fake_release;
    config.backend.observe = fake_observe;
    config.backend.open = fake_open;
    config.backend.close = fake_close;
    config.clock_ms = fake_clock;
    config.on_started_leading = on_started;
    config.on_stopped_leading = on_stopped;
    config.on_new_leader = on_leader;
    config.on_log = on_log;
    return config;
}

/* Ticks as often as the election asks for it while `ms` pass. */
static void pass(leader_t *me, int64_t ms) {
    const int64_t end = world.now_ms + ms;
    for (;;) {
        int64_t wait = leader_tick(me);
        if (world.now_ms >= end) return;
        world.now_ms += wait < end - world.now_ms ? wait : end - world.now_ms;
    }
}

/* Everything that can be asked of an election that is not open is answered with no, nothing, nobody. */
static void answers_nothing(int *utest_result, leader_t *me) {
    char name[8] = "before";
    leader_fd fds[LEADER_FDS_MAX];
    leader_view view = leader_get_view(me);
    leader_stats stats = leader_get_stats(me);
    leader_stop(me);
    leader_resign(me, 1);
    leader_sleep(me, 0);
    EXPECT_FALSE(leader_is_leader(me));
    EXPECT_EQ((uint64_t)0, leader_token(me));
    EXPECT_EQ((int64_t)0, leader_remaining_ms(me));
    EXPECT_EQ(0, leader_due_ms(me));
    EXPECT_TRUE(leader_is_stopped(me));
    EXPECT_FALSE(leader_is_healthy(me, INT64_MAX));
    EXPECT_TRUE(leader_get_state(me) == LEADER_STATE_NONE);
    EXPECT_EQ(0, leader_get_leader(me, name, sizeof name));
    EXPECT_STREQ("", name);
    EXPECT_TRUE(view.state == LEADER_STATE_NONE);
    EXPECT_FALSE(view.leading);
    EXPECT_EQ((uint64_t)0, view.token);
    EXPECT_EQ((int64_t)0, view.remaining_ms);
    EXPECT_EQ((int64_t)-1, view.age_ms);
    EXPECT_EQ((int64_t)-1, view.since_ms);
    EXPECT_STREQ("", view.leader);
    EXPECT_EQ((uint64_t)0, stats.terms + stats.acquires + stats.renewals + stats.releases + stats.transitions
                               + stats.failures);
    EXPECT_EQ((int64_t)-1, stats.latency_ms_last);
    EXPECT_EQ((int64_t)-1, stats.since_success_ms);
    EXPECT_STREQ("", stats.last_error_text);
    EXPECT_EQ(0, leader_fds(me, fds));
    EXPECT_EQ(100, leader_tick(me));
    EXPECT_EQ(LEADER_E_STATE, leader_wait(me, 0));
    EXPECT_EQ(LEADER_OK, leader_close(me, 0));
}

/* leader_init refuses this config with a message that has both texts in it; nothing was opened, changed or
   called. */
static void refused(int *utest_result, const leader_config *config, const char *field, const char *value) {
    const leader_config before = *config;
    leader_t me;
    memset(&me, 0xa5, sizeof me);
    world.opens = world.closes = world.callbacks = 0;
    EXPECT_EQ_MSG(LEADER_E_CONFIG, leader_init(&me, config), field);
    EXPECT_TRUE_MSG(strstr(leader_error(&me), field), leader_error(&me));
    EXPECT_TRUE_MSG(strstr(leader_error(&me), value), leader_error(&me));
    EXPECT_EQ(0, memcmp(&before, config, sizeof before));
    EXPECT_EQ(0, world.callbacks);
    EXPECT_EQ(0, world.closes);
    EXPECT_EQ(world.wrong ? 1 : 0, world.opens);
    answers_nothing(utest_result, &me);
    EXPECT_TRUE(strstr(leader_error(&me), field));
}

static void accepted(int *utest_result, const leader_config *config) {
    const leader_config before = *config;
    leader_t me;
    const leader_result result = leader_init(&me, config);
    EXPECT_EQ_MSG(LEADER_OK, result, leader_error(&me));
    EXPECT_EQ(0, memcmp(&before, config, sizeof before));
    if (result == LEADER_OK) EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

/* ---- identity ---------------------------------------------------------------------------------- */

UTEST(identity, missing_or_empty_is_refused) {
    leader_config config = good_config();
    config.identity = NULL;
    refused(utest_result, &config, "identity", "missing");
    config.identity = "";
    refused(utest_result, &config, "identity", "missing");
}

UTEST(identity, of_255_bytes_is_accepted_and_of_256_refused) {
    leader_config config = good_config();
    char name[LEADER_IDENTITY_MAX + 2];
    memset(name, 'x', sizeof name);
    name[LEADER_IDENTITY_MAX] = '\0';
    config.identity = name;
    accepted(utest_result, &config);
    name[LEADER_IDENTITY_MAX] = 'x';
    name[LEADER_IDENTITY_MAX + 1] = '\0';
    refused(utest_result, &config, "identity", "255");
}

UTEST(identity, without_an_end_is_read_no_further_than_it_may_be_long) {
    leader_config config = good_config();
    // no 0 in it: the address sanitizer sees a byte too far
    char *name = (char *)malloc(LEADER_IDENTITY_MAX + 1);
    ASSERT_TRUE(name);
    memset(name, 'x', LEADER_IDENTITY_MAX + 1);
    config.identity = name;
    refused(utest_result, &config, "identity", "255");
    free(name);
}

UTEST(identity, that_is_not_utf8_is_refused_and_the_byte_named) {
    static const struct { const char *name, *at; } wrong[] = {
        {"\x80", "byte 0"},                      // a continuation without a beginning
        {"ab\xff", "byte 2"},
        {"abc\xc3", "byte 3"},                   // cut off
        {"\xc3(", "byte 0"},
        {"a\xc0\xaf", "byte 1"},                 // overlong
        {"\xe0\x80\x80", "byte 0"},
        {"x\xed\xa0\x80", "byte 1"},             // a surrogate
        {"\xf4\x90\x80\x80", "byte 0"},          // beyond Unicode
        {"\xf0\x9f\xa6", "byte 0"},
    };
    leader_config config = good_config();
    size_t i;
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        config.identity = wrong[i].name;
        refused(utest_result, &config, "identity is not UTF-8", wrong[i].at);
    }
}

UTEST(identity, in_any_script_is_accepted_and_reported_as_given) {
    static const char *const names[] = {"\xc3\xa9\xe2\x82\xac", "\xf0\x9f\xa6\x86", "a\"b\\c\n", "x"};
    size_t i;
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        leader_config config = good_config();
        char name[LEADER_IDENTITY_MAX + 1];
        leader_t me;
        config.identity = names[i];
        ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
        leader_tick(&me);
        leader_get_leader(&me, name, sizeof name);
        EXPECT_STREQ(names[i], name);
        EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
    }
}

UTEST(identity, is_copied_with_the_rest_of_the_config) {
    leader_config config = good_config();
    char given[] = "duck", name[16];
    leader_t me;
    config.identity = given;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    memset(given, 'x', sizeof given);
    memset(&config, 0xff, sizeof config);
    leader_tick(&me);
    EXPECT_TRUE(leader_is_leader(&me));
    leader_get_leader(&me, name, sizeof name);
    EXPECT_STREQ("duck", name);
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

/* ---- times ------------------------------------------------------------------------------------- */

static int64_t *time_field(leader_config *config, int which, const char **name) {
    switch (which) {
        case 0: *name = "lease_ms"; return &config->lease_ms;
        case 1: *name = "renew_deadline_ms"; return &config->renew_deadline_ms;
        case 2: *name = "renew_ms"; return &config->renew_ms;
        case 3: *name = "renew_retry_ms"; return &config->renew_retry_ms;
        case 4: *name = "retry_ms"; return &config->retry_ms;
        case 5: *name = "retry_max_ms"; return &config->retry_max_ms;
        case 6: *name = "request_timeout_ms"; return &config->request_timeout_ms;
        case 7: *name = "drain_timeout_ms"; return &config->drain_timeout_ms;
        default: return NULL;
    }
}

UTEST(times, negative_or_absurd_are_refused_by_field_and_value) {
    static const int64_t wrong[] = {-1, INT64_MIN, INT64_MAX, INT64_MAX / 2,
                                    INT64_C(1000) * 86400 * 3650 + 1};
    const char *name;
    char value[32];
    size_t i;
    int field;
    for (field = 0; field < 8; field++) {
        for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            leader_config config = good_config();
            *time_field(&config, field, &name) = wrong[i];
            snprintf(value, sizeof value, "%lld", (long long)wrong[i]);
            refused(utest_result, &config, name, value);
        }
    }
}

UTEST(times, the_renew_deadline_must_be_less_than_the_lease) {
    leader_config config = good_config();
    config.lease_ms = 9000;
    config.renew_deadline_ms = 9000;
    refused(utest_result, &config, "renew_deadline_ms (9000)", "lease_ms (9000)");
    config.renew_deadline_ms = 9001;
    refused(utest_result, &config, "renew_deadline_ms (9001)", "lease_ms (9000)");
    config.renew_deadline_ms = 8999;
    accepted(utest_result, &config);
    config = good_config();
    config.renew_deadline_ms = 15000;            // against the default
    refused(utest_result, &config, "renew_deadline_ms (15000)", "lease_ms (15000)");
}

UTEST(times, renewal_must_come_before_the_renew_deadline) {
    leader_config config = good_config();
    config.renew_deadline_ms = 6000;
    config.renew_ms = 6000;
    refused(utest_result, &config, "renew_ms (6000)", "renew_deadline_ms (6000)");
    config.renew_ms = 7000;
    refused(utest_result, &config, "renew_ms (7000)", "renew_deadline_ms (6000)");
    config = good_config();
    config.renew_deadline_ms = 5000;             // the default renewal is at 5000
    refused(utest_result, &config, "renew_ms (5000)", "renew_deadline_ms (5000)");
}

UTEST(times, the_retry_ceiling_must_not_be_below_the_retry) {
    leader_config config = good_config();
    config.retry_ms = 3000;
    config.retry_max_ms = 2999;
    refused(utest_result, &config, "retry_max_ms (2999)", "retry_ms (3000)");
    config.retry_max_ms = 3000;
    accepted(utest_result, &config);
    config.retry_ms = 90000;                     // above the default ceiling, which then gives way
    config.retry_max_ms = 0;
    accepted(utest_result, &config);
}

UTEST(times, a_request_must_fit_between_renewal_and_deadline) {
    leader_config config = good_config();
    config.request_timeout_ms = 5001;
    refused(utest_result, &config, "request_timeout_ms (5001)", "renew_deadline_ms (10000)");
    config.request_timeout_ms = 5000;
    accepted(utest_result, &config);
}

UTEST(times, the_retries_must_fit_between_renewal_and_deadline) {
    leader_config config = good_config();
    config.renew_retry_ms = 1000;                // 1000 + 2000 + 4000 in 5000
    config.renew_retries = 3;
    refused(utest_result, &config, "renew_retry_ms (1000)", "renew_retries (3)");
    config.renew_retries = 2;                    // 1000 + 2000
    accepted(utest_result, &config);
    config.renew_retries = -1;                   // until the deadline, whatever fits
    accepted(utest_result, &config);
    config.renew_retry_ms = 0;
    config.renew_retries = 1000;
    refused(utest_result, &config, "renew_retries (1000)", "renew_deadline_ms (10000)");
}

UTEST(times, the_number_of_retries_is_minus_two_to_a_thousand) {
    leader_config config = good_config();
    config.renew_retries = -3;
    refused(utest_result, &config, "renew_retries", "-3");
    config.renew_retries = INT_MIN;
    refused(utest_result, &config, "renew_retries", "-2147483648");
    config.renew_retries = 1001;
    refused(utest_result, &config, "renew_retries", "1001");
    config.renew_retries = INT_MAX;
    refused(utest_result, &config, "renew_retries", "2147483647");
}

UTEST(times, a_lease_too_short_to_be_renewed_is_refused_by_its_own_name) {
    leader_config config = good_config();
    char value[32];
    int64_t lease;
    for (lease = 1; lease < 30; lease++) {
        config.lease_ms = lease;
        snprintf(value, sizeof value, "lease_ms (%d) is too short", (int)lease);
        refused(utest_result, &config, value, "");
    }
    for (; lease < 200; lease++) {               // and from there on the defaults fit, whatever the rounding
        config.lease_ms = lease;
        accepted(utest_result, &config);
    }
}

UTEST(times, of_ten_years_are_accepted_and_do_not_overflow) {
    leader_config config = good_config();
    const char *name;
    leader_t me;
    int field;
    for (field = 0; field < 8; field++) {
        if (field == 1 || field == 2 || field == 3 || field == 6) continue;  // these are bounded by the lease
        *time_field(&config, field, &name) = INT64_C(1000) * 86400 * 3650;
    }
    ASSERT_EQ_MSG(LEADER_OK, leader_init(&me, &config), leader_error(&me));
    leader_tick(&me);
    EXPECT_TRUE(leader_is_leader(&me));
    EXPECT_EQ(INT64_C(1000) * 86400 * 3650 / 3 * 2, leader_remaining_ms(&me));
    leader_resign(&me, INT64_MAX);
    pass(&me, 1000);
    EXPECT_FALSE(leader_is_leader(&me));
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

/* ---- the backend ------------------------------------------------------------------------------- */

UTEST(backend, without_a_required_function_is_refused_by_its_name) {
    leader_config config = good_config();
    config.backend.acquire = NULL;
    refused(utest_result, &config, "backend.acquire", "");
    config = good_config();
    config.backend.renew = NULL;
    refused(utest_result, &config, "backend.renew", "");
    config = good_config();
    config.backend.release = NULL;
    refused(utest_result, &config, "backend.release", "");
}

UTEST(backend, with_nothing_but_self_is_a_mistake_and_not_a_single_node) {
    leader_config config = good_config();
    memset(&config.backend, 0, sizeof config.backend);
    config.backend.self = &world;
    refused(utest_result, &config, "backend.acquire", "");
}

UTEST(backend, an_observer_needs_observe_and_others_do_not) {
    leader_config config = good_config();
    config.backend.observe = NULL;
    accepted(utest_result, &config);
    config.observe_only = true;
    refused(utest_result, &config, "backend.observe", "observe_only");
    config.backend.observe = fake_observe;
    accepted(utest_result, &config);
}

UTEST(backend, all_the_optional_functions_are_optional) {
    leader_config config = good_config();
    leader_t me;
    config.backend.observe = NULL;
    config.backend.open = NULL;
    config.backend.close = NULL;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    leader_tick(&me);
    EXPECT_TRUE(leader_is_leader(&me));
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST(backend, whose_open_finds_a_mistake_is_refused_in_its_words) {
    leader_config config = good_config();
    world.wrong = "pond_depth (-3) is negative";
    refused(utest_result, &config, "pond_depth (-3) is negative", "");
}

UTEST(backend, is_opened_once_by_init_and_closed_once_by_close) {
    leader_config config = good_config();
    leader_t me;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    EXPECT_EQ(1, world.opens);
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
    EXPECT_EQ(1, world.opens);
    EXPECT_EQ(1, world.closes);
}

UTEST(backend, forgotten_is_a_single_node_with_one_warning) {
    leader_config config = good_config();
    leader_t me;
    memset(&config.backend, 0, sizeof config.backend);
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    pass(&me, 60000);
    EXPECT_TRUE(leader_is_leader(&me));
    EXPECT_EQ((uint64_t)1, leader_token(&me));
    EXPECT_EQ(1, world.warnings);
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
    EXPECT_EQ(1, world.warnings);
}

UTEST(backend, single_node_on_purpose_is_silent) {
    leader_config config = good_config();
    leader_t me;
    config.backend = leader_single_backend();
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    pass(&me, 60000);
    EXPECT_TRUE(leader_is_leader(&me));
    EXPECT_EQ((uint64_t)1, leader_token(&me));
    EXPECT_EQ(0, world.warnings);
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
    EXPECT_EQ(0, world.warnings);
}

/* ---- leader_init itself ------------------------------------------------------------------------ */

UTEST(init, asks_the_store_nothing_and_calls_nobody) {
    leader_config config = good_config();
    leader_t me;
    config.is_healthy = is_healthy;
    config.is_drained = is_drained;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    EXPECT_EQ(0, world.sent);
    EXPECT_EQ(0, world.callbacks);
    EXPECT_TRUE(leader_get_state(&me) == LEADER_STATE_FOLLOWER);
    EXPECT_FALSE(leader_is_leader(&me));
    EXPECT_EQ(0, leader_due_ms(&me));
    EXPECT_STREQ("", leader_error(&me));
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST(init, refuses_null) {
    leader_config config = good_config();
    leader_t me;
    memset(&me, 0xa5, sizeof me);
    EXPECT_EQ(LEADER_E_CONFIG, leader_init(&me, NULL));
    EXPECT_TRUE(strstr(leader_error(&me), "config"));
    answers_nothing(utest_result, &me);
    EXPECT_EQ(LEADER_E_CONFIG, leader_init(NULL, &config));
}

UTEST(init, refuses_structs_of_another_size_or_version) {
    static const struct {
        int me, config, version;
    } off[] = {{-8, 0, 0}, {8, 0, 0}, {0, -8, 0}, {0, 8, 0}, {0, 0, 1}, {0, 0, -1}, {-64, -8, -1}};
    leader_config config = good_config();
    struct { leader_t me; unsigned char beyond[64]; } place;
    size_t i, size, k;
    for (i = 0; i < sizeof off / sizeof off[0]; i++) {
        const unsigned char *bytes = (const unsigned char *)&place;
        memset(&place, 0xa5, sizeof place);
        size = (size_t)((int)sizeof place.me + off[i].me);
        EXPECT_EQ(LEADER_E_CONFIG,
                  leader_init_(&place.me, size, &config, (size_t)((int)sizeof config + off[i].config),
                               LEADER_VERSION_NUM + off[i].version));
        EXPECT_TRUE(strstr(leader_error(&place.me), "version"));
        EXPECT_EQ(0, world.opens);
        for (k = size < sizeof place.me ? size : sizeof place.me; k < sizeof place; k++)
            ASSERT_EQ(0xa5, bytes[k]);
        EXPECT_FALSE(leader_is_leader(&place.me));
        EXPECT_TRUE(leader_is_stopped(&place.me));
        EXPECT_EQ(LEADER_OK, leader_close(&place.me, 0));
    }
}

UTEST(init, works_again_after_close_with_a_fresh_count) {
    leader_config config = good_config();
    leader_t me;
    int round;
    for (round = 1; round <= 3; round++) {
        ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
        leader_tick(&me);
        EXPECT_TRUE(leader_is_leader(&me));
        EXPECT_EQ((uint64_t)1, leader_get_stats(&me).terms);
        EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
        EXPECT_EQ(round, world.starts);
        EXPECT_EQ(round, world.stops);
        answers_nothing(utest_result, &me);
    }
}

UTEST(init, works_after_a_refusal_and_the_error_is_gone) {
    leader_config config = good_config();
    leader_t me;
    config.lease_ms = -5;
    EXPECT_EQ(LEADER_E_CONFIG, leader_init(&me, &config));
    config.lease_ms = 0;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    EXPECT_STREQ("", leader_error(&me));
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST(init, gives_every_election_a_nonce_of_its_own) {
    uint64_t seen[64];
    int i, k;
    for (i = 0; i < 64; i++) {
        leader_config config = good_config();
        leader_t me;
        ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
        leader_tick(&me);
        seen[i] = world.last.nonce;
        EXPECT_NE((uint64_t)0, seen[i]);
        for (k = 0; k < i; k++) EXPECT_NE(seen[k], seen[i]);
        EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
    }
}

/* ---- defaults: as the backend is told, and as they show in what happens ------------------------ */

UTEST(defaults, are_those_of_the_documentation) {
    leader_config config = good_config();
    leader_t me;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    EXPECT_EQ((int64_t)15000, world.effective.lease_ms);
    EXPECT_EQ((int64_t)10000, world.effective.renew_deadline_ms);
    EXPECT_EQ((int64_t)5000, world.effective.renew_ms);
    EXPECT_EQ((int64_t)500, world.effective.renew_retry_ms);
    EXPECT_EQ(-1, world.effective.renew_retries);
    EXPECT_EQ((int64_t)2000, world.effective.retry_ms);
    EXPECT_EQ((int64_t)60000, world.effective.retry_max_ms);
    EXPECT_EQ((int64_t)2500, world.effective.request_timeout_ms);
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST(defaults, follow_a_shorter_lease) {
    leader_config config = good_config();
    leader_t me;
    config.lease_ms = 3000;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    EXPECT_EQ((int64_t)2000, world.effective.renew_deadline_ms);
    EXPECT_EQ((int64_t)1000, world.effective.renew_ms);
    EXPECT_EQ((int64_t)100, world.effective.renew_retry_ms);
    EXPECT_EQ((int64_t)1000, world.effective.retry_ms);
    EXPECT_EQ((int64_t)500, world.effective.request_timeout_ms);
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST(defaults, give_way_to_what_is_set) {
    leader_config config = good_config();
    leader_t me;
    config.lease_ms = 30000;
    config.renew_deadline_ms = 21000;
    config.renew_ms = 10000;
    config.renew_retry_ms = 700;
    config.renew_retries = 2;
    config.retry_ms = 4000;
    config.retry_max_ms = 9000;
    config.request_timeout_ms = 1234;
    config.drain_timeout_ms = 77;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    EXPECT_EQ((int64_t)30000, world.effective.lease_ms);
    EXPECT_EQ((int64_t)21000, world.effective.renew_deadline_ms);
    EXPECT_EQ((int64_t)10000, world.effective.renew_ms);
    EXPECT_EQ((int64_t)700, world.effective.renew_retry_ms);
    EXPECT_EQ(2, world.effective.renew_retries);
    EXPECT_EQ((int64_t)4000, world.effective.retry_ms);
    EXPECT_EQ((int64_t)9000, world.effective.retry_max_ms);
    EXPECT_EQ((int64_t)1234, world.effective.request_timeout_ms);
    EXPECT_EQ((int64_t)77, world.effective.drain_timeout_ms);
    leader_tick(&me);
    EXPECT_EQ((int64_t)30000, world.last.lease_ms);
    EXPECT_EQ((int64_t)1234, world.last.timeout_ms);
    EXPECT_EQ((int64_t)21000, leader_remaining_ms(&me));
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST(defaults, a_leader_renews_every_five_seconds_and_may_lead_for_ten) {
    leader_config config = good_config();
    leader_t me;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    leader_tick(&me);
    EXPECT_EQ((int64_t)15000, world.last.lease_ms);
    EXPECT_EQ((int64_t)2500, world.last.timeout_ms);
    EXPECT_EQ((int64_t)10000, leader_remaining_ms(&me));
    pass(&me, 20000);
    ASSERT_EQ(5, world.sent);
    EXPECT_EQ((int64_t)5000, world.sent_ms[1] - world.sent_ms[0]);
    EXPECT_EQ((int64_t)20000, world.sent_ms[4] - world.sent_ms[0]);
    world.now_ms += 9999;
    EXPECT_TRUE(leader_is_leader(&me));
    world.now_ms += 1;
    EXPECT_FALSE(leader_is_leader(&me));
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST(defaults, three_retries_come_after_500_1000_2000_ms) {
    leader_config config = good_config();
    leader_t me;
    config.renew_retries = 3;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    leader_tick(&me);
    world.renew_answer = LEADER_E_IO;
    world.drained = false;
    pass(&me, 8499);
    EXPECT_TRUE(leader_is_leader(&me));
    EXPECT_EQ(3, world.renews);
    pass(&me, 1);
    EXPECT_FALSE(leader_is_leader(&me));
    EXPECT_EQ(LEADER_E_IO, world.why_stopped);
    EXPECT_EQ((int64_t)5000, world.sent_ms[1] - world.sent_ms[0]);
    EXPECT_EQ((int64_t)500, world.sent_ms[2] - world.sent_ms[1]);
    EXPECT_EQ((int64_t)1000, world.sent_ms[3] - world.sent_ms[2]);
    EXPECT_EQ((int64_t)2000, world.sent_ms[4] - world.sent_ms[3]);
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST(defaults, a_failing_renewal_is_tried_until_the_deadline) {
    leader_config config = good_config();
    leader_t me;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    leader_tick(&me);
    world.renew_answer = LEADER_E_IO;
    pass(&me, 9999);
    EXPECT_TRUE(leader_is_leader(&me));
    pass(&me, 1);
    EXPECT_FALSE(leader_is_leader(&me));
    EXPECT_EQ(LEADER_E_TIMEOUT, world.why_stopped);
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST(defaults, no_retries_at_all_can_be_asked_for) {
    leader_config config = good_config();
    leader_t me;
    config.renew_retries = LEADER_NO_RETRIES;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    leader_tick(&me);
    world.renew_answer = LEADER_E_IO;
    pass(&me, 5000);
    EXPECT_FALSE(leader_is_leader(&me));
    EXPECT_EQ(1, world.renews);
    EXPECT_EQ(LEADER_E_IO, world.why_stopped);
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST(defaults, a_standby_asks_every_two_seconds) {
    leader_config config = good_config();
    leader_t me;
    int i;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    world.acquire_answer = LEADER_HELD;
    pass(&me, 60000);
    ASSERT_EQ(31, world.acquires);
    for (i = 1; i < 31; i++) EXPECT_EQ((int64_t)2000, world.sent_ms[i] - world.sent_ms[i - 1]);
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST(defaults, errors_of_the_store_back_off_from_two_seconds_to_a_minute) {
    leader_config config = good_config();
    int64_t base = 2000;
    leader_t me;
    int i;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    world.acquire_answer = LEADER_E_STORE;
    pass(&me, 1000000);
    ASSERT_GT(world.sent, 10);
    for (i = 1; i < 10; i++) {
        EXPECT_GE(world.sent_ms[i] - world.sent_ms[i - 1], base);
        EXPECT_LE(world.sent_ms[i] - world.sent_ms[i - 1], base + base / 4);      // jitter only adds
        base = base * 2 > 60000 ? 60000 : base * 2;
    }
    EXPECT_EQ((int64_t)60000, base);
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST(defaults, draining_has_no_limit) {
    leader_config config = good_config();
    leader_t me;
    config.is_drained = is_drained;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    leader_tick(&me);
    world.drained = false;
    leader_resign(&me, 1);
    pass(&me, 3600000);
    EXPECT_TRUE(leader_get_state(&me) == LEADER_STATE_DRAINING);
    EXPECT_EQ(0, world.releases);
    EXPECT_GT(leader_remaining_ms(&me), (int64_t)0);
    world.drained = true;
    pass(&me, 1000);
    EXPECT_EQ(1, world.releases);
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST(defaults, the_lease_is_released_on_stop_unless_it_is_to_be_kept) {
    int keep;
    for (keep = 0; keep < 2; keep++) {
        leader_config config = good_config();
        leader_t me;
        config.keep_lease_on_stop = keep != 0;
        ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
        leader_tick(&me);
        EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
        EXPECT_EQ(1 - keep, world.releases);
        EXPECT_EQ(1, world.stops);
    }
}

/* ---- leader_make_identity ---------------------------------------------------------------------- */

UTEST(make_identity, has_prefix_host_process_and_a_random_part) {
    char name[LEADER_IDENTITY_MAX + 1], pid[32];
    EXPECT_TRUE(leader_make_identity(name, sizeof name, "worker") == name);
    EXPECT_STRNEQ("worker-", name, (size_t)7);
    snprintf(pid, sizeof pid, "-%ld-", (long)getpid());
    EXPECT_TRUE_MSG(strstr(name, pid), name);
    EXPECT_EQ(strlen(name) - 8, (size_t)(strrchr(name, '-') + 1 - name));
}

UTEST(make_identity, takes_no_prefix_as_well) {
    char name[LEADER_IDENTITY_MAX + 1];
    leader_make_identity(name, sizeof name, NULL);
    EXPECT_GT(strlen(name), (size_t)10);
    EXPECT_NE('-', name[0]);
    leader_make_identity(name, sizeof name, "");
    EXPECT_GT(strlen(name), (size_t)10);
    EXPECT_NE('-', name[0]);
}

UTEST(make_identity, is_different_every_time) {
    static char names[500][64];
    int i, k;
    for (i = 0; i < 500; i++) {
        leader_make_identity(names[i], sizeof names[i], "w");
        for (k = 0; k < i; k++) ASSERT_STRNE(names[k], names[i]);
    }
}

UTEST(make_identity, is_different_in_a_forked_child) {
    char mine[LEADER_IDENTITY_MAX + 1], its[LEADER_IDENTITY_MAX + 1] = "";
    int ends[2], status = -1;
    pid_t child;
    ASSERT_EQ(0, pipe(ends));
    fflush(stdout);
    child = fork();
    ASSERT_GE((int)child, 0);
    if (child == 0) {
        leader_make_identity(its, sizeof its, "w");
        _exit(write(ends[1], its, sizeof its) == (ssize_t)sizeof its ? 0 : 1);
    }
    leader_make_identity(mine, sizeof mine, "w");
    EXPECT_EQ((ssize_t)sizeof its, read(ends[0], its, sizeof its));
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_STRNE(mine, its);
    close(ends[0]);
    close(ends[1]);
}

UTEST(make_identity, cuts_a_long_prefix_and_keeps_what_makes_it_unique) {
    char prefix[600], one[LEADER_IDENTITY_MAX + 1], two[LEADER_IDENTITY_MAX + 1], wide[1000], pid[32];
    leader_config config = good_config();
    memset(prefix, 'p', sizeof prefix);
    prefix[sizeof prefix - 1] = '\0';
    leader_make_identity(one, sizeof one, prefix);
    leader_make_identity(two, sizeof two, prefix);
    snprintf(pid, sizeof pid, "-%ld-", (long)getpid());
    EXPECT_LE(strlen(one), (size_t)LEADER_IDENTITY_MAX);
    EXPECT_TRUE_MSG(strstr(one, pid), one);
    EXPECT_STRNE(one, two);
    leader_make_identity(wide, sizeof wide, prefix);  // however large the buffer: what leader_init accepts
    EXPECT_LE(strlen(wide), (size_t)LEADER_IDENTITY_MAX);
    config.identity = wide;
    accepted(utest_result, &config);
}

UTEST(make_identity, cuts_at_whole_characters) {
    char prefix[512] = "", name[LEADER_IDENTITY_MAX + 1];
    size_t cap;
    while (strlen(prefix) + 4 < sizeof prefix) strcat(prefix, "\xf0\x9f\xa6\x86");
    for (cap = 40; cap <= sizeof name; cap++) {
        leader_config config = good_config();
        leader_make_identity(name, cap, prefix);
        config.identity = name;
        accepted(utest_result, &config);
    }
}

UTEST(make_identity, fits_any_buffer_and_writes_nothing_beyond_it) {
    char name[80], other[80];
    size_t cap, i;
    for (cap = 0; cap <= 64; cap++) {
        memset(name, '#', sizeof name);
        EXPECT_TRUE(leader_make_identity(name, cap, "prefix") == name);
        for (i = cap; i < sizeof name; i++) ASSERT_EQ('#', name[i]);
        if (cap == 0) continue;
        ASSERT_TRUE(memchr(name, '\0', cap));
        EXPECT_EQ(cap < 2, name[0] == '\0');
        leader_make_identity(other, cap, "prefix");
        if (cap >= 9) EXPECT_STRNE(name, other);           // room for the random part
    }
}

/* ---- texts ------------------------------------------------------------------------------------- */

UTEST(texts, every_result_has_one_of_its_own) {
    static const leader_result all[] = {
        LEADER_OK,          LEADER_PENDING,     LEADER_HELD,      LEADER_LOST,   LEADER_UNHEALTHY,
        LEADER_E_CONFIG,    LEADER_E_IO,        LEADER_E_TIMEOUT, LEADER_E_AUTH, LEADER_E_CORRUPT,
        LEADER_E_DUPLICATE, LEADER_E_REENTRANT, LEADER_E_STATE};
    static const int numbers[] = {0, 1, 2, 3, 4, -1, -2, -3, -4, -5, -6, -7, -8};
    size_t i, k;
    for (i = 0; i < sizeof all / sizeof all[0]; i++) {
        EXPECT_EQ(numbers[i], (int)all[i]);
        EXPECT_GT(strlen(leader_strerror(all[i])), (size_t)0);
        EXPECT_STRNE(leader_strerror((leader_result)99), leader_strerror(all[i]));
        for (k = 0; k < i; k++) EXPECT_STRNE(leader_strerror(all[k]), leader_strerror(all[i]));
    }
}

UTEST(texts, every_state_has_one_of_its_own) {
    static const leader_state all[] = {LEADER_STATE_NONE,     LEADER_STATE_FOLLOWER,  LEADER_STATE_LEADER,
                                       LEADER_STATE_DRAINING, LEADER_STATE_RELEASING, LEADER_STATE_STOPPED};
    size_t i, k;
    EXPECT_EQ(0, (int)LEADER_STATE_NONE);
    for (i = 0; i < sizeof all / sizeof all[0]; i++) {
        EXPECT_GT(strlen(leader_state_name(all[i])), (size_t)0);
        EXPECT_STRNE(leader_state_name((leader_state)99), leader_state_name(all[i]));
        for (k = 0; k < i; k++) EXPECT_STRNE(leader_state_name(all[k]), leader_state_name(all[i]));
    }
}

UTEST(texts, of_unknown_values_say_so) {
    EXPECT_TRUE(strstr(leader_strerror((leader_result)99), "unknown"));
    EXPECT_TRUE(strstr(leader_strerror((leader_result)-99), "unknown"));
    EXPECT_TRUE(strstr(leader_state_name((leader_state)99), "unknown"));
}

#if !defined(_WIN32)
UTEST(clock, of_an_apple_steps_by_one_ms_and_never_drifts) {
    const uint64_t per_ms = 24000;               // 24 MHz: a tick is 125/3 ns
    EXPECT_EQ(0, leader_ticks_ms_(per_ms - 1, 125, 3));
    EXPECT_EQ(1, leader_ticks_ms_(per_ms, 125, 3));
    const uint64_t ten_years = per_ms * UINT64_C(1000) * 86400 * 3650;
    for (uint64_t i = 0; i < 100; i++) {
        EXPECT_EQ((int64_t)(ten_years / per_ms + i), leader_ticks_ms_(ten_years + i * per_ms, 125, 3));
        EXPECT_EQ((int64_t)(ten_years / per_ms + i),
                  leader_ticks_ms_(ten_years + i * per_ms + per_ms - 1, 125, 3));
    }
    EXPECT_EQ(INT64_C(86400000), leader_ticks_ms_(UINT64_C(86400000000000), 1, 1));  // Intel: a tick is 1 ns
}
#endif

UTEST(texts, a_time_is_written_in_utc_with_six_digits_whatever_the_year) {
    char text[28];
    int64_t day;
    leader_time_text_(text, 0);
    EXPECT_STREQ("1970-01-01T00:00:00.000000Z", text);
    leader_time_text_(text, -1);
    EXPECT_STREQ("1970-01-01T00:00:00.000000Z", text);
    leader_time_text_(text, INT64_MIN);
    EXPECT_STREQ("1970-01-01T00:00:00.000000Z", text);
    leader_time_text_(text, INT64_C(4102444800000007));
    EXPECT_STREQ("2100-01-01T00:00:00.000007Z", text);
    for (day = 0; day < 90000; day++) {          // 1970 to 2216, against the C library
        const time_t seconds = (time_t)(day * 86400 + day * 7919 % 86400);
        char want[28];
        struct tm parts;
        gmtime_r(&seconds, &parts);
        strftime(want, sizeof want, "%Y-%m-%dT%H:%M:%S.012345Z", &parts);
        leader_time_text_(text, (int64_t)seconds * 1000000 + 12345);
        ASSERT_STREQ(want, text);
    }
}

UTEST(texts, the_version_is_one) {
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", LEADER_VERSION_NUM / 10000, LEADER_VERSION_NUM / 100 % 100,
             LEADER_VERSION_NUM % 100);
    EXPECT_STREQ(text, LEADER_VERSION);
}

/* ---- elections that are not open, and sizes ---------------------------------------------------- */

UTEST(not_open, zeroed_memory_answers_nothing) {
    leader_t me;
    memset(&me, 0, sizeof me);
    answers_nothing(utest_result, &me);
    EXPECT_STREQ("", leader_error(&me));
}

UTEST(not_open, closed_memory_answers_nothing) {
    leader_config config = good_config();
    leader_t me;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    leader_tick(&me);
    EXPECT_TRUE(leader_is_leader(&me));
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
    answers_nothing(utest_result, &me);
    EXPECT_STREQ("", leader_error(&me));
}

UTEST(not_open, memory_of_a_failed_init_answers_nothing) {
    leader_config config = good_config();
    leader_t me;
    config.identity = NULL;
    EXPECT_EQ(LEADER_E_CONFIG, leader_init(&me, &config));
    answers_nothing(utest_result, &me);
}

UTEST(questions, the_name_of_the_leader_is_cut_to_the_buffer_as_by_snprintf) {
    leader_config config = good_config();
    char name[5] = "####";
    leader_t me;
    config.identity = "duckling";
    ASSERT_EQ(LEADER_OK, leader_init(&me, &config));
    leader_tick(&me);
    EXPECT_EQ(8, leader_get_leader(&me, NULL, 0));
    EXPECT_EQ(8, leader_get_leader(&me, name, 3));
    EXPECT_STREQ("du", name);
    EXPECT_EQ('#', name[3]);
    EXPECT_EQ(LEADER_OK, leader_close(&me, 0));
}

UTEST(size, an_election_takes_at_most_four_kibibytes) {
    EXPECT_LE(sizeof(leader_t), (size_t)4096);
}

UTEST_MAIN()
