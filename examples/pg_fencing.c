/* Fencing inside the database: the lease and the row that it guards live in the same PostgreSQL.

       cc -I. -I/usr/include/postgresql examples/pg_fencing.c -o pg_fencing -lpq -pthread
       ./pg_fencing "host=127.0.0.1 dbname=app user=app"

   A leader that stalls in the middle of its work comes back when another one leads, and its write is late.
   The WHERE clause stops it, in two lines:

       token <= $2                                  the row has seen no newer leader
       $2 >= (SELECT token FROM leader_election)    nobody has become leader since, even one that wrote
       nothing yet

   Both candidates live in this one process, so that the stall is easy to see. */
#define LEADER_WITH_PG
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

static const char fenced_update[] =
    "UPDATE pg_fencing SET balance = $1::int, token = $2::bigint WHERE id = 1"
    " AND token <= $2::bigint"
    " AND $2::bigint >= (SELECT token FROM leader_election WHERE name = 'pg_fencing')";

/* The work of a leader: true if the row took it. */
static bool store(PGconn *work, uint64_t token, const char *balance) {
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)token);
    const char *values[2] = {balance, number};
    PGresult *result = PQexecParams(work, fenced_update, 2, NULL, values, NULL, NULL, 0);
    bool stored = PQresultStatus(result) == PGRES_COMMAND_OK && strcmp(PQcmdTuples(result), "1") == 0;
    printf("%s balance %s with token %s\n", stored ? "stored:  " : "rejected:", balance, number);
    PQclear(result);
    return stored;
}

static bool join(leader_t *me, leader_pg *pg, const char *name, const char *conninfo) {
    leader_pg_config where;
    leader_config config;
    memset(&where, 0, sizeof where);
    memset(&config, 0, sizeof config);
    where.name = "pg_fencing";
    where.conninfo = conninfo;
    config.identity = name;
    config.lease_ms = 1500;
    config.backend = leader_pg_backend(pg, &where);
    if (leader_init(me, &config) != LEADER_OK) {
        printf("%s: %s\n", name, leader_error(me));
        return false;
    }
    return true;
}

static bool wait_to_lead(leader_t *me) {
    bool leads = leader_wait(me, 60000) == LEADER_OK;
    if (!leads) {
        printf("%s\n", leader_error(me));
    }
    return leads;
}

int main(int argc, char **argv) {
    static leader_pg pg[2];
    static leader_t ann, bob;
    const char *conninfo = argc > 1 ? argv[1] : "";
    PGconn *work = PQconnectdb(conninfo);
    if (PQstatus(work) != CONNECTION_OK) {
        printf("%s", PQerrorMessage(work));
        PQfinish(work);
        return 1;
    }
    PQclear(PQexec(work, "CREATE TABLE pg_fencing (id int PRIMARY KEY, balance int, token bigint)"));
    PQclear(PQexec(work, "INSERT INTO pg_fencing VALUES (1, 0, 0) ON CONFLICT DO NOTHING"));
    bool joined = join(&ann, &pg[0], "ann", conninfo) && join(&bob, &pg[1], "bob", conninfo);
    if (!joined || !wait_to_lead(&ann)) {
        return 1;
    }
    uint64_t token = leader_token(&ann);        // ann asks, and leads ...
    bool first = store(work, token, "10");
    puts("ann stalls; nobody ticks her");       // ... and is stopped before her second write leaves
    if (!wait_to_lead(&bob)) {
        return 1;
    }
    puts("ann goes on where she was, before bob has written anything");
    bool late = store(work, token, "11");
    bool second = store(work, leader_token(&bob), "20");
    late = store(work, token, "12") || late;
    leader_close(&ann, 1000);
    leader_close(&bob, 1000);
    PQfinish(work);
    return first && second && !late ? 0 : 1;
}
