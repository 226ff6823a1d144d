/* The PostgreSQL store on a real server: what the kit in tests/store does not ask of every store. Errors
   and what they say, rights, fail-over, lost commits, locks, restarts, PgBouncer, TLS, fencing inside the
   database. */
#define LEADER_WITH_PG
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/pg/pg_server.h"
#include "tests/tools/patience.h"
#include "tests/tools/utest.h"
#include <sys/wait.h>

/* The example runs as a child of this program. */
#define join example_join
#define store example_store
#define main example_main
#include "examples/pg_fencing.c"
#undef join
#undef store
#undef main

enum { LEASE_MS = 15000, LIMIT_MS = 20000 };

static pg_server server;
static int64_t offset_ms;

typedef struct member {
    leader_t me;
    leader_pg pg;
    leader_pg_config how;
    leader_config config;
    char last[400];
} member;

static member ann, bob, cid;
static member *const members[] = {&ann, &bob, &cid};
static char conninfo[200]; // of the administrator
static int elections;
static char election[64];

static int64_t clock_ms(void *unused) {
    (void)unused;
    return leader_clock_ms_() + offset_ms;
}

static void keep_log(void *user, leader_level level, const char *text) {
    if (level <= LEADER_LOG_WARN) {
        snprintf(((member *)user)->last, sizeof((member *)user)->last, "%s", text);
    }
}

/* A candidate for `election`; fields of m->how that are set stay. */
static leader_result join(member *m, const char *name, const char *info) {
    m->how.conninfo = info;
    if (!m->how.name) {
        m->how.name = election;
    }
    m->config.identity = name;
    m->config.lease_ms = LEASE_MS;
    m->config.clock_ms = clock_ms;
    m->config.on_log = keep_log;
    m->config.user = m;
    m->config.backend = leader_pg_backend(&m->pg, &m->how);
    return leader_init(&m->me, &m->config);
}

static void tick_all(void) {
    for (int i = 0; i < 3; i++) {
        leader_tick(&members[i]->me);
    }
}

static bool leads(const member *m) {
    return leader_is_leader(&m->me);
}

/* A busy machine may let requests time out; anything else is an error of ours. */
static bool was_refused_nothing(const member *m) {
    leader_stats stats = leader_get_stats(&m->me);
    return stats.failures == stats.failures_timeout;
}

#define EVENTUALLY(condition) WAIT_FOR(LIMIT_MS, (tick_all(), (condition)))

/* Ticks until the last error has this text. */
static bool says(member *m, const char *text) {
    bool said = EVENTUALLY(strstr(leader_get_stats(&m->me).last_error_text, text) != NULL);
    if (!said) {
        printf("  instead of \"%s\": \"%s\"\n", text, leader_get_stats(&m->me).last_error_text);
    }
    return said;
}

static bool asks(const member *m) {
    return m->me.request.op != LEADER_OP_NONE_;
}

/* Time passes for the candidates, a little at a time, ticks between: a few, and more while a server that
   is busy has not answered. False: two led. */
static bool pass(int64_t ms) {
    enum { STEP_MS = 500, TICKS = 8, TICKS_MAX = 40 };
    for (; ms > 0; ms -= STEP_MS) {
        offset_ms += STEP_MS;
        for (int i = 0; i < TICKS || (i < TICKS_MAX && (asks(&ann) || asks(&bob) || asks(&cid))); i++) {
            tick_all();
            if (leads(&ann) + leads(&bob) + leads(&cid) > 1) {
                return false;
            }
            usleep(1000);
        }
    }
    return true;
}

/* Of a role, a database or a port of the test's own. */
static const char *info_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *info_of(const char *format, ...) {
    static char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return text;
}

static const char *holder(void) {
    return pg_sql(&server, "SELECT holder FROM leader_election WHERE name = '%s'", election);
}

/* An administrator's own transactions are read-only as well until they say otherwise. */
static bool pg_reset_read_only(void) {
    PGconn *admin = pg_admin(&server);
    PQclear(PQexec(admin, "SET default_transaction_read_only = off"));
    PQclear(PQexec(admin, "ALTER SYSTEM RESET default_transaction_read_only"));
    PGresult *result = PQexec(admin, "SELECT pg_reload_conf()");
    bool done = PQresultStatus(result) == PGRES_TUPLES_OK;
    PQclear(result);
    PQfinish(admin);
    return done;
}

struct pg {
    int unused;
};

UTEST_F_SETUP(pg) {
    (void)utest_fixture;
    memset(&ann, 0, sizeof ann);
    memset(&bob, 0, sizeof bob);
    memset(&cid, 0, sizeof cid);
    snprintf(election, sizeof election, "job-%d", elections++);
    snprintf(conninfo, sizeof conninfo, "host=127.0.0.1 port=%d user=postgres dbname=postgres", server.port);
    ASSERT_TRUE(pg_wait_ready(&server));
}

UTEST_F_TEARDOWN(pg) {
    (void)utest_fixture;
    for (int i = 0; i < 3; i++) {
        leader_close(&members[i]->me, 2000);
    }
    ASSERT_TRUE(true);
}

/* ---- settings ------------------------------------------------------------------------------------ */

UTEST_F(pg, wrong_settings_are_refused_with_their_name) {
    static const struct {
        const char *info, *table, *name, *text;
    } wrong[] = {{"host=db.example.org", NULL, "x",
                  "\"db.example.org\" is a name, and looking it up would block: give hostaddr"},
                 {"host=10.0.0.1,db hostaddr=10.0.0.1", NULL, "x", NULL},
                 {"host=a,b hostaddr=10.0.0.1,b", NULL, "x", "hostaddr must have an address for every host"},
                 {"postgresql://u:secret@db.example.org/app", NULL, "x", "is a name"},
                 {"service=app", NULL, "x", "service= is not supported"},
                 {"not a conninfo", NULL, "x", "conninfo is neither"},
                 {"host=127.0.0.1", "Robert'); DROP TABLE", "x", "table is not a name"},
                 {"host=127.0.0.1", "a.b.c", "x", "table is not a name"},
                 {"host=127.0.0.1", "", "x", "table is not a name"},
                 {"host=127.0.0.1", NULL, "", "name (of the election) is missing"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memset(&ann, 0, sizeof ann);
        ann.how.table = wrong[i].table;
        ann.how.name = wrong[i].name;
        leader_result result = join(&ann, "ann", wrong[i].info);
        if (!wrong[i].text) {
            ASSERT_EQ(LEADER_OK, result);
            leader_close(&ann.me, 0);
            continue;
        }
        ASSERT_EQ(LEADER_E_CONFIG, result);
        ASSERT_TRUE(strstr(leader_error(&ann.me), wrong[i].text) != NULL);
        ASSERT_TRUE(strstr(leader_error(&ann.me), "secret") == NULL);
    }
}

UTEST_F(pg, a_shared_client_has_one_conninfo) {
    leader_pg_client client;
    memset(&client, 0, sizeof client);
    ann.how.client = &client;
    bob.how.client = &client;
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
    ASSERT_EQ(LEADER_E_CONFIG, join(&bob, "bob", "host=127.0.0.2"));
    ASSERT_TRUE(strstr(leader_error(&bob.me), "share this client") != NULL);
    leader_close(&ann.me, 1000);
}

UTEST_F(pg, the_environment_is_read) {
    leader_pg_config how;
    memset(&how, 0, sizeof how);
    setenv("DATABASE_URL", "mysql://x", 1);
    ASSERT_EQ(LEADER_E_CONFIG, leader_pg_config_from_env(&how));
    setenv("DATABASE_URL", "postgresql://127.0.0.1/app", 1);
    setenv("LEADER_PG_TABLE", "app.leases", 1);
    ASSERT_EQ(LEADER_OK, leader_pg_config_from_env(&how));
    ASSERT_STREQ("postgresql://127.0.0.1/app", how.conninfo);
    ASSERT_STREQ("app.leases", how.table);
    unsetenv("DATABASE_URL");
    unsetenv("LEADER_PG_TABLE");
    char port[16];
    snprintf(port, sizeof port, "%d", server.port);
    setenv("PGHOST", "127.0.0.1", 1);
    setenv("PGPORT", port, 1);
    setenv("PGUSER", "postgres", 1);
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", NULL));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    unsetenv("PGHOST");
    unsetenv("PGPORT");
    unsetenv("PGUSER");
}

UTEST_F(pg, a_unix_socket_and_localhost_work) {
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", info_of("host=%s port=%d user=postgres", pg_root, server.port)));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    ASSERT_EQ(LEADER_OK, join(&bob, "bob", info_of("host=localhost port=%d user=postgres", server.port)));
    ASSERT_TRUE(EVENTUALLY(strcmp(leader_get_view(&bob.me).leader, "ann") == 0));
}

/* ---- errors that say what to do -------------------------------------------------------------------- */

UTEST_F(pg, errors_name_server_and_remedy) {
    static const struct {
        const char *role, *database, *text;
        leader_result result;
    } wrong[] = {
        {"user=pw password=wrong", "postgres", "password authentication failed for user \"pw\": check user",
         LEADER_E_AUTH},
        {"user=pw", "postgres", "set password= in conninfo", LEADER_E_AUTH},
        {"user=nobody_here", "postgres", "pg_hba.conf", LEADER_E_AUTH},
        {"user=postgres", "missing", "database \"missing\" does not exist: createdb it", LEADER_E_STORE},
        {"user=reader", "postgres", "permission denied for table leader_election: GRANT SELECT",
         LEADER_E_AUTH},
        {"user=reader", "bare", "GRANT SELECT, INSERT, UPDATE ON it, or create it", LEADER_E_AUTH}};
    ASSERT_EQ(LEADER_OK, join(&bob, "bob", conninfo)); // makes the table
    ASSERT_TRUE(EVENTUALLY(leads(&bob)));
    char where[40];
    snprintf(where, sizeof where, "PostgreSQL 127.0.0.1:%d: ", server.port);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memset(&ann, 0, sizeof ann);
        ASSERT_EQ(LEADER_OK, join(&ann, "ann",
                                  info_of("host=127.0.0.1 port=%d %s dbname=%s passfile=%s/none", server.port,
                                          wrong[i].role, wrong[i].database, pg_root)));
        ASSERT_TRUE(says(&ann, wrong[i].text));
        ASSERT_TRUE(strstr(leader_get_stats(&ann.me).last_error_text, where) != NULL);
        ASSERT_EQ(wrong[i].result, leader_get_stats(&ann.me).last_error);
        ASSERT_FALSE(leads(&ann));
        leader_close(&ann.me, 0);
    }
}

UTEST_F(pg, a_refused_connection_is_called_that) {
    int port = pg_free_port();
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", info_of("host=127.0.0.1 port=%d user=postgres", port)));
    ASSERT_TRUE(says(&ann, "Connection refused"));
}

UTEST_F(pg, a_server_that_is_away_is_tried_every_second) {
    join(&ann, "ann", info_of("host=127.0.0.1 port=%d", pg_free_port()));
    for (int i = 0; i < 60; i++) {
        ASSERT_TRUE(pass(1000));
        const leader_pg_client *client = ann.pg.client;
        ASSERT_LT(client->retry_at_ms - client->now_ms, 1000);
    }
    ASSERT_GT(ann.pg.client->failures, 10);
}

/* A server that accepts and never says a word, and one that talks nonsense. */
UTEST_F(pg, a_server_that_is_none_is_left_in_time) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(0, bind(fd, (struct sockaddr *)&at, sizeof at));
    ASSERT_EQ(0, listen(fd, 8));
    ASSERT_EQ(0, getsockname(fd, (struct sockaddr *)&at, &len));
    int port = ntohs(at.sin_port);
    ann.how.connect_timeout_ms = 100;
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", info_of("host=127.0.0.1 port=%d user=postgres", port)));
    ASSERT_TRUE(says(&ann, "no connection within 100 ms"));
    leader_close(&ann.me, 0);
    close(fd);
    /* A list: the silent one first, the real one second. */
    fd = socket(AF_INET, SOCK_STREAM, 0);
    at.sin_port = 0;
    ASSERT_EQ(0, bind(fd, (struct sockaddr *)&at, sizeof at));
    ASSERT_EQ(0, listen(fd, 8));
    ASSERT_EQ(0, getsockname(fd, (struct sockaddr *)&at, &len));
    memset(&ann, 0, sizeof ann);
    ann.how.connect_timeout_ms = 300;
    ASSERT_EQ(LEADER_OK, join(&ann, "ann",
                              info_of("hostaddr=127.0.0.1,127.0.0.1 port=%d,%d user=postgres",
                                      ntohs(at.sin_port), server.port)));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    close(fd);
}

/* Each answer of the server that matters, as it comes when a write fails: nothing was written, the term
   goes on, and the next write succeeds. */
UTEST_F(pg, a_failed_write_is_reported_and_repeated) {
    static const struct {
        const char *state, *text;
        leader_result result;
    } failures[] = {{"53100", "free space on the server", LEADER_E_STORE},
                    {"57014", "raise statement_timeout", LEADER_E_TIMEOUT},
                    {"40001", "the record changes too fast", LEADER_E_IO},
                    {"40P01", "the record changes too fast", LEADER_E_IO},
                    {"25006", "a replica: name the primary", LEADER_E_IO},
                    {"57P01", "trying again", LEADER_E_IO},
                    {"54000", "planted 54000", LEADER_E_STORE},
                    {"XX000", "planted XX000", LEADER_E_STORE}};
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    uint64_t token = leader_token(&ann.me);
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        pg_sql(&server,
               "CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
               " RAISE EXCEPTION 'planted %s' USING ERRCODE = '%s'; END $$;"
               "CREATE TRIGGER fail BEFORE UPDATE ON leader_election FOR EACH ROW EXECUTE FUNCTION fail()",
               failures[i].state, failures[i].state);
        uint64_t failed = leader_get_stats(&ann.me).failures;
        uint64_t renewals = leader_get_stats(&ann.me).renewals;
        offset_ms += LEASE_MS / 3;
        EXPECT_TRUE(EVENTUALLY(leader_get_stats(&ann.me).failures > failed));
        EXPECT_TRUE(says(&ann, failures[i].text));
        EXPECT_EQ(failures[i].result, leader_get_stats(&ann.me).last_error);
        ASSERT_STREQ("", pg_sql(&server, "DROP TRIGGER fail ON leader_election"));
        ASSERT_TRUE(EVENTUALLY(leader_get_stats(&ann.me).renewals > renewals));
        ASSERT_EQ(token, leader_token(&ann.me));
    }
}

/* ---- the table ------------------------------------------------------------------------------------- */

UTEST_F(pg, the_table_is_created_by_the_first_candidate) {
    pg_sql(&server, "CREATE SCHEMA IF NOT EXISTS fresh");
    for (int i = 0; i < 5; i++) {
        pg_sql(&server, "DROP TABLE IF EXISTS fresh.leases");
        for (int k = 0; k < 3; k++) {
            memset(members[k], 0, sizeof *members[k]);
            members[k]->how.table = "fresh.leases";
        }
        ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
        ASSERT_EQ(LEADER_OK, join(&bob, "bob", conninfo));
        ASSERT_EQ(LEADER_OK, join(&cid, "cid", conninfo));
        ASSERT_TRUE(EVENTUALLY(leads(&ann) + leads(&bob) + leads(&cid) == 1));
        for (int k = 0; k < 3; k++) {
            ASSERT_EQ(LEADER_OK, leader_close(&members[k]->me, LIMIT_MS));
        }
    }
}

UTEST_F(pg, an_observer_creates_no_table) {
    pg_sql(&server, "CREATE SCHEMA IF NOT EXISTS other");
    ann.how.table = "other.leases";
    ann.config.observe_only = true;
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
    ASSERT_TRUE(EVENTUALLY(leader_get_view(&ann.me).age_ms >= 0));
    ASSERT_STREQ("", leader_get_view(&ann.me).leader);
    ASSERT_TRUE(was_refused_nothing(&ann));
    ASSERT_STREQ("f", pg_sql(&server, "SELECT to_regclass('other.leases') IS NOT NULL"));
}

/* The GRANT line of the header, and nothing more. */
UTEST_F(pg, select_insert_and_update_are_enough) {
    ASSERT_EQ(LEADER_OK, join(&cid, "cid", conninfo));
    ASSERT_TRUE(EVENTUALLY(leads(&cid)));
    ASSERT_EQ(LEADER_OK, leader_close(&cid.me, LIMIT_MS));
    pg_sql(&server, "GRANT SELECT, INSERT, UPDATE ON leader_election TO app");
    static char info[200];
    snprintf(info, sizeof info, "host=127.0.0.1 port=%d user=app dbname=postgres", server.port);
    snprintf(election, sizeof election, "granted");
    ann.how.name = election;
    bob.how.name = election;
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", info));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    ASSERT_EQ(LEADER_OK, join(&bob, "bob", info));
    ASSERT_TRUE(pass(2 * LEASE_MS));
    ASSERT_TRUE(leads(&ann));
    ASSERT_TRUE(was_refused_nothing(&ann));
    ASSERT_EQ(LEADER_OK, leader_close(&ann.me, LIMIT_MS));
    ASSERT_TRUE(EVENTUALLY(leads(&bob)));
    ASSERT_TRUE(was_refused_nothing(&bob));
}

UTEST_F(pg, people_can_read_the_row) {
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    ASSERT_STREQ("ann", holder());
    ASSERT_STREQ(
        "t", pg_sql(&server,
                    "SELECT abs(extract(epoch FROM now() - renewed)) < 60 AND lease_ms = %d AND token = %llu"
                    " FROM leader_election WHERE name = '%s'",
                    LEASE_MS, (unsigned long long)leader_token(&ann.me), election));
    ASSERT_EQ(LEADER_OK, leader_close(&ann.me, LIMIT_MS));
    ASSERT_STREQ("", holder());
}

UTEST_F(pg, odd_names_are_just_names) {
    static const char *const names[] = {"it's; DROP TABLE leader_election; --", "a\"b\\c",
                                        "\xc3\xa4\xe2\x82\xac", "$1"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        memset(&ann, 0, sizeof ann);
        ann.how.name = names[i];
        ASSERT_EQ(LEADER_OK, join(&ann, names[i], conninfo));
        ASSERT_TRUE(EVENTUALLY(leads(&ann)));
        ASSERT_EQ(LEADER_OK, leader_close(&ann.me, LIMIT_MS));
    }
}

static bool forgets(const char *statement) {
    bool joined = join(&ann, "ann", conninfo) == LEADER_OK && EVENTUALLY(leads(&ann));
    uint64_t token = leader_token(&ann.me);
    joined = joined && join(&bob, "bob", conninfo) == LEADER_OK;
    joined = joined && EVENTUALLY(strcmp(leader_get_view(&bob.me).leader, "ann") == 0);
    pg_sql(&server, "%s", statement);
    bool one = pass(4 * LEASE_MS);
    bool again = EVENTUALLY(leads(&ann) + leads(&bob) == 1);
    uint64_t later = leader_token(&ann.me) + leader_token(&bob.me);
    return joined && one && again && later > token;
}

UTEST_F(pg, a_truncated_table_makes_no_second_leader) {
    ASSERT_TRUE(forgets("TRUNCATE leader_election"));
}

UTEST_F(pg, a_dropped_table_makes_no_second_leader) {
    ASSERT_TRUE(forgets("DROP TABLE leader_election"));
}

/* ---- sessions and servers that end ------------------------------------------------------------------- */

UTEST_F(pg, a_terminated_session_costs_nothing) {
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    uint64_t token = leader_token(&ann.me);
    for (int i = 0; i < 3; i++) {
        uint64_t renewals = leader_get_stats(&ann.me).renewals;
        pg_sql(&server,
               "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leader.h'");
        offset_ms += LEASE_MS / 3;
        ASSERT_TRUE(EVENTUALLY(leader_get_stats(&ann.me).renewals > renewals));
        ASSERT_EQ(token, leader_token(&ann.me));
    }
}

UTEST_F(pg, a_restarted_server_costs_nothing_in_time) {
    static const int ways[] = {SIGINT, SIGQUIT}; // fast and immediate: the latter recovers as after a crash
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    ASSERT_EQ(LEADER_OK, join(&bob, "bob", conninfo));
    ASSERT_TRUE(EVENTUALLY(strcmp(leader_get_view(&bob.me).leader, "ann") == 0));
    for (int i = 0; i < 2; i++) {
        uint64_t renewals = leader_get_stats(&ann.me).renewals;
        pg_stop(&server, ways[i]);
        pg_run(&server);
        ASSERT_TRUE(pg_wait_ready(&server));
        ASSERT_TRUE(EVENTUALLY(leads(&ann) + leads(&bob) == 1));
        offset_ms += LEASE_MS / 3;
        ASSERT_TRUE(EVENTUALLY(leader_get_stats(&ann.me).renewals > renewals || leads(&bob)));
        ASSERT_LE(leads(&ann) + leads(&bob), 1);
    }
}

UTEST_F(pg, notices_are_heard_again_after_a_reconnect) {
    ann.config.retry_ms = 100000;
    bob.config.retry_ms = 100000;
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    ASSERT_EQ(LEADER_OK, join(&bob, "bob", conninfo));
    ASSERT_TRUE(EVENTUALLY(bob.pg.engine.listening));
    pg_sql(&server,
           "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leader.h'");
    ASSERT_TRUE(EVENTUALLY(!bob.pg.engine.listening));
    ASSERT_TRUE(EVENTUALLY(bob.pg.engine.listening));
    ASSERT_EQ(LEADER_OK, leader_close(&ann.me, LIMIT_MS));
    ASSERT_TRUE(EVENTUALLY(leads(&bob)));
}

/* A standby that hears every renewal does not ask. */
UTEST_F(pg, a_standby_that_hears_does_not_ask) {
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    ASSERT_EQ(LEADER_OK, join(&bob, "bob", conninfo));
    ASSERT_TRUE(EVENTUALLY(bob.pg.engine.listening && strcmp(leader_get_view(&bob.me).leader, "ann") == 0));
    uint64_t asked = bob.pg.call_id;
    uint64_t attempts = leader_get_stats(&bob.me).acquires;
    ASSERT_TRUE(pass(LEASE_MS));
    ASSERT_GT(leader_get_stats(&bob.me).acquires, attempts + 3);
    ASSERT_LE(bob.pg.call_id, asked + 1);
}

UTEST_F(pg, without_notices_polling_is_enough) {
    ann.how.no_listen = true;
    bob.how.no_listen = true;
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    ASSERT_EQ(LEADER_OK, join(&bob, "bob", conninfo));
    ASSERT_TRUE(EVENTUALLY(strcmp(leader_get_view(&bob.me).leader, "ann") == 0));
    ASSERT_TRUE(pass(LEASE_MS));
    ASSERT_EQ(LEADER_OK, leader_close(&ann.me, LIMIT_MS));
    ASSERT_TRUE(pass(3000));
    ASSERT_TRUE(EVENTUALLY(leads(&bob)));
    ASSERT_FALSE(bob.pg.engine.listening);
}

/* ---- transactions of others ---------------------------------------------------------------------------- */

/* A row that somebody locks holds up neither the tick nor another election on the same connection. */
UTEST_F(pg, a_locked_row_holds_up_nobody_else) {
    static leader_pg_client client;
    memset(&client, 0, sizeof client);
    ann.how.client = &client;
    bob.how.client = &client;
    bob.how.name = "unlocked";
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
    ASSERT_EQ(LEADER_OK, join(&bob, "bob", conninfo));
    ASSERT_TRUE(EVENTUALLY(leads(&ann) && leads(&bob)));
    PGconn *other = pg_admin(&server);
    char sql[200];
    snprintf(sql, sizeof sql, "BEGIN; SELECT * FROM leader_election WHERE name = '%s' FOR UPDATE", election);
    PQclear(PQexec(other, sql));
    uint64_t renewals = leader_get_stats(&bob.me).renewals;
    offset_ms += LEASE_MS / 3;
    ASSERT_TRUE(
        EVENTUALLY(leader_get_stats(&bob.me).renewals > renewals && leader_get_stats(&ann.me).failures > 0));
    renewals = leader_get_stats(&ann.me).renewals;
    PQclear(PQexec(other, "ROLLBACK"));
    PQfinish(other);
    ASSERT_TRUE(EVENTUALLY(leader_get_stats(&ann.me).renewals > renewals));
    ASSERT_TRUE(leads(&ann));
}

UTEST_F(pg, a_locked_table_is_waited_out) {
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    PGconn *other = pg_admin(&server);
    PQclear(PQexec(other, "BEGIN; LOCK TABLE leader_election IN ACCESS EXCLUSIVE MODE"));
    uint64_t renewals = leader_get_stats(&ann.me).renewals;
    ASSERT_TRUE(pass(LEASE_MS));
    ASSERT_FALSE(leads(&ann)); // unrenewed: the term is over at its deadline
    PQclear(PQexec(other, "ROLLBACK"));
    PQfinish(other);
    ASSERT_TRUE(pass(2 * LEASE_MS));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    ASSERT_GE(leader_get_stats(&ann.me).renewals, renewals);
}

UTEST_F(pg, a_statement_timeout_is_named) {
    pg_sql(&server, "ALTER ROLE app SET statement_timeout = '20ms'; GRANT SELECT, INSERT, UPDATE ON "
                    "leader_election TO app");
    ASSERT_EQ(LEADER_OK,
              join(&ann, "ann", info_of("host=127.0.0.1 port=%d user=app dbname=postgres", server.port)));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    PGconn *other = pg_admin(&server);
    PQclear(PQexec(other, "BEGIN; LOCK TABLE leader_election IN ACCESS EXCLUSIVE MODE"));
    offset_ms += LEASE_MS / 3;
    ASSERT_TRUE(says(&ann, "statement timeout: raise statement_timeout"));
    PQclear(PQexec(other, "ROLLBACK"));
    PQfinish(other);
    pg_sql(&server, "ALTER ROLE app RESET statement_timeout");
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
}

/* Between two statements no transaction is open. */
UTEST_F(pg, idle_in_transaction_never_happens) {
    static char info[300];
    snprintf(info, sizeof info, "%s options=-cidle_in_transaction_session_timeout=10", conninfo);
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", info));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    for (int i = 0; i < 3; i++) {
        uint64_t renewals = leader_get_stats(&ann.me).renewals;
        usleep(50000);
        offset_ms += LEASE_MS / 3;
        ASSERT_TRUE(EVENTUALLY(leader_get_stats(&ann.me).renewals > renewals));
    }
    ASSERT_TRUE(was_refused_nothing(&ann));
}

/* A standby only reads: it must not stay with a server that a fail-over has left behind, whose row is old
   for ever. */
UTEST_F(pg, a_server_that_turns_read_only_is_left_by_readers_too) {
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    bob.how.no_listen = true;
    ASSERT_EQ(LEADER_OK, join(&bob, "bob", conninfo));
    cid.how.no_listen = true;
    static char anywhere[240];
    snprintf(anywhere, sizeof anywhere, "%s target_session_attrs=any", conninfo);
    cid.config.observe_only = true;
    ASSERT_EQ(LEADER_OK, join(&cid, "cid", anywhere));
    ASSERT_TRUE(EVENTUALLY(strcmp(leader_get_view(&cid.me).leader, "ann") == 0));
    ASSERT_TRUE(EVENTUALLY(strcmp(leader_get_view(&bob.me).leader, "ann") == 0));
    pg_sql(&server, "ALTER SYSTEM SET default_transaction_read_only = on");
    pg_sql(&server, "SELECT pg_reload_conf()");
    ASSERT_TRUE(EVENTUALLY(strcmp(pg_sql(&server, "SHOW default_transaction_read_only"), "on") == 0));
    offset_ms += LEASE_MS / 3;
    ASSERT_TRUE(says(&bob, "a replica: name the primary as well"));
    ASSERT_TRUE(was_refused_nothing(&cid));
    ASSERT_TRUE(pg_reset_read_only());
    ASSERT_TRUE(EVENTUALLY(leads(&ann) || leads(&bob)));
}

UTEST_F(pg, serializable_transactions_are_no_trouble) {
    pg_sql(&server, "ALTER ROLE app SET default_transaction_isolation = 'serializable';"
                    "GRANT SELECT, INSERT, UPDATE ON leader_election TO app");
    static char info[200];
    snprintf(info, sizeof info, "host=127.0.0.1 port=%d user=app dbname=postgres", server.port);
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", info));
    ASSERT_EQ(LEADER_OK, join(&bob, "bob", info));
    ASSERT_EQ(LEADER_OK, join(&cid, "cid", info));
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        ASSERT_TRUE(EVENTUALLY(leads(&ann) + leads(&bob) + leads(&cid) == 1));
        uint64_t token = leader_token(&ann.me) + leader_token(&bob.me) + leader_token(&cid.me);
        ASSERT_GT(token, last);
        last = token;
        for (int k = 0; k < 3; k++) {
            if (leads(members[k])) {
                leader_resign(&members[k]->me, 2000);
            }
        }
        ASSERT_TRUE(
            EVENTUALLY(leader_token(&ann.me) + leader_token(&bob.me) + leader_token(&cid.me) != last));
        offset_ms += 2000;
    }
    pg_sql(&server, "ALTER ROLE app RESET default_transaction_isolation");
}

/* ---- fail-over ----------------------------------------------------------------------------------------- */

/* `both` names the two servers; the election leads on the primary. */
static bool begin_with_replica(pg_server *replica, char *both, size_t cap) {
    bool ready = pg_start_replica(replica, &server);
    snprintf(both, cap, "hostaddr=127.0.0.1,127.0.0.1 port=%d,%d user=postgres dbname=postgres", server.port,
             replica->port);
    ready = ready && join(&ann, "ann", both) == LEADER_OK && EVENTUALLY(leads(&ann));
    ready = ready && join(&bob, "bob", both) == LEADER_OK;
    return ready && EVENTUALLY(strcmp(leader_get_view(&bob.me).leader, "ann") == 0);
}

/* The promoted replica becomes the suite's server. */
static bool promote(pg_server *replica) {
    pg_stop(&server, SIGQUIT);
    bool promoted = strcmp(pg_sql(replica, "SELECT pg_promote()"), "t") == 0;
    server = *replica;
    return promoted;
}

UTEST_F(pg, a_promoted_replica_keeps_the_leader) {
    pg_server replica;
    char both[200];
    ASSERT_TRUE(begin_with_replica(&replica, both, sizeof both));
    uint64_t token = leader_token(&ann.me);
    ASSERT_TRUE(WAIT_FOR(
        LIMIT_MS,
        strcmp(pg_sql(&replica, "SELECT holder FROM leader_election WHERE name = '%s'", election), "ann")
            == 0));
    /* A replica alone is not used, and the error says so. */
    ASSERT_EQ(LEADER_OK, join(&cid, "cid", info_of("host=127.0.0.1 port=%d user=postgres", replica.port)));
    ASSERT_TRUE(says(&cid, "read-only"));
    leader_close(&cid.me, 0);
    memset(&cid, 0, sizeof cid);
    ASSERT_TRUE(promote(&replica));
    uint64_t renewals = leader_get_stats(&ann.me).renewals;
    offset_ms += LEASE_MS / 3;
    ASSERT_TRUE(EVENTUALLY(leader_get_stats(&ann.me).renewals > renewals));
    ASSERT_TRUE(leads(&ann));
    ASSERT_FALSE(leads(&bob));
    ASSERT_EQ(token, leader_token(&ann.me));
}

/* The replica has not seen bob take over. Who has seen it waits; nobody leads beside bob. */
UTEST_F(pg, lost_commits_are_a_store_that_forgot) {
    pg_server replica;
    char both[200];
    ASSERT_TRUE(begin_with_replica(&replica, both, sizeof both));
    ASSERT_TRUE(WAIT_FOR(
        LIMIT_MS,
        strcmp(pg_sql(&replica, "SELECT holder FROM leader_election WHERE name = '%s'", election), "ann")
            == 0));
    pg_sql(&replica, "ALTER SYSTEM SET primary_conninfo = ''");
    pg_sql(&replica, "SELECT pg_reload_conf()");
    ASSERT_TRUE(
        WAIT_FOR(LIMIT_MS, strcmp(pg_sql(&replica, "SELECT count(*) FROM pg_stat_wal_receiver"), "0") == 0));
    uint64_t token = leader_token(&ann.me);
    leader_resign(&ann.me, 1000);
    ASSERT_TRUE(EVENTUALLY(leads(&bob)));
    ASSERT_GT(leader_token(&bob.me), token);
    token = leader_token(&bob.me);
    ASSERT_TRUE(EVENTUALLY(strcmp(leader_get_view(&ann.me).leader, "bob") == 0));
    ASSERT_TRUE(promote(&replica));
    ASSERT_STREQ("ann", pg_sql(&replica, "SELECT holder FROM leader_election WHERE name = '%s'", election));
    ASSERT_TRUE(pass(5 * LEASE_MS));
    ASSERT_TRUE(EVENTUALLY(leads(&ann) + leads(&bob) == 1));
    ASSERT_GT(leader_token(&ann.me) + leader_token(&bob.me), token);
}

/* ---- fork ---------------------------------------------------------------------------------------------- */

UTEST_F(pg, an_inherited_connection_is_closed_without_a_word) {
    static leader_pg_client client;
    memset(&client, 0, sizeof client);
    ann.how.client = &client;
    bob.how.client = &client;
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    static const char count_sessions[] =
        "SELECT min(pid) FROM pg_stat_activity WHERE application_name = 'leader.h'";
    char session[40];
    snprintf(session, sizeof session, "%s", pg_sql(&server, count_sessions));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        bool kept_out = join(&bob, "bob", conninfo) == LEADER_OK
                        && WAIT_FOR(LIMIT_MS, (leader_tick(&bob.me),
                                               strcmp(leader_get_view(&bob.me).leader, "ann") == 0));
        leader_close(&bob.me, 1000);
        _exit(kept_out && !leads(&bob) ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    ASSERT_EQ(0, status);
    uint64_t renewals = leader_get_stats(&ann.me).renewals;
    offset_ms += LEASE_MS / 3;
    ASSERT_TRUE(EVENTUALLY(leader_get_stats(&ann.me).renewals > renewals));
    ASSERT_TRUE(was_refused_nothing(&ann));
    ASSERT_STREQ(session, pg_sql(&server, count_sessions));
}

/* ---- fencing ------------------------------------------------------------------------------------------- */

UTEST_F(pg, one_line_fences_a_row_in_the_same_database) {
    pg_sql(
        &server,
        "DROP TABLE IF EXISTS account; CREATE TABLE account (id int PRIMARY KEY, balance int, token bigint);"
        "INSERT INTO account VALUES (1, 0, 0)");
    static const char update[] =
        "UPDATE account SET balance = %d, token = %llu WHERE id = 1 AND token <= %llu RETURNING balance";
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", conninfo));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    unsigned long long early = leader_token(&ann.me);
    ASSERT_STREQ("10", pg_sql(&server, update, 10, early, early));
    ASSERT_STREQ("11", pg_sql(&server, update, 11, early, early));
    leader_resign(&ann.me, 1000);
    ASSERT_EQ(LEADER_OK, join(&bob, "bob", conninfo));
    ASSERT_TRUE(EVENTUALLY(leads(&bob)));
    unsigned long long late = leader_token(&bob.me);
    ASSERT_STREQ("20", pg_sql(&server, update, 20, late, late));
    ASSERT_STREQ("", pg_sql(&server, update, 12, early, early)); // ann wakes up in the middle of a write
    ASSERT_STREQ("20", pg_sql(&server, "SELECT balance FROM account"));
}

UTEST_F(pg, the_example_stops_a_late_write) {
    char said[2000] = "";
    char path[200];
    snprintf(path, sizeof path, "%s/example", pg_root);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        char *argv[] = {(char *)path, conninfo, NULL};
        bool open = freopen(path, "w", stdout) != NULL;
        int status = example_main(2, argv);
        fclose(stdout);
        _exit(open ? status : 2);
    }
    int status = 1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    ASSERT_EQ(0, status);
    FILE *file = fopen(path, "r");
    ASSERT_GT(fread(said, 1, sizeof said - 1, file), 0u);
    fclose(file);
    ASSERT_TRUE(strstr(said, "rejected: balance 11") != NULL);
    ASSERT_TRUE(strstr(said, "stored:   balance 20") != NULL);
    ASSERT_TRUE(strstr(said, "rejected: balance 12") != NULL);
    ASSERT_STREQ("20", pg_sql(&server, "SELECT balance FROM pg_fencing"));
}

/* ---- what stands between ------------------------------------------------------------------------------- */

/* PgBouncer in transaction mode: LISTEN is accepted and heard by nobody. */
UTEST_F(pg, pgbouncer_in_transaction_mode_works) {
    int port = pg_free_port();
    FILE *file = fopen(info_of("%s/bouncer.ini", pg_root), "w");
    ASSERT_TRUE(file != NULL);
    fprintf(file,
            "[databases]\n* = host=127.0.0.1 port=%d\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=%d\n"
            "unix_socket_dir=\nauth_type=any\npool_mode=transaction\ndefault_pool_size=1\n",
            server.port, port);
    fprintf(file, "[databases]\npostgres = host=127.0.0.1 port=%d user=postgres\n", server.port);
    fclose(file);
    pid_t bouncer = fork();
    if (bouncer == 0) {
        execl("/bin/sh", "sh", "-c",
              info_of("PATH=$PATH:/usr/sbin; exec %s setpriv --pdeathsig KILL pgbouncer %s/bouncer.ini"
                      " >%s/bouncer.log 2>&1",
                      pg_as_user(), pg_root, pg_root),
              (char *)NULL);
        _exit(127);
    }
    static char info[200];
    snprintf(info, sizeof info, "host=127.0.0.1 port=%d user=postgres dbname=postgres", port);
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", info));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    ASSERT_EQ(LEADER_OK, join(&bob, "bob", info));
    ASSERT_TRUE(EVENTUALLY(strcmp(leader_get_view(&bob.me).leader, "ann") == 0));
    ASSERT_TRUE(pass(3 * LEASE_MS));
    ASSERT_TRUE(leads(&ann));
    ASSERT_EQ(LEADER_OK, leader_close(&ann.me, LIMIT_MS));
    ASSERT_TRUE(pass(LEASE_MS));
    ASSERT_TRUE(EVENTUALLY(leads(&bob)));
    leader_close(&bob.me, LIMIT_MS);
    kill(bouncer, SIGKILL);
    waitpid(bouncer, NULL, 0);
}

/* TLS with the name verified and the address given beside it; a wrong name is refused. */
UTEST_F(pg, tls_verifies_the_name_beside_hostaddr) {
    ASSERT_EQ(
        0,
        pg_shell(
            "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=db.example.org"
            " -addext subjectAltName=DNS:db.example.org -keyout key -out crt 2>/dev/null"
            " && cp key crt %s/ && chmod 600 %s/key && { test $(id -u) != 0 || chown nobody %s/key %s/crt; }",
            pg_root, server.data, server.data, server.data, server.data));
    pg_sql(&server, "ALTER SYSTEM SET ssl_cert_file = 'crt'");
    pg_sql(&server, "ALTER SYSTEM SET ssl_key_file = 'key'");
    pg_sql(&server, "ALTER SYSTEM SET ssl = on");
    pg_sql(&server, "SELECT pg_reload_conf()");
    ASSERT_TRUE(WAIT_FOR(
        LIMIT_MS, strcmp(pg_sql(&server, "SELECT setting FROM pg_settings WHERE name = 'ssl'"), "on") == 0));
    static const char format[] =
        "host=%s hostaddr=127.0.0.1 port=%d user=postgres sslmode=verify-full sslrootcert=%s/crt";
    ASSERT_EQ(LEADER_OK, join(&ann, "ann", info_of(format, "db.example.org", server.port, pg_root)));
    ASSERT_TRUE(EVENTUALLY(leads(&ann)));
    ASSERT_STREQ("t", pg_sql(&server, "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
                                      " WHERE application_name = 'leader.h'"));
    ASSERT_EQ(LEADER_OK, join(&bob, "bob", info_of(format, "db.example.net", server.port, pg_root)));
    ASSERT_TRUE(says(&bob, "does not match host name"));
    pg_sql(&server, "ALTER SYSTEM SET ssl = off");
    pg_sql(&server, "SELECT pg_reload_conf()");
}

/* ---- rows that cannot be read ------------------------------------------------------------------ */

static bool reads_row(const char *lease, const char *token, leader_entry *found) {
    char text[400], name[64], why[100];
    snprintf(text, sizeof text,
             "{\"name\": \"job\", \"version\": \"v\", \"holder\": \"a\", \"value\": \"\", \"heir\": \"\", "
             "\"nonce\": \"00000000000000ab\", \"origin\": \"00000000000000ab\", \"seq\": 1, \"token\": %s, "
             "\"renewal\": 1, \"lease_ms\": %s, \"hold_off_ms\": 0}", token, lease);
    return leader_pg_parse_(text, name, sizeof name, found, why, sizeof why);
}

UTEST(row, that_cannot_be_read_may_still_say_its_lease) {
    leader_entry found;
    ASSERT_TRUE(reads_row("60000", "1", &found));
    ASSERT_FALSE(reads_row("60000", "-1", &found));
    ASSERT_EQ(60000, found.lease_ms);
    ASSERT_STREQ("v", found.version);
}

UTEST(row, whose_lease_cannot_be_read_says_none) {
    leader_entry found;
    ASSERT_FALSE(reads_row("9999999999999999999", "1", &found));
    ASSERT_EQ(0, found.lease_ms);
}

UTEST_STATE();

int main(int argc, char **argv) {
    if (!pg_start(&server)) {
        return 1;
    }
    pg_sql(&server, "CREATE ROLE app LOGIN; CREATE ROLE reader LOGIN; CREATE ROLE pw LOGIN PASSWORD 'right';"
                    "CREATE ROLE nobody_here LOGIN");
    pg_sql(&server, "CREATE DATABASE bare");
    int failed = utest_main(argc, (const char *const *)argv);
    pg_stop(&server, SIGQUIT);
    return failed;
}
