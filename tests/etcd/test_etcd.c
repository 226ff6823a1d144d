/* The etcd store on real members: one, and three of which some are killed, stopped or cut off from their
   quorum. What every store must do is in tests/store; here is what only etcd can do. */
#define LEADER_WITH_ETCD
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/etcd/etcd_server.h"
#include "tests/tools/utest.h"

UTEST_MAIN()

enum { LEASE_MS = 3000, LIMIT_MS = 60000 };

typedef struct candidate {
    leader_t me;
    leader_etcd store;
    char log[4000];
    bool open;
} candidate;

static candidate all[2];
static int overlaps;
static uint64_t last_token;
static int token_errors;

static void keep_log(void *user, leader_level level, const char *text) {
    candidate *c = (candidate *)user;
    size_t n = strlen(c->log);
    if (level <= LEADER_LOG_WARN) {
        snprintf(c->log + n, sizeof c->log - n, "%s\n", text);
    }
}

static leader_etcd_config config_of(const etcd_cluster *cluster) {
    leader_etcd_config where;
    memset(&where, 0, sizeof where);
    where.endpoints = cluster->endpoints;
    where.name = "job";
    return where;
}

static void on_started(void *user, uint64_t token) {
    (void)user;
    if (token <= last_token) {
        token_errors++;
    }
    last_token = token;
}

static leader_result join(int i, const leader_etcd_config *where) {
    leader_config config;
    memset(&config, 0, sizeof config);
    memset(&all[i], 0, sizeof all[i]);
    config.identity = i == 0 ? "ann" : "bob";
    config.lease_ms = LEASE_MS;
    config.retry_max_ms = LEASE_MS; // a cluster that was broken for long is found healed soon
    config.on_log = keep_log;
    config.on_started_leading = on_started;
    config.user = &all[i];
    config.backend = leader_etcd_backend(&all[i].store, where);
    leader_result result = leader_init(&all[i].me, &config);
    all[i].open = result == LEADER_OK;
    return result;
}

/* One turn of everybody; the one place where two leaders would show. */
static void turn(void) {
    for (int i = 0; i < 2; i++) {
        if (all[i].open) {
            leader_tick(&all[i].me);
        }
    }
    if (leader_is_leader(&all[0].me) && leader_is_leader(&all[1].me)) {
        overlaps++;
    }
    usleep(2000);
}

static bool nobody(void) {
    return !leader_is_leader(&all[0].me) && !leader_is_leader(&all[1].me);
}

static bool somebody(void) {
    return !nobody();
}

static bool ann(void) {
    return leader_is_leader(&all[0].me);
}

static bool bob(void) {
    return leader_is_leader(&all[1].me);
}

static bool reaches_within(bool (*state)(void), int64_t limit_ms) {
    patience limit = patience_ms(limit_ms);
    while (!state()) {
        if (!patience_left(&limit)) {
            return false;
        }
        turn();
    }
    return true;
}

static bool reaches(bool (*state)(void)) {
    return reaches_within(state, LIMIT_MS);
}

static bool ann_is_refused(void) {
    return leader_get_stats(&all[0].me).last_error == LEADER_E_AUTH;
}

static bool bob_is_refused(void) {
    return leader_get_stats(&all[1].me).last_error == LEADER_E_AUTH;
}

static void run_for(int64_t ms) {
    int64_t end = leader_clock_ms_() + ms;
    while (leader_clock_ms_() < end) {
        turn();
    }
}

static void begin(void) {
    overlaps = 0;
    last_token = 0;
    token_errors = 0;
    memset(all, 0, sizeof all);
}

static void end(void) {
    for (int i = 0; i < 2; i++) {
        if (all[i].open) {
            leader_close(&all[i].me, 0);
        }
        all[i].open = false;
    }
}

/* ---- three members ------------------------------------------------------------------------------------- */

/* The members elect a leader of their own; then the record of a candidate that is gone lasts for a lease. */
enum { ELECTION_MS = 3000, FAILOVER_MS = LEASE_MS + ELECTION_MS };

static etcd_cluster three;
static pid_t load;

/* Others write all the time, through every member. */
static void load_start(void) {
    fflush(NULL);
    load = fork();
    if (load == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (unsigned i = 0;; i++) {
            char body[100];
            snprintf(body, sizeof body, "{\"key\":\"bG9hZA==\",\"value\":\"%04u\"}", i % 10000);
            etcd_post(&three, (int)(i % 3), "/v3/kv/put", body);
            usleep(1000);
        }
    }
}

static void load_end(void) {
    kill(load, SIGKILL);
    waitpid(load, NULL, 0);
}

UTEST(three_members, elect_through_the_death_and_the_stop_of_their_leader) {
    begin();
    ASSERT_TRUE(etcd_start(&three, 3, false));
    load_start();
    leader_etcd_config where = config_of(&three);
    ASSERT_EQ(LEADER_OK, join(0, &where));
    ASSERT_EQ(LEADER_OK, join(1, &where));
    ASSERT_TRUE(reaches(somebody));

    int gone = etcd_leader(&three);
    ASSERT_GE(gone, 0);
    etcd_signal(&three, gone, SIGKILL);
    run_for(LEASE_MS);
    ASSERT_TRUE(reaches_within(somebody, FAILOVER_MS));
    etcd_run(&three, gone);
    ASSERT_TRUE(etcd_wait(&three, gone));

    int stopped = etcd_leader(&three);
    ASSERT_GE(stopped, 0);
    etcd_signal(&three, stopped, SIGSTOP);
    run_for(LEASE_MS);
    ASSERT_TRUE(reaches_within(somebody, FAILOVER_MS));
    etcd_signal(&three, stopped, SIGCONT);
    ASSERT_EQ(0, overlaps);
    ASSERT_EQ(0, token_errors);
}

UTEST(three_members, a_candidate_and_their_leader_die_together) {
    ASSERT_TRUE(reaches(somebody));
    int led = ann() ? 0 : 1;
    int gone = etcd_leader(&three);
    ASSERT_GE(gone, 0);
    etcd_signal(&three, gone, SIGKILL);
    all[led].open = false; // is never ticked again
    ASSERT_TRUE(reaches_within(led == 0 ? bob : ann, FAILOVER_MS + LEASE_MS));
    all[led].open = true;
    etcd_run(&three, gone);
    ASSERT_TRUE(etcd_wait(&three, gone));
    ASSERT_EQ(0, overlaps);
    ASSERT_EQ(0, token_errors);
}

UTEST(three_members, without_a_quorum_nobody_leads_for_long) {
    ASSERT_TRUE(reaches(somebody));
    etcd_signal(&three, 0, SIGSTOP);
    etcd_signal(&three, 1, SIGSTOP);
    ASSERT_TRUE(reaches(nobody));
    run_for(2 * LEASE_MS);
    ASSERT_TRUE(nobody());
    etcd_signal(&three, 0, SIGCONT);
    etcd_signal(&three, 1, SIGCONT);
    ASSERT_TRUE(reaches_within(somebody, FAILOVER_MS + 2 * LEASE_MS));
    load_end();
    ASSERT_EQ(0, overlaps);
    ASSERT_EQ(0, token_errors);
}

UTEST(three_members, a_dead_endpoint_first_in_the_list_does_not_matter) {
    end();
    etcd_signal(&three, 0, SIGKILL);
    begin();
    leader_etcd_config where = config_of(&three);
    ASSERT_EQ(LEADER_OK, join(0, &where));
    ASSERT_TRUE(reaches(somebody));
    end();
    etcd_stop(&three);
    ASSERT_EQ(0, overlaps);
}

/* ---- one member ---------------------------------------------------------------------------------------- */

static etcd_cluster one;

UTEST(one_member, hands_over_and_shows_a_record_that_people_can_read) {
    begin();
    ASSERT_TRUE(etcd_start(&one, 1, false));
    leader_etcd_config where = config_of(&one);
    ASSERT_EQ(LEADER_OK, join(0, &where));
    ASSERT_TRUE(reaches(ann));
    ASSERT_EQ(LEADER_OK, join(1, &where));
    run_for(300);
    leader_resign(&all[0].me, 60000);
    ASSERT_TRUE(reaches(bob));
    ASSERT_EQ(0, overlaps);
    ASSERT_EQ(0, token_errors);
    ASSERT_TRUE(strstr(etcd_post(&one, 0, "/v3/kv/range", "{\"key\":\"L2xlYWRlci9qb2I=\"}"),
                       "\"value\":\"ewogICJob2xkZXIi")
                != NULL); // {\n  "holder"
}

UTEST(one_member, a_new_cluster_behind_the_address_is_a_store_that_forgot) {
    ASSERT_TRUE(reaches(bob));
    char line[200];
    etcd_signal(&one, 0, SIGKILL);
    snprintf(line, sizeof line, "rm -rf '%s/m0'", one.directory);
    ASSERT_EQ(0, system(line));
    snprintf(one.token, sizeof one.token, "another");
    int64_t emptied_ms = leader_clock_ms_();
    etcd_run(&one, 0);
    ASSERT_TRUE(etcd_wait(&one, 0));
    leader_stop(&all[1].me); // the one that led is out of the way
    all[0].me.leave.pause_until_ms = LEADER_NEVER_;
    ASSERT_TRUE(reaches(ann));
    ASSERT_GE(leader_clock_ms_() - emptied_ms, LEASE_MS);
    ASSERT_TRUE(strstr(all[0].log, "the store had forgotten its holder") != NULL);
    ASSERT_EQ(0, overlaps);
    ASSERT_EQ(0, token_errors);
    end();
}

static bool logged_in_again(void) {
    return strcmp(all[0].store.auth, "void.1") != 0;
}

UTEST(one_member, users_log_in_and_log_in_again_when_their_token_is_void) {
    begin();
    ASSERT_TRUE(
        strstr(etcd_post(&one, 0, "/v3/auth/user/add", "{\"name\":\"root\",\"password\":\"r\"}"), "header")
        != NULL);
    etcd_post(&one, 0, "/v3/auth/role/add", "{\"name\":\"root\"}");
    etcd_post(&one, 0, "/v3/auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
    etcd_post(&one, 0, "/v3/auth/role/add", "{\"name\":\"app\"}");
    etcd_post(&one, 0, "/v3/auth/role/grant",
              "{\"name\":\"app\",\"perm\":{\"permType\":\"READWRITE\",\"key\":\"L2xlYWRlci9qb2I=\"}}");
    etcd_post(&one, 0, "/v3/auth/user/add", "{\"name\":\"app\",\"password\":\"secret\"}");
    etcd_post(&one, 0, "/v3/auth/user/grant", "{\"user\":\"app\",\"role\":\"app\"}");
    ASSERT_TRUE(strstr(etcd_post(&one, 0, "/v3/auth/enable", "{}"), "header") != NULL);

    leader_etcd_config where = config_of(&one);
    where.user = "app:secret";
    ASSERT_EQ(LEADER_OK, join(0, &where));
    ASSERT_TRUE(reaches(ann));
    snprintf(all[0].store.auth, sizeof all[0].store.auth, "void.1");
    ASSERT_TRUE(reaches(logged_in_again));
    ASSERT_TRUE(reaches(ann));
    ASSERT_EQ(0u, leader_get_stats(&all[0].me).failures_auth);

    where.user = "app:wrong";
    ASSERT_EQ(LEADER_OK, join(1, &where));
    ASSERT_TRUE(reaches(bob_is_refused));
    ASSERT_TRUE(strstr(all[1].log, "check user, password and the rights for this key") != NULL);
    leader_close(&all[1].me, 0);
    where.user = NULL;
    ASSERT_EQ(LEADER_OK, join(1, &where));
    ASSERT_TRUE(reaches(bob_is_refused));
    ASSERT_TRUE(strstr(all[1].log, "set user and password") != NULL);
    end();
    etcd_stop(&one);
}

UTEST(one_member, tls_needs_the_right_authority_and_certificate) {
    etcd_cluster secure;
    char ca[100];
    char cert[100];
    char key[100];
    begin();
    ASSERT_TRUE(etcd_start(&secure, 1, true));
    snprintf(ca, sizeof ca, "%s/ca.pem", secure.directory);
    snprintf(cert, sizeof cert, "%s/client.pem", secure.directory);
    snprintf(key, sizeof key, "%s/client.key", secure.directory);
    leader_etcd_config where = config_of(&secure);
    ASSERT_EQ(LEADER_OK, join(0, &where)); // the machine's own authorities do not know it
    ASSERT_TRUE(reaches(ann_is_refused));
    leader_close(&all[0].me, 0);
    where.ca_file = ca;
    where.cert_file = cert;
    where.key_file = key;
    ASSERT_EQ(LEADER_OK, join(0, &where));
    ASSERT_TRUE(reaches(ann));
    end();
    etcd_stop(&secure);
}

/* ---- settings ------------------------------------------------------------------------------------------ */

static void refused(int *utest_result, const leader_etcd_config *where, const char *text) {
    begin();
    ASSERT_EQ(LEADER_E_CONFIG, join(0, where));
    ASSERT_TRUE(strstr(leader_error(&all[0].me), text) != NULL);
}

UTEST(settings, that_are_wrong_name_the_field) {
    leader_etcd_config where;
    memset(&where, 0, sizeof where);
    refused(utest_result, &where, "name (of the election) is missing");
    where.name = "job";
    where.endpoints = "a,b,c,d,e,f";
    refused(utest_result, &where, "endpoints has more than 5 members");
    where.endpoints = "https://a,,b";
    refused(utest_result, &where, "endpoints: an address is empty");
    where.endpoints = "http://10.0.0.1:2379";
    refused(utest_result, &where, "http");
    where.endpoints = "ftp://a";
    refused(utest_result, &where, "server");
}

UTEST(settings, come_from_the_environment_of_etcdctl) {
    leader_etcd_config where;
    memset(&where, 0, sizeof where);
    ASSERT_EQ(LEADER_E_CONFIG, leader_etcd_config_from_env(&where));
    setenv("ETCDCTL_ENDPOINTS", "a:1,b:2", 1);
    setenv("ETCDCTL_USER", "me:secret", 1);
    setenv("ETCDCTL_CACERT", "/ca", 1);
    ASSERT_EQ(LEADER_OK, leader_etcd_config_from_env(&where));
    ASSERT_STREQ("a:1,b:2", where.endpoints);
    where.name = "job";
    leader_etcd store;
    leader_etcd_backend(&store, &where);
    ASSERT_STREQ("http://b:2", store.endpoints[1].url);
    ASSERT_STREQ("me", store.user);
    ASSERT_STREQ("secret", store.password);
    ASSERT_STREQ("/leader/job", store.key);
}

static void unlogged(void *core, leader_level level, const char *text) {
    (void)core;
    (void)level;
    (void)text;
}

UTEST(record, that_cannot_be_read_may_still_say_its_lease) {
    static const char text[] = "{\"holder\": \"a\", \"renewTime\": \"2026-11-16T01:28:19Z\","
                               " \"leaseDuration\": \"60s\", \"token\": -1}";
    static leader_etcd self;
    static leader_etcd_kv_ kv;
    leader_entry found;
    self.host.log = unlogged;
    kv.there = true;
    kv.modified = 7;
    kv.value_len = sizeof text - 1;
    memcpy(kv.value, text, sizeof text);
    ASSERT_EQ(LEADER_E_CORRUPT, leader_etcd_entry_(&self, &kv, &found));
    ASSERT_EQ(60000, found.lease_ms);
    ASSERT_STREQ("", found.holder);
    ASSERT_TRUE(found.version[0] != 0);
}

UTEST(base64, goes_there_and_back) {
    char text[64];
    char back[64];
    size_t len = 0;
    static const char *const words[] = {"", "a", "ab", "abc", "abcd", "\xff\xfe\xfd"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = leader_etcd_encode_(text, sizeof text, words[i], strlen(words[i]));
        ASSERT_TRUE(leader_etcd_decode_(text, n, back, sizeof back, &len));
        ASSERT_EQ(strlen(words[i]), len);
        ASSERT_EQ(0, memcmp(words[i], back, len));
    }
    ASSERT_FALSE(leader_etcd_decode_("a*bc", 4, back, sizeof back, &len));
}
