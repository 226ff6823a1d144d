/* PostgreSQL under the kit: one connection for all elections, a real server. */
#define LEADER_WITH_PG
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/pg/pg_server.h"
#include "tests/store/kit.h"

static pg_server        server;
static char             conninfo[200];
static leader_pg        jobs[STORE_SLOTS];
static leader_pg_client clients[3];     // ann, bob and all others: who competes has a connection of its own

static bool start(void) {
    bool ready = pg_start(&server);
    snprintf(conninfo, sizeof conninfo, "host=127.0.0.1 port=%d user=postgres dbname=postgres", server.port);
    return ready;
}

static void stop(void) {
    pg_stop(&server, SIGQUIT);
}

static leader_backend backend(int slot, const char *election) {
    leader_pg_config config;
    memset(&config, 0, sizeof config);
    config.name = election;
    config.conninfo = conninfo;
    config.client = &clients[slot % 10 < 2 && slot < 20 ? slot % 10 : 2];
    return leader_pg_backend(&jobs[slot], &config);
}

static void wipe(const char *election) {
    pg_sql(&server, "DELETE FROM leader_election WHERE name = '%s'", election);
}

static void corrupt(const char *election) {
    pg_sql(&server, "UPDATE leader_election SET nonce = 'garbage' WHERE name = '%s'", election);
}

static void silence(bool on) {
    pg_signal_all(&server, on ? SIGSTOP : SIGCONT);
}

static const store_under_test store = {"PostgreSQL", 0,    NULL,    start,   stop,
                                       backend,      wipe, corrupt, silence, 0};
