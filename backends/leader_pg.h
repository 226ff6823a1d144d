/* leader_pg.h - v1.1.0 - leader election over PostgreSQL, for leader.h - licence: see leader.h

   The lease is a row of one table, changed by compare-and-swap in one statement; libpq carries the
   requests. One connection serves any number of elections, pipelined. Nothing blocks.

   DO THIS
       #define LEADER_WITH_PG
       #define LEADER_IMPLEMENTATION                  // in one C file
       #include "leader.h"                            // cc app.c -I/usr/include/postgresql -lpq

       leader_pg job;
       leader_pg_config pg = {0};                     // C++: = {}
       pg.name     = "nightly-report";
       pg.conninfo = "host=10.0.0.7 dbname=app user=app password=secret";
       leader_config config = {0};
       config.identity = leader_make_identity(id, sizeof id, "worker");
       config.backend  = leader_pg_backend(&job, &pg);
       leader_t me;
       if (leader_init(&me, &config) != LEADER_OK) { puts(leader_error(&me)); return 1; }
       while (running) { leader_tick(&me); if (leader_is_leader(&me)) { work(); } leader_sleep(&me, 1000); }
       leader_close(&me, 1000);

   THE TABLE is created by the first candidate that may. Where none may, an administrator does:

       CREATE TABLE leader_election (
           name text PRIMARY KEY, holder text NOT NULL, token bigint NOT NULL, lease_ms bigint NOT NULL,
           acquired timestamptz NOT NULL, renewed timestamptz NOT NULL,
           value text NOT NULL, heir text NOT NULL, hold_off_ms bigint NOT NULL, renewal bigint NOT NULL,
           seq bigint NOT NULL, nonce text NOT NULL, origin text NOT NULL, version text NOT NULL
       ) WITH (fillfactor = 50);
       GRANT SELECT, INSERT, UPDATE ON leader_election TO app;

   `SELECT name, holder, token, renewed FROM leader_election` shows who leads. The times are for people:
   neither they nor the server's clock decide anything. A holder of '' means released. `version` is
   random with every write, because a number can come again in a restored database.

   FENCING IN ONE LINE, where the guarded row lives in the same database (examples/pg_fencing.c):

       UPDATE account SET balance = $1, token = $2 WHERE id = $3 AND token <= $2     -- $2: leader_token()

   NO NAME LOOKUP. libpq looks names up with a call that blocks for as long as the name servers are
   silent. So host is an address, "localhost" (127.0.0.1) or the directory of a unix socket; for any other
   name give its address too: "host=db.example.org hostaddr=10.0.0.7" (host still serves TLS). leader_init
   refuses what would block. Several servers: "hostaddr=10.0.0.7,10.0.0.8", tried in turn, each for
   connect_timeout_ms. GSS encryption is off unless conninfo asks for it: it talks to its own servers.

   FAIL-OVER. Only a server that accepts writes is used (target_session_attrs=read-write unless conninfo
   says otherwise); a server that turns read-only is left at once, by those who only look as well. A promoted
   replica that lacks the last commits is a store that forgot: candidates that had seen them wait a full
   lease. A candidate that had not seen them cannot notice. Close that gap with synchronous replication
   (synchronous_standby_names, synchronous_commit = on); the old primary must not go on accepting writes. The
   same holds for synchronous_commit = off and a crash.

   NOTICES. Every write notifies the channel that has the table's name, with the row as JSON (try LISTEN in
   psql). Standbys learn of a release at once. Where LISTEN does not work (PgBouncer in transaction mode)
   they poll, which is always enough; no_listen saves the attempt.

   CONNECTIONS. All elections that share a leader_pg_client live on one thread. The first open election
   carries the socket (on_fd, leader_fds, leader_sleep); when an answer for another one comes, that one falls
   due (on_due, leader_due_ms). A connection inherited by fork() is closed without a word to the server.

   libpq 10 or newer; pipelined from 14 on. Servers from 10 on. Tested with 15. Not for Windows.         */
#ifndef LEADER_PG_H_INCLUDED
#define LEADER_PG_H_INCLUDED

#ifndef LEADER_H_INCLUDED
#  error "include leader.h before backends/leader_pg.h, or define LEADER_WITH_PG and include leader.h alone"
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct pg_conn;                     // libpq's own; its header is needed only by the implementation

typedef struct leader_pg        leader_pg;          // both complete below: yours to place; do not read, copy
typedef struct leader_pg_client leader_pg_client;   // or move them

typedef struct leader_pg_config {   // leader_pg_backend copies it, strings too
    const char       *name;         // required: the election, at most 127 bytes
    const char       *conninfo;     // "key=value ..." or postgresql://...; default: PGHOST, PGUSER and so on
    const char       *table;        // leader_election; or schema.table, in a-z 0-9 _
    leader_pg_client *client;       // a shared connection, all zero at first; default: one of its own
    int64_t           connect_timeout_ms;   // 1000: for each server
    bool              no_listen;    // false; true: polls only; others hear it
} leader_pg_config;

/* DATABASE_URL becomes conninfo and LEADER_PG_TABLE the table; without the former libpq reads PGHOST,
   PGHOSTADDR, PGPORT, PGDATABASE, PGUSER, PGPASSWORD and the like by itself. E_CONFIG: a DATABASE_URL that
   is not for PostgreSQL. */
LEADER_API leader_result leader_pg_config_from_env(leader_pg_config *);
LEADER_API leader_backend leader_pg_backend(leader_pg *, const leader_pg_config *); // no I/O, never fails

/* ---- stop here if you only want the API ---------------------------------------------------------- */
enum { LEADER_PG_FLIGHT_MAX_ = 256, LEADER_PG_BUCKETS_ = 64 };

typedef struct leader_pg_sent_ {    // a statement on the wire
    leader_pg *owner;               // NULL: given up, or the client's own
    int        kind;
} leader_pg_sent_;

struct leader_pg_client {
    char            conninfo[1024];
    char            hosts[512], addresses[512], ports[64];  // lists with commas, from conninfo or environment
    int             server_count;
    char            table[64];
    int64_t         connect_timeout_ms;
    bool            no_listen;
    bool            replicas_do;    // target_session_attrs in conninfo allows them
    char            error[200];     // of the settings; "": none

    int32_t         pid;            // of the process that opened the connection
    int             stage;          // LEADER_PG_OFF_ and so on
    struct pg_conn *conn;
    int             polling;        // what PQconnectPoll waits for
    bool            watching;       // fd and events are known to the carrier's loop
    int             fd, events;     // a duplicate of the connection's: libpq closes its own when it likes
    char            where[300];     // host:port of the present or last server, for errors
    int             target, tried;  // which server; how many in this attempt
    int             failures;
    int64_t         deadline_ms;    // to be connected
    int64_t         retry_at_ms;
    int64_t         now_ms, carried_ms;
    int64_t         quiet_ms;       // an answer is owed, and nothing was heard since then
    bool            was_listening;  // before the connection was lost
    bool            listening;
    int64_t         deaf_ms;        // LISTEN was refused then; LEADER_NEVER_: it was not
    int64_t         mute_until_ms;  // the server's queue of notices is full: write without
    leader_pg_sent_ flight[LEADER_PG_FLIGHT_MAX_];
    int             flight_at, flight_count;
    int             blanks;         // ends of results in a row
    int             waiting;        // requests that need a connection or a place in flight

    leader_pg      *first;          // all that are open; the first carries the socket
    leader_pg      *caller;         // the one whose function is running
    leader_pg      *bucket[LEADER_PG_BUCKETS_];     // by name, for notices
};

struct leader_pg {
    leader_engine     engine;       // first: what the core calls self
    leader_host       host;
    leader_pg_client *client;
    leader_pg        *next, *prev, *bucket_next;
    char              name[128];
    char              error[160];   // of the name; "": none

    int               phase;        // LEADER_PG_IDLE_ and so on
    uint64_t          call_id;
    leader_result     result;
    bool              creates;      // the table is missing and is to be created
    char              text[300];    // what went wrong
    leader_entry      answer;

    bool              told_listening, told_deaf, told_changed, told_record;
    leader_entry      told;         // the latest notice
    leader_pg_client  own;
};

#ifdef __cplusplus
}
#endif
#endif /* LEADER_PG_H_INCLUDED */

/* ================================================================================================== */
#if defined(LEADER_IMPLEMENTATION_DONE) && !defined(LEADER_PG_IMPLEMENTATION_DONE)
#define LEADER_PG_IMPLEMENTATION_DONE

/* The seam. These functions of libpq, poll, fcntl, close, and for inherited connections socket and dup2:
   nothing else leaves this file. A simulator replaces them; PQsocket may answer -1 (always ready).

   PQconninfoParse PQconndefaults PQconninfoFree PQconnectStartParams PQconnectPoll PQconnectionNeedsPassword
   PQsetErrorVerbosity PQsetNoticeProcessor PQsetnonblocking PQenterPipelineMode PQsendQueryParams
   PQpipelineSync PQflush PQconsumeInput PQisBusy PQgetResult PQresultStatus PQresultErrorField PQntuples
   PQgetvalue PQclear PQnotifies PQfreemem PQstatus PQerrorMessage PQsocket PQfinish */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <libpq-fe.h>

#if defined(LIBPQ_HAS_PIPELINING) && !defined(LEADER_PG_NO_PIPELINE)
#  define LEADER_PG_PIPELINE_ 1
#else
#  define LEADER_PG_PIPELINE_ 0
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { LEADER_PG_OFF_, LEADER_PG_CONNECTING_, LEADER_PG_READY_ };                           // client.stage
enum { LEADER_PG_IDLE_, LEADER_PG_WAITING_, LEADER_PG_SENT_, LEADER_PG_DONE_ };             // pg.phase
enum { LEADER_PG_LISTEN_, LEADER_PG_CREATE_, LEADER_PG_READ_, LEADER_PG_WRITE_ };           // sent.kind

/* ---- statements ---------------------------------------------------------------------------------- */

static const char leader_pg_create_sql_[] =
    "CREATE TABLE IF NOT EXISTS %s (name text PRIMARY KEY, holder text NOT NULL, token bigint NOT NULL,"
    " lease_ms bigint NOT NULL, acquired timestamptz NOT NULL, renewed timestamptz NOT NULL,"
    " value text NOT NULL, heir text NOT NULL, hold_off_ms bigint NOT NULL, renewal bigint NOT NULL,"
    " seq bigint NOT NULL, nonce text NOT NULL, origin text NOT NULL, version text NOT NULL)"
    " WITH (fillfactor = 50)";

static const char leader_pg_listen_sql_[] = "LISTEN \"%s\"";

/* Always one line: the row or '', and whether this server would refuse a write. */
static const char leader_pg_read_sql_[] =
    "SELECT coalesce((SELECT row_to_json(t)::text FROM %s AS t WHERE name = $1), ''),"
    " current_setting('transaction_read_only')";

/* One statement, hence one transaction: the row and its notice. An unknown row in the way, or one that
   somebody else has locked, is a conflict: no statement ever waits in front of those of other elections. */
static const char leader_pg_insert_sql_[] =
    "WITH w AS (INSERT INTO %s (name, version, holder, value, heir, nonce, seq, token, lease_ms, hold_off_ms,"
    " origin, renewal, acquired, renewed) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,"
    " to_timestamp($13::float8 / 1000000), to_timestamp($13::float8 / 1000000))"
    " ON CONFLICT (name) DO NOTHING RETURNING *)"
    " SELECT CASE WHEN $14::text <> '' THEN pg_notify($14::text, row_to_json(w)::text) END FROM w";

static const char leader_pg_update_sql_[] =
    "WITH w AS (UPDATE %s SET version = $2, holder = $3, value = $4, heir = $5, nonce = $6, seq = $7,"
    " token = $8, lease_ms = $9, hold_off_ms = $10, origin = $11, renewal = $12,"
    " acquired = CASE WHEN $16::boolean THEN to_timestamp($13::float8 / 1000000) ELSE acquired END,"
    " renewed = to_timestamp($13::float8 / 1000000)"
    " WHERE name = $1 AND version ="
    " (SELECT version FROM %s WHERE name = $1 AND version = $15 FOR UPDATE SKIP LOCKED) RETURNING *)"
    " SELECT CASE WHEN $14::text <> '' THEN pg_notify($14::text, row_to_json(w)::text) END FROM w";

/* The columns that decide, as leader.h reads JSON. First those that count even if a later one cannot be read:
   for how long the row keeps others out. */
static const leader_field_ leader_pg_fields_[] = {
    {"lease_ms", LEADER_NUMBER_, true, offsetof(leader_entry, lease_ms), "a whole number below 2^53"},
    {"hold_off_ms", LEADER_NUMBER_, true, offsetof(leader_entry, hold_off_ms), "a whole number below 2^53"},
    {"holder", LEADER_TEXT_, true, offsetof(leader_entry, holder), "at most 255 bytes"},
    {"value", LEADER_TEXT_, true, offsetof(leader_entry, value), "at most 255 bytes"},
    {"heir", LEADER_TEXT_, true, offsetof(leader_entry, heir), "at most 255 bytes"},
    {"nonce", LEADER_HEX_, true, offsetof(leader_entry, nonce), "16 hexadecimal digits"},
    {"origin", LEADER_HEX_, true, offsetof(leader_entry, origin), "16 hexadecimal digits"},
    {"seq", LEADER_NUMBER_, true, offsetof(leader_entry, seq), "a whole number below 2^53"},
    {"token", LEADER_NUMBER_, true, offsetof(leader_entry, token), "a whole number below 2^53"},
    {"renewal", LEADER_NUMBER_, true, offsetof(leader_entry, renewal), "a whole number below 2^53"}};

/* For people, and to tell two writes apart; one that cannot be read is unknown. */
static void leader_pg_times_(leader_json_ row, leader_entry *out) {
    static const leader_field_ times[] = {
        {"acquired", LEADER_TIME_, false, offsetof(leader_entry, acquired_us), ""},
        {"renewed", LEADER_TIME_, false, offsetof(leader_entry, renewed_us), ""}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        leader_json_ json = {NULL, 0};
        if (leader_json_member_(row, times[i].name, &json)) {
            leader_field_read_(&times[i], json, out);
        }
    }
}

static bool leader_pg_member_(leader_json_ row, const char *name, char *out, size_t cap) {
    leader_json_ json = {NULL, 0};
    return leader_json_member_(row, name, &json) && leader_json_string_(json, out, cap);
}

/* A row as JSON: the answer to a SELECT, or a notice. False: `why` names the column; the version is set if
   it can be told, so that the row can be replaced once a full lease has passed. */
static bool leader_pg_parse_(const char *text, char *name, size_t name_cap, leader_entry *out, char *why,
                             size_t cap) {
    size_t len = strlen(text);
    size_t bad_at = 0;
    leader_json_ row;
    memset(out, 0, sizeof *out);
    snprintf(why, cap, "the row is not JSON");
    if (!leader_json_parse_(text, len, &row, &bad_at)) {
        return false;
    }
    snprintf(why, cap, "name or version cannot be read");
    if (!leader_pg_member_(row, "name", name, name_cap)) {
        return false;
    }
    if (!leader_pg_member_(row, "version", out->version, sizeof out->version)) {
        memset(out->version, 0, sizeof out->version);
        return false;
    }
    leader_pg_times_(row, out);
    for (size_t i = 0; i < sizeof leader_pg_fields_ / sizeof leader_pg_fields_[0]; i++) {
        const leader_field_ *field = &leader_pg_fields_[i];
        leader_json_ json = {NULL, 0};
        bool there = leader_json_member_(row, field->name, &json);
        if (!there || !leader_field_read_(field, json, out)) {
            snprintf(why, cap, "column %s is not %s", field->name, field->want);
            memset((char *)out + field->at, 0, sizeof out->lease_ms);   // it says nothing
            out->renewal = leader_hash_(text, len) >> 12;   // another unreadable row is another form
            return false;
        }
    }
    return true;
}

/* ---- errors -------------------------------------------------------------------------------------- */

typedef struct leader_pg_state_ {
    const char   *code;             // SQLSTATE, or its first characters
    leader_result result;
    bool          leave;            // this server cannot serve us: try another
    const char   *advice;
} leader_pg_state_;

static const leader_pg_state_ leader_pg_states_[] = {
    {"28P01", LEADER_E_AUTH, true, "check user and password in conninfo, PGPASSWORD or ~/.pgpass"},
    {"28", LEADER_E_AUTH, true, "check user and pg_hba.conf"},
    {"3D000", LEADER_E_STORE, true, "createdb it, or name another with dbname="},
    {"42501", LEADER_E_AUTH, false, "GRANT SELECT, INSERT, UPDATE ON it, or create it: see leader_pg.h"},
    {"42P01", LEADER_E_STORE, false, "create it: see leader_pg.h"},
    {"3F000", LEADER_E_STORE, false, "CREATE SCHEMA, or name another table"},
    {"42", LEADER_E_STORE, false, "is it leader.h's table? Its columns are in leader_pg.h"},
    {"25006", LEADER_E_IO, true, "a replica: name the primary as well"},
    {"40", LEADER_LOST, false, ""},        // only a statement fails like this, never a connection
    {"57014", LEADER_E_TIMEOUT, false, "raise statement_timeout"},
    {"57P", LEADER_E_IO, true, "the server stops, starts or ended the session; trying again"},
    {"53100", LEADER_E_STORE, false, "free space on the server"},
    {"53300", LEADER_E_STORE, true, "raise max_connections, or share one leader_pg_client"},
    {"08", LEADER_E_IO, true, "connection failed"},
    {"", LEADER_E_STORE, false, ""}};

static const leader_pg_state_ *leader_pg_state_of_(const char *code) {
    const leader_pg_state_ *state = leader_pg_states_;
    while (strncmp(code, state->code, strlen(state->code)) != 0) {
        state++;
    }
    return state;
}

/* One line of plain characters: what a server says goes into logs. */
static void leader_pg_plain_(char *out, size_t cap, const char *text, size_t len) {
    size_t n = 0;
    for (; n < len && n + 1 < cap && text[n] != '\n'; n++) {
        bool plain = (unsigned char)text[n] >= ' ' && text[n] != 127;
        out[n] = plain ? text[n] : '?';
    }
    while (n > 0 && out[n - 1] == ' ') {
        n--;
    }
    out[n] = 0;
}

static void leader_pg_explain_(const leader_pg_client *client, char *out, size_t cap, const char *message,
                               const char *advice) {
    char plain[160];
    leader_pg_plain_(plain, sizeof plain, message, strlen(message));
    const char *colon = advice[0] ? ": " : "";
    snprintf(out, cap, "PostgreSQL %.90s: %s%s%s", client->where, plain, colon, advice);
}

/* A failed connection has no SQLSTATE of its own, but the verbose text has: "FATAL:  28P01: password ...". */
static const char *leader_pg_find_state_(const char *text, char code[6]) {
    code[0] = 0;
    for (const char *at = strstr(text, ":  "); at; at = strstr(at + 1, ":  ")) {
        const char *word = at + 3;
        bool five = strspn(word, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5;
        if (five && word[5] == ':' && word[6] == ' ') {
            memcpy(code, word, 5);
            code[5] = 0;
            return word + 7;
        }
    }
    const char *failed = strstr(text, " failed: ");
    return failed ? failed + strlen(" failed: ") : text;
}

/* ---- answers to requests ------------------------------------------------------------------------- */

static void leader_pg_wake_(leader_pg *pg) {
    if (pg != pg->client->caller) {
        pg->host.due(pg->host.core);
    }
}

static void leader_pg_set_phase_(leader_pg *pg, int phase) {
    bool waited = pg->phase == LEADER_PG_WAITING_;
    bool waits = phase == LEADER_PG_WAITING_;
    pg->client->waiting += (int)waits - (int)waited;
    pg->phase = phase;
}

static void leader_pg_finish_(leader_pg *pg, leader_result result, const char *text) {
    leader_pg_set_phase_(pg, LEADER_PG_DONE_);
    pg->result = result;
    snprintf(pg->text, sizeof pg->text, "%s", text);
    leader_pg_wake_(pg);
}

/* The answer to a statement in flight belongs to nobody any more. */
static void leader_pg_forget_(leader_pg *pg) {
    leader_pg_client *client = pg->client;
    for (int i = 0; i < client->flight_count; i++) {
        leader_pg_sent_ *sent = &client->flight[(client->flight_at + i) % LEADER_PG_FLIGHT_MAX_];
        if (sent->owner == pg) {
            sent->owner = NULL;
        }
    }
    leader_pg_set_phase_(pg, LEADER_PG_IDLE_);
}

/* ---- connection ---------------------------------------------------------------------------------- */

static void leader_pg_watch_(leader_pg_client *client, int events) {
    leader_pg *carrier = client->first;
    if (!client->watching || client->events == events || !carrier) {
        return;
    }
    client->events = events;
    carrier->host.fd(carrier->host.core, client->fd, events);
}

static void leader_pg_unwatch_(leader_pg_client *client) {
    if (client->watching) {
        leader_pg_watch_(client, 0);
        close(client->fd);
        client->watching = false;
    }
}

static void leader_pg_rewatch_(leader_pg_client *client) {
    leader_pg_unwatch_(client);
    int fd = PQsocket(client->conn);
    if (fd < 0) {
        return;
    }
    client->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    client->watching = client->fd >= 0;
    client->events = 0;
}

static bool leader_pg_is_ready_(const leader_pg_client *client, short events) {
    struct pollfd wait;
    wait.fd = client->fd;
    wait.events = events;
    wait.revents = 0;
    return !client->watching || poll(&wait, 1, 0) > 0;
}

static void leader_pg_disconnect_(leader_pg_client *client) {
    leader_pg_unwatch_(client);
    PQfinish(client->conn);
    client->conn = NULL;
    client->stage = LEADER_PG_OFF_;
    client->flight_at = 0;
    client->flight_count = 0;
    client->blanks = 0;
    for (leader_pg *pg = client->first; pg && client->listening; pg = pg->next) {
        pg->told_deaf = true;
        pg->told_listening = false;
    }
    client->was_listening = client->was_listening || client->listening;
    client->listening = false;
}

/* The end of a connection, or of the attempt to get one: all that depend on it hear why. However often that
   fails, it is tried again within a second: users wait for a server that is back. */
static void leader_pg_lose_(leader_pg_client *client, leader_result result, const char *text) {
    enum { FIRST_MS = 50, DOUBLINGS_MAX = 3 };
    bool was_ready = client->stage == LEADER_PG_READY_;
    leader_pg_disconnect_(client);
    client->target++;
    client->retry_at_ms = client->now_ms;
    if (!was_ready) {
        client->tried++;
        if (client->tried < client->server_count) {
            return;                 // the next server may do
        }
        client->tried = 0;
        int64_t delay_ms = FIRST_MS << leader_min_(client->failures, DOUBLINGS_MAX);
        client->retry_at_ms += delay_ms + (int64_t)(LEADER_RANDOM64() % (uint64_t)delay_ms);
        client->failures++;
    }
    for (leader_pg *pg = client->first; pg; pg = pg->next) {
        bool sent = pg->phase == LEADER_PG_SENT_;
        bool waited = pg->phase == LEADER_PG_WAITING_ && !was_ready;
        if (sent || waited) {
            leader_pg_finish_(pg, result, text);
        }
    }
}

/* What libpq says about the connection. */
static void leader_pg_lose_by_libpq_(leader_pg_client *client) {
    char text[300];
    char code[6];
    const char *message = leader_pg_find_state_(PQerrorMessage(client->conn), code);
    const leader_pg_state_ *state = leader_pg_state_of_(code);
    leader_result result = code[0] ? state->result : LEADER_E_IO;
    const char *advice = state->advice;
    if (PQconnectionNeedsPassword(client->conn)) {
        result = LEADER_E_AUTH;
        advice = "set password= in conninfo, PGPASSWORD or ~/.pgpass";
    }
    leader_pg_explain_(client, text, sizeof text, message[0] ? message : "connection lost", advice);
    leader_pg_lose_(client, result, text);
}

static void leader_pg_lose_because_(leader_pg_client *client, leader_result result, const char *message) {
    char text[300];
    leader_pg_explain_(client, text, sizeof text, message, "");
    leader_pg_lose_(client, result, text);
}

/* ---- servers of the conninfo --------------------------------------------------------------------- */

/* The index'th of a list with commas. False: there are fewer, or it is too long. */
static bool leader_pg_item_(const char *list, int index, char *out, size_t cap) {
    out[0] = 0;
    for (; index > 0; index--) {
        list += strcspn(list, ",");
        if (*list == 0) {
            return false;
        }
        list++;
    }
    size_t len = strcspn(list, ",");
    if (len >= cap) {
        return false;
    }
    memcpy(out, list, len);
    out[len] = 0;
    return true;
}

static int leader_pg_count_(const char *list) {
    int count = 1;
    for (const char *at = strchr(list, ','); at; at = strchr(at + 1, ',')) {
        count++;
    }
    return count;
}

static bool leader_pg_is_numeric_(const char *host) {
    unsigned char raw[16];
    return inet_pton(AF_INET, host, raw) == 1 || inet_pton(AF_INET6, host, raw) == 1;
}

typedef struct leader_pg_server_ {
    char host[256], address[64], port[16];
} leader_pg_server_;

/* The index'th server. Answers what is wrong with it, or NULL. */
static const char *leader_pg_server_at_(const leader_pg_client *client, int index,
                                        leader_pg_server_ *server) {
    bool has_host = leader_pg_item_(client->hosts, index, server->host, sizeof server->host);
    bool has_address = leader_pg_item_(client->addresses, index, server->address, sizeof server->address);
    if (!leader_pg_item_(client->ports, index, server->port, sizeof server->port)) {
        leader_pg_item_(client->ports, 0, server->port, sizeof server->port);
    }
    if (client->addresses[0]) {
        bool numeric = has_address && leader_pg_is_numeric_(server->address);
        return numeric ? NULL : "hostaddr must have an address for every host";
    }
    if (!has_host) {
        return "is too long";
    }
    const char *host = server->host;
    if (leader_pg_is_numeric_(host)) {
        snprintf(server->address, sizeof server->address, "%.63s", host);
        return NULL;
    }
    if (strcmp(host, "localhost") == 0) {
        snprintf(server->address, sizeof server->address, "127.0.0.1");
        return NULL;
    }
    bool local = host[0] == 0 || host[0] == '/' || host[0] == '@';
    return local ? NULL : "is a name, and looking it up would block: give hostaddr=ADDRESS as well";
}

static const char *leader_pg_option_(const PQconninfoOption *options, const char *name) {
    for (; options && options->keyword; options++) {
        if (strcmp(options->keyword, name) == 0 && options->val) {
            return options->val;
        }
    }
    return "";
}

/* Where the servers are: from conninfo, or as libpq would choose without it. Errors do not quote conninfo,
   which may have a password. */
static const char *leader_pg_read_servers_(leader_pg_client *client, const PQconninfoOption *given,
                                           const PQconninfoOption *defaults) {
    if (!given || !defaults) {
        return "conninfo is neither \"key=value ...\" nor postgresql://...";
    }
    if (leader_pg_option_(given, "service")[0]) {
        return "conninfo: service= is not supported: give host, port, dbname and so on";
    }
    const char *attrs = leader_pg_option_(given, "target_session_attrs");
    bool writable = strcmp(attrs, "read-write") == 0 || strcmp(attrs, "primary") == 0;
    client->replicas_do = attrs[0] && !writable;
    bool placed = leader_pg_option_(given, "host")[0] || leader_pg_option_(given, "hostaddr")[0];
    const PQconninfoOption *place = placed ? given : defaults;
    const PQconninfoOption *port = leader_pg_option_(given, "port")[0] ? given : defaults;
    snprintf(client->hosts, sizeof client->hosts, "%s", leader_pg_option_(place, "host"));
    snprintf(client->addresses, sizeof client->addresses, "%s", leader_pg_option_(place, "hostaddr"));
    snprintf(client->ports, sizeof client->ports, "%s", leader_pg_option_(port, "port"));
    client->server_count = leader_pg_count_(client->addresses[0] ? client->addresses : client->hosts);
    for (int i = 0; i < client->server_count; i++) {
        leader_pg_server_ server;
        const char *wrong = leader_pg_server_at_(client, i, &server);
        if (wrong) {
            snprintf(client->error, sizeof client->error, "conninfo: host \"%.60s\" %s", server.host, wrong);
            return client->error;
        }
    }
    return NULL;
}

static const char *leader_pg_check_conninfo_(leader_pg_client *client) {
    PQconninfoOption *given = PQconninfoParse(client->conninfo, NULL);
    PQconninfoOption *defaults = PQconndefaults();
    const char *wrong = leader_pg_read_servers_(client, given, defaults);
    PQconninfoFree(given);
    PQconninfoFree(defaults);
    return wrong;
}

/* ---- connecting ---------------------------------------------------------------------------------- */

static void leader_pg_silence_(void *unused, const char *text) {
    (void)unused;
    (void)text;
}

static void leader_pg_connect_(leader_pg_client *client) {
    leader_pg_server_ server;
    leader_pg_server_at_(client, client->target % client->server_count, &server);
    const char *name = server.host[0] ? server.host : server.address;
    snprintf(client->where, sizeof client->where, "%s:%s", name[0] ? name : "local socket", server.port);
    /* What comes before dbname can be overridden by conninfo, which dbname stands for; the rest cannot. */
    const char *const keywords[] = {"fallback_application_name", "target_session_attrs", "gssencmode",
                                    "dbname", "host", "hostaddr", "port", "client_encoding", NULL};
    const char *const values[] = {"leader.h", "read-write", "disable",
                                  client->conninfo, server.host, server.address, server.port, "UTF8", NULL};
    client->conn = PQconnectStartParams(keywords, values, 1);
    client->deadline_ms = client->now_ms + client->connect_timeout_ms;
    client->stage = LEADER_PG_CONNECTING_;
    client->polling = PGRES_POLLING_WRITING;
    if (!client->conn || PQstatus(client->conn) == CONNECTION_BAD) {
        leader_pg_lose_by_libpq_(client);
        return;
    }
    PQsetErrorVerbosity(client->conn, PQERRORS_VERBOSE);    // errors have their SQLSTATE
    PQsetNoticeProcessor(client->conn, leader_pg_silence_, NULL);
    leader_pg_rewatch_(client);
}

static void leader_pg_send_listen_(leader_pg_client *client);

static void leader_pg_wake_waiting_(leader_pg_client *client) {
    for (leader_pg *pg = client->first; pg && client->waiting > 0; pg = pg->next) {
        if (pg->phase == LEADER_PG_WAITING_) {
            leader_pg_wake_(pg);
        }
    }
}

static void leader_pg_connected_(leader_pg_client *client) {
    bool set = PQsetnonblocking(client->conn, 1) == 0;
#if LEADER_PG_PIPELINE_
    set = set && PQenterPipelineMode(client->conn) == 1;
#endif
    if (!set) {
        leader_pg_lose_by_libpq_(client);
        return;
    }
    client->stage = LEADER_PG_READY_;
    client->tried = 0;
    client->failures = 0;
    client->mute_until_ms = LEADER_NEVER_;
    client->quiet_ms = client->now_ms;
    client->deaf_ms = LEADER_NEVER_;
    if (!client->no_listen) {       // first of all, so that no change goes unheard after the first look
        leader_pg_send_listen_(client);
    }
    leader_pg_wake_waiting_(client);
}

/* libpq may close its socket and open another in here, hence the new watch. */
static void leader_pg_connect_step_(leader_pg_client *client) {
    enum { STEPS_MAX = 16 };
    for (int i = 0; i < STEPS_MAX && client->stage == LEADER_PG_CONNECTING_; i++) {
        short wanted = client->polling == PGRES_POLLING_READING ? POLLIN : POLLOUT;
        if (!leader_pg_is_ready_(client, wanted)) {
            break;
        }
        leader_pg_unwatch_(client);
        client->polling = (int)PQconnectPoll(client->conn);
        leader_pg_rewatch_(client);
        if (client->polling == PGRES_POLLING_OK) {
            leader_pg_connected_(client);
        } else if (client->polling == PGRES_POLLING_FAILED) {
            leader_pg_lose_by_libpq_(client);
        }
    }
    if (client->stage == LEADER_PG_CONNECTING_ && client->now_ms >= client->deadline_ms) {
        char text[80];
        snprintf(text, sizeof text, "no connection within %lld ms", (long long)client->connect_timeout_ms);
        leader_pg_lose_because_(client, LEADER_E_TIMEOUT, text);
    }
}

/* ---- statements on the wire ---------------------------------------------------------------------- */

static bool leader_pg_has_room_(const leader_pg_client *client) {
    int room = LEADER_PG_PIPELINE_ ? LEADER_PG_FLIGHT_MAX_ : 1;
    return client->stage == LEADER_PG_READY_ && client->flight_count < room;
}

static bool leader_pg_send_(leader_pg_client *client, leader_pg *owner, int kind, const char *sql, int count,
                            const char *const *values) {
    bool sent = PQsendQueryParams(client->conn, sql, count, NULL, values, NULL, NULL, 0) == 1;
#if LEADER_PG_PIPELINE_
    sent = sent && PQpipelineSync(client->conn) == 1;   // each statement a transaction of its own
#endif
    if (!sent || PQflush(client->conn) < 0) {
        leader_pg_lose_by_libpq_(client);
        return false;
    }
    int at = (client->flight_at + client->flight_count) % LEADER_PG_FLIGHT_MAX_;
    if (client->flight_count == 0) {
        client->quiet_ms = client->now_ms;
    }
    client->flight[at].owner = owner;
    client->flight[at].kind = kind;
    client->flight_count++;
    return true;
}

static void leader_pg_send_listen_(leader_pg_client *client) {
    char sql[100];
    snprintf(sql, sizeof sql, leader_pg_listen_sql_, client->table);
    leader_pg_send_(client, NULL, LEADER_PG_LISTEN_, sql, 0, NULL);
}

/* A LISTEN that was refused is tried again once a lease, behind the answer to another statement. */
static void leader_pg_listen_again_(leader_pg_client *client) {
    if (client->deaf_ms == LEADER_NEVER_ || !client->first || !leader_pg_has_room_(client)) {
        return;
    }
    if (client->now_ms >= client->deaf_ms + client->first->host.config->lease_ms) {
        client->deaf_ms = LEADER_NEVER_;
        client->was_listening = true;       // what changed meanwhile went unheard
        leader_pg_send_listen_(client);
    }
}

static void leader_pg_send_create_(leader_pg *pg) {
    char sql[700];
    snprintf(sql, sizeof sql, leader_pg_create_sql_, pg->client->table);
    leader_pg_send_(pg->client, pg, LEADER_PG_CREATE_, sql, 0, NULL);
}

static void leader_pg_send_read_(leader_pg *pg) {
    char sql[240];
    const char *const values[] = {pg->name};
    snprintf(sql, sizeof sql, leader_pg_read_sql_, pg->client->table);
    leader_pg_send_(pg->client, pg, LEADER_PG_READ_, sql, 1, values);
}

static void leader_pg_send_write_(leader_pg *pg, const leader_call *call, const leader_entry *next) {
    enum { NUMBERS = 9, DIGITS = 24, INSERT_COUNT = 14, UPDATE_COUNT = 16 };
    char sql[1200];
    char text[NUMBERS][DIGITS];
    const leader_pg_client *client = pg->client;
    bool exists = next->version[0] != 0;
    snprintf(text[0], DIGITS, "%016llx", (unsigned long long)LEADER_RANDOM64());
    snprintf(text[1], DIGITS, "%016llx", (unsigned long long)next->nonce);
    snprintf(text[2], DIGITS, "%llu", (unsigned long long)next->seq);
    snprintf(text[3], DIGITS, "%llu", (unsigned long long)next->token);
    snprintf(text[4], DIGITS, "%lld", (long long)next->lease_ms);
    snprintf(text[5], DIGITS, "%lld", (long long)next->hold_off_ms);
    snprintf(text[6], DIGITS, "%016llx", (unsigned long long)next->origin);
    snprintf(text[7], DIGITS, "%llu", (unsigned long long)next->renewal);
    snprintf(text[8], DIGITS, "%lld", (long long)next->renewed_us);
    bool mute = client->now_ms < client->mute_until_ms;
    const char *channel = mute ? "" : client->table;     // others may listen, if we do not
    const char *begins = call->begins ? "true" : "false";
    const char *const values[UPDATE_COUNT] = {
        pg->name, text[0], next->holder, next->value, next->heir, text[1], text[2], text[3],
        text[4], text[5], text[6], text[7], text[8], channel, next->version, begins};
    pg->answer = *next;
    memcpy(pg->answer.version, text[0], strlen(text[0]) + 1);
    if (exists) {
        snprintf(sql, sizeof sql, leader_pg_update_sql_, client->table, client->table);
    } else {
        snprintf(sql, sizeof sql, leader_pg_insert_sql_, client->table);
    }
    int count = exists ? UPDATE_COUNT : INSERT_COUNT;
    leader_pg_send_(pg->client, pg, LEADER_PG_WRITE_, sql, count, values);
}

/* ---- answers from the server --------------------------------------------------------------------- */

/* A server that has turned into a replica, or was left behind by a fail-over, shows an old row for ever. */
static void leader_pg_leave_behind_(leader_pg *pg) {
    char text[300];
    const leader_pg_state_ *state = leader_pg_state_of_("25006");
    leader_pg_explain_(pg->client, text, sizeof text, "the server is read-only", state->advice);
    leader_pg_lose_(pg->client, state->result, text);
}

static void leader_pg_read_answered_(leader_pg *pg, const PGresult *result) {
    char name[sizeof pg->name];
    char why[100];
    char text[300];
    memset(&pg->answer, 0, sizeof pg->answer);
    if (PQntuples(result) != 1) {
        leader_pg_finish_(pg, LEADER_E_CORRUPT, "PostgreSQL: an answer that is none");
        return;
    }
    if (!pg->client->replicas_do && strcmp(PQgetvalue(result, 0, 1), "on") == 0) {
        leader_pg_leave_behind_(pg);
        return;
    }
    if (PQgetvalue(result, 0, 0)[0] == 0) {
        leader_pg_finish_(pg, LEADER_OK, "");
        return;
    }
    if (leader_pg_parse_(PQgetvalue(result, 0, 0), name, sizeof name, &pg->answer, why, sizeof why)) {
        leader_pg_finish_(pg, LEADER_OK, "");
        return;
    }
    char message[240];
    snprintf(message, sizeof message, "row \"%.60s\" of %s: %s", pg->name, pg->client->table, why);
    leader_pg_explain_(pg->client, text, sizeof text, message, "repair or delete it");
    leader_pg_finish_(pg, LEADER_E_CORRUPT, text);
}

static void leader_pg_listens_(leader_pg_client *client) {
    client->listening = true;
    for (leader_pg *pg = client->first; pg; pg = pg->next) {
        pg->told_listening = true;
        pg->told_changed = pg->told_changed || client->was_listening;   // something may have gone unheard
        leader_pg_wake_(pg);
    }
}

static void leader_pg_answered_(leader_pg_client *client, const leader_pg_sent_ *sent,
                                const PGresult *result) {
    leader_pg *pg = sent->owner;
    if (sent->kind == LEADER_PG_LISTEN_) {
        leader_pg_listens_(client);
        return;
    }
    if (!pg) {
        return;
    }
    if (sent->kind == LEADER_PG_CREATE_) {
        pg->creates = false;
        leader_pg_set_phase_(pg, LEADER_PG_WAITING_);   // and read again
        leader_pg_wake_(pg);
    } else if (sent->kind == LEADER_PG_READ_) {
        leader_pg_read_answered_(pg, result);
    } else {
        leader_pg_finish_(pg, PQntuples(result) == 1 ? LEADER_OK : LEADER_LOST, "");
    }
}

/* A statement that failed has changed nothing: only a lost connection leaves that open. */
static void leader_pg_refused_(leader_pg_client *client, const leader_pg_sent_ *sent,
                               const PGresult *result) {
    char text[300];
    leader_pg *pg = sent->owner;
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    code = code ? code : "08000";
    const leader_pg_state_ *state = leader_pg_state_of_(code);
    leader_result answer = state->result;
    bool missing = strcmp(code, "42P01") == 0 && sent->kind == LEADER_PG_READ_;
    bool exists = strcmp(code, "23505") == 0 || strcmp(code, "42P07") == 0;
    bool created = sent->kind == LEADER_PG_CREATE_ && exists;
    leader_pg_explain_(client, text, sizeof text, message ? message : "connection lost", state->advice);
    bool unheard = strcmp(code, "54000") == 0 && sent->kind == LEADER_PG_WRITE_;
    if (sent->kind == LEADER_PG_LISTEN_) {
        client->deaf_ms = client->now_ms;
    }
    if (pg && unheard) {            // the queue of notices is full: for a while, writes go without
        client->mute_until_ms = client->now_ms + pg->host.config->lease_ms;
    }
    if (answer == LEADER_LOST && sent->kind != LEADER_PG_WRITE_) {
        answer = LEADER_E_STORE;    // a read cannot conflict with us
    }
    if (pg && (created || (missing && !pg->creates))) {
        pg->creates = missing;
        leader_pg_set_phase_(pg, LEADER_PG_WAITING_);
        leader_pg_wake_(pg);
    } else if (pg) {
        leader_pg_finish_(pg, answer, text);
    }
    if (state->leave) {
        leader_pg_lose_(client, answer, text);
    }
}

/* The statement in front has had its last answer. */
static void leader_pg_land_(leader_pg_client *client) {
    client->flight_at = (client->flight_at + 1) % LEADER_PG_FLIGHT_MAX_;
    client->flight_count--;
}

static void leader_pg_take_result_(leader_pg_client *client, PGresult *result) {
    leader_pg_sent_ sent = client->flight[client->flight_at];
    ExecStatusType status = PQresultStatus(result);
    client->blanks = 0;
    switch (status) {
    case PGRES_TUPLES_OK:
    case PGRES_COMMAND_OK:
        leader_pg_answered_(client, &sent, result);
        break;
#if LEADER_PG_PIPELINE_
    case PGRES_PIPELINE_SYNC:
        leader_pg_land_(client);
        break;
#endif
    default:
        leader_pg_refused_(client, &sent, result);
        break;
    }
}

/* In pipeline mode a statement is over with its sync, otherwise with the first blank. */
static void leader_pg_take_blank_(leader_pg_client *client) {
    enum { BLANKS_MAX = 4 };
    client->blanks++;
    if (!LEADER_PG_PIPELINE_) {
        leader_pg_land_(client);
    } else if (client->blanks > BLANKS_MAX) {
        leader_pg_lose_because_(client, LEADER_E_IO, "answers do not match the requests");
    }
}

static void leader_pg_take_results_(leader_pg_client *client) {
    bool landed = false;
    while (client->stage == LEADER_PG_READY_ && client->flight_count > 0 && !PQisBusy(client->conn)) {
        PGresult *result = PQgetResult(client->conn);
        landed = true;
        if (!result) {
            leader_pg_take_blank_(client);
            continue;
        }
        client->quiet_ms = client->now_ms;
        leader_pg_take_result_(client, result);
        PQclear(result);
    }
    if (landed) {
        leader_pg_listen_again_(client);
        leader_pg_wake_waiting_(client);
    }
}

/* ---- notices ------------------------------------------------------------------------------------- */

static leader_pg **leader_pg_bucket_(leader_pg_client *client, const char *name) {
    return &client->bucket[leader_hash_(name, strlen(name)) % LEADER_PG_BUCKETS_];
}

static void leader_pg_notice_arrived_(leader_pg_client *client, const char *text) {
    char name[128];
    char why[100];
    leader_entry row;
    bool readable = leader_pg_parse_(text, name, sizeof name, &row, why, sizeof why);
    if (!readable && row.version[0] == 0) {
        return;                     // somebody else's notice: polling is always enough
    }
    for (leader_pg *pg = *leader_pg_bucket_(client, name); pg; pg = pg->bucket_next) {
        if (strcmp(pg->name, name) != 0) {
            continue;
        }
        pg->told = row;
        pg->told_record = readable;
        pg->told_changed = pg->told_changed || !readable;
        leader_pg_wake_(pg);
    }
}

static void leader_pg_take_notices_(leader_pg_client *client) {
    enum { NOTICES_MAX = 1000 };    // a busy channel must not keep the tick
    for (int i = 0; i < NOTICES_MAX; i++) {
        PGnotify *notice = PQnotifies(client->conn);
        if (!notice) {
            return;
        }
        leader_pg_notice_arrived_(client, notice->extra);
        PQfreemem(notice);
    }
}

/* ---- the pump ------------------------------------------------------------------------------------ */

static void leader_pg_receive_(leader_pg_client *client) {
    bool alive = PQconsumeInput(client->conn) == 1;
    leader_pg_take_results_(client);
    if (client->stage != LEADER_PG_READY_) {
        return;
    }
    leader_pg_take_notices_(client);
    if (!alive || PQflush(client->conn) < 0 || PQstatus(client->conn) == CONNECTION_BAD) {
        leader_pg_lose_by_libpq_(client);
    }
}

/* Does what can be done now; never waits. */
static void leader_pg_pump_(leader_pg_client *client) {
    bool wanted = client->waiting > 0 || client->was_listening;
    if (client->stage == LEADER_PG_OFF_ && wanted && client->now_ms >= client->retry_at_ms) {
        leader_pg_connect_(client);
    }
    if (client->stage == LEADER_PG_CONNECTING_) {
        leader_pg_connect_step_(client);
    }
    if (client->stage == LEADER_PG_READY_) {
        leader_pg_receive_(client);
    }
}

/* A connection of the parent's. PQfinish would say good-bye on it and end the parent's session, so it gets
   a socket that leads nowhere first. */
static void leader_pg_abandon_(leader_pg_client *client) {
    int fd = client->conn ? PQsocket(client->conn) : -1;
    if (client->watching) {
        close(client->fd);
    }
    int nowhere = fd >= 0 ? socket(AF_UNIX, SOCK_STREAM, 0) : -1;
    if (nowhere >= 0) {
        dup2(nowhere, fd);
        close(nowhere);
        PQfinish(client->conn);
    }
    size_t settings = offsetof(leader_pg_client, pid);
    memset((char *)client + settings, 0, sizeof *client - settings);
}

/* The first in the list carries the socket. It may have stopped, or nobody ticks it any more. */
static void leader_pg_carry_(leader_pg_client *client, leader_pg *pg) {
    if (pg == client->first) {
        return;
    }
    leader_pg_watch_(client, 0);
    pg->prev->next = pg->next;
    if (pg->next) {
        pg->next->prev = pg->prev;
    }
    pg->prev = NULL;
    pg->next = client->first;
    client->first->prev = pg;
    client->first = pg;
}

static leader_pg_client *leader_pg_enter_(leader_pg *pg) {
    enum { IDLE_CARRIER_MS = 1000 };
    leader_pg_client *client = pg->client;
    client->caller = pg;
    client->now_ms = pg->host.now_ms(pg->host.core);
    if (client->now_ms - client->carried_ms > IDLE_CARRIER_MS) {
        leader_pg_carry_(client, pg);
    }
    if (pg == client->first) {
        client->carried_ms = client->now_ms;
    }
    return client;
}

static void leader_pg_leave_(leader_pg_client *client) {
    int events = LEADER_READ;
    if (client->stage == LEADER_PG_CONNECTING_ && client->polling != PGRES_POLLING_READING) {
        events = LEADER_WRITE;
    }
    if (client->stage == LEADER_PG_READY_ && PQflush(client->conn) == 1) {
        events = LEADER_READ | LEADER_WRITE;
    }
    leader_pg_watch_(client, events);
    client->caller = NULL;
}

/* ---- the register -------------------------------------------------------------------------------- */

/* The core is about to give this one up, and cannot say what was silent. */
static void leader_pg_say_slow_(leader_pg *pg, int64_t timeout_ms) {
    char message[80];
    char text[300];
    const char *what = pg->phase == LEADER_PG_SENT_ ? "answer" : "connection";
    snprintf(message, sizeof message, "no %s within %lld ms", what, (long long)timeout_ms);
    leader_pg_explain_(pg->client, text, sizeof text, message, "");
    pg->host.log(pg->host.core, LEADER_LOG_ERROR, text);
}

static void leader_pg_start_(leader_pg *pg, const leader_call *call) {
    leader_pg_forget_(pg);
    pg->call_id = call->id;
    pg->creates = false;
    leader_pg_set_phase_(pg, LEADER_PG_WAITING_);
}

static void leader_pg_send_request_(leader_pg *pg, const leader_call *call, const leader_entry *next) {
    leader_pg_set_phase_(pg, LEADER_PG_SENT_);
    if (pg->creates) {
        leader_pg_send_create_(pg);
    } else if (next) {
        leader_pg_send_write_(pg, call, next);
    } else {
        leader_pg_send_read_(pg);
    }
}

static int64_t leader_pg_again_ms_(const leader_pg_client *client) {
    enum { LOOK_MS = 20 };
    if (client->stage == LEADER_PG_OFF_) {
        return leader_max_(1, client->retry_at_ms - client->now_ms);
    }
    if (!client->watching) {
        return LOOK_MS;             // no descriptor would wake us
    }
    if (client->stage == LEADER_PG_CONNECTING_) {
        return leader_max_(1, client->deadline_ms - client->now_ms);
    }
    return 0;
}

/* An observer does not create the table; to it a missing one has no record. */
static bool leader_pg_is_empty_(const leader_pg *pg, const leader_call *call, const leader_entry *next) {
    return pg->creates && !call->competes && !next;
}

static leader_result leader_pg_request_(leader_pg *pg, const leader_call *call, const leader_entry *next,
                                        leader_entry *out) {
    leader_pg_client *client = leader_pg_enter_(pg);
    leader_result result = LEADER_PENDING;
    if (pg->phase == LEADER_PG_IDLE_ || pg->call_id != call->id) {
        leader_pg_start_(pg, call);
    }
    leader_pg_pump_(client);
    if (leader_pg_is_empty_(pg, call, next)) {
        memset(&pg->answer, 0, sizeof pg->answer);
        leader_pg_finish_(pg, LEADER_OK, "");
    }
    if (pg->phase == LEADER_PG_WAITING_ && leader_pg_has_room_(client)) {
        leader_pg_send_request_(pg, call, next);
    }
    if (pg->phase == LEADER_PG_DONE_) {
        result = pg->result;
        *out = pg->answer;
        leader_pg_set_phase_(pg, LEADER_PG_IDLE_);
        if (result < 0) {
            pg->host.log(pg->host.core, LEADER_LOG_ERROR, pg->text);
        }
    } else if (client->now_ms - call->now_ms >= call->timeout_ms) {
        leader_pg_say_slow_(pg, call->timeout_ms);
    } else {
        out->again_ms = leader_pg_again_ms_(client);
    }
    leader_pg_leave_(client);
    return result;
}

/* leader_backend.fds, and self is the engine: the first member. */
static int leader_pg_fds_(void *self, leader_fd out[], int cap) {
    const leader_pg_client *client = ((const leader_pg *)self)->client;
    if (!client->watching || client->events == 0 || cap < 1) {
        return 0;
    }
    out[0].fd = client->fd;
    out[0].events = client->events;
    return 1;
}

static leader_result leader_pg_read_(void *self, const leader_call *call, leader_entry *found) {
    return leader_pg_request_((leader_pg *)self, call, NULL, found);
}

static leader_result leader_pg_write_(void *self, const leader_call *call, const leader_entry *next,
                                      leader_entry *stored) {
    return leader_pg_request_((leader_pg *)self, call, next, stored);
}

static bool leader_pg_take_flag_(bool *flag) {
    bool was_set = *flag;
    *flag = false;
    return was_set;
}

static leader_news leader_pg_notice_(void *self, leader_entry *found) {
    leader_pg *pg = (leader_pg *)self;
    leader_pg_client *client = leader_pg_enter_(pg);
    leader_pg_pump_(client);
    leader_pg_leave_(client);
    if (leader_pg_take_flag_(&pg->told_deaf)) {
        return LEADER_NEWS_DEAF;
    }
    if (leader_pg_take_flag_(&pg->told_listening)) {
        return LEADER_NEWS_LISTENING;
    }
    if (leader_pg_take_flag_(&pg->told_changed)) {
        return LEADER_NEWS_CHANGED;
    }
    if (leader_pg_take_flag_(&pg->told_record)) {
        *found = pg->told;
        return LEADER_NEWS_RECORD;
    }
    return LEADER_NEWS_NONE;
}

/* An answer is owed, and nothing at all was heard for as long as one may take: the connection is dead,
   whatever TCP thinks. Requests whose time was cut short prove it together, none of them alone. */
static void leader_pg_cancel_(void *self) {
    leader_pg *pg = (leader_pg *)self;
    leader_pg_client *client = leader_pg_enter_(pg);
    bool owes = client->stage == LEADER_PG_READY_ && client->flight_count > 0;
    int64_t silent_ms = client->now_ms - client->quiet_ms;
    bool dead = owes && silent_ms >= pg->host.config->request_timeout_ms;
    leader_pg_forget_(pg);
    if (dead) {
        leader_pg_lose_because_(client, LEADER_E_TIMEOUT, "no answer");
    }
    leader_pg_leave_(client);
}

/* ---- open, close, settings ----------------------------------------------------------------------- */

static bool leader_pg_table_is_valid_(const char *table) {
    size_t word = strspn(table, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (word > 0 && table[word] == '.') {
        table += word + 1;
        word = strspn(table, "abcdefghijklmnopqrstuvwxyz0123456789_");
    }
    return word > 0 && table[word] == 0;
}

static const char *leader_pg_open_(void *self, const leader_host *host) {
    leader_pg *pg = (leader_pg *)self;
    leader_pg_client *client = pg->client;
    if (pg->error[0]) {
        return pg->error;
    }
    if (client->error[0]) {
        return client->error;
    }
    const char *wrong = client->server_count == 0 ? leader_pg_check_conninfo_(client) : NULL;
    if (wrong) {
        return wrong;
    }
    if (client->pid != 0 && client->pid != leader_pid_()) {
        leader_pg_abandon_(client);
    }
    client->pid = leader_pid_();
    pg->host = *host;
    pg->phase = LEADER_PG_IDLE_;
    pg->call_id = 0;
    pg->told_deaf = false;
    pg->told_changed = false;
    pg->told_record = false;
    pg->told_listening = client->listening;
    pg->prev = client->first;       // second in the list: the carrier stays
    pg->next = client->first ? client->first->next : NULL;
    if (pg->next) {
        pg->next->prev = pg;
    }
    if (client->first) {
        client->first->next = pg;
    } else {
        client->first = pg;
    }
    leader_pg **bucket = leader_pg_bucket_(client, pg->name);
    pg->bucket_next = *bucket;
    *bucket = pg;
    return NULL;
}

static void leader_pg_close_(void *self) {
    leader_pg *pg = (leader_pg *)self;
    leader_pg_client *client = pg->client;
    leader_pg_forget_(pg);
    leader_pg **at = leader_pg_bucket_(client, pg->name);
    while (*at != pg) {
        at = &(*at)->bucket_next;
    }
    *at = pg->bucket_next;
    bool carries = pg == client->first;
    if (carries) {
        leader_pg_watch_(client, 0);
    }
    if (carries && !pg->next) {
        leader_pg_disconnect_(client);
        client->was_listening = false;
    }
    if (carries) {
        client->first = pg->next;
    }
    if (pg->prev) {
        pg->prev->next = pg->next;
    }
    if (pg->next) {
        pg->next->prev = pg->prev;
        client->now_ms = pg->next->host.now_ms(pg->next->host.core);
        leader_pg_leave_(client);
    }
}

static void leader_pg_wrong_(leader_pg *pg, const char *text) {
    if (pg->error[0] == 0) {
        snprintf(pg->error, sizeof pg->error, "%s", text);
    }
}

/* The first election of a client says where it connects; the others must agree. */
static void leader_pg_settle_client_(leader_pg *pg, const leader_pg_config *config) {
    leader_pg_client *client = pg->client;
    const char *conninfo = config->conninfo ? config->conninfo : "";
    const char *table = config->table ? config->table : "leader_election";
    if (strlen(conninfo) >= sizeof client->conninfo) {
        leader_pg_wrong_(pg, "conninfo is longer than 1023 bytes");
        return;
    }
    if (!leader_pg_table_is_valid_(table) || strlen(table) >= sizeof client->table) {
        leader_pg_wrong_(pg, "table is not a name or schema.name in a-z, 0-9 and _ of at most 63 bytes");
        return;
    }
    if (config->connect_timeout_ms < 0) {
        leader_pg_wrong_(pg, "connect_timeout_ms is negative");
        return;
    }
    bool settled = client->connect_timeout_ms != 0;
    bool same = strcmp(client->conninfo, conninfo) == 0 && strcmp(client->table, table) == 0;
    if (settled && !same) {
        leader_pg_wrong_(pg, "conninfo or table differs from that of the elections that share this client");
        return;
    }
    snprintf(client->conninfo, sizeof client->conninfo, "%s", conninfo);
    snprintf(client->table, sizeof client->table, "%s", table);
    client->no_listen = config->no_listen;
    client->connect_timeout_ms = config->connect_timeout_ms > 0 ? config->connect_timeout_ms : 1000;
}

LEADER_API leader_result leader_pg_config_from_env(leader_pg_config *config) {
    const char *url = getenv("DATABASE_URL");
    const char *table = getenv("LEADER_PG_TABLE");
    if (table && table[0]) {
        config->table = table;
    }
    if (!url || !url[0]) {
        return LEADER_OK;
    }
    bool ours = strncmp(url, "postgres://", 11) == 0 || strncmp(url, "postgresql://", 13) == 0;
    if (!ours) {
        return LEADER_E_CONFIG;
    }
    config->conninfo = url;
    return LEADER_OK;
}

LEADER_API leader_backend leader_pg_backend(leader_pg *pg, const leader_pg_config *config) {
    leader_register store = {pg, leader_pg_read_, leader_pg_write_, leader_pg_notice_, leader_pg_cancel_,
                             leader_pg_open_, leader_pg_close_, pg->name};
    memset(pg, 0, sizeof *pg);
    pg->client = config->client ? config->client : &pg->own;
    if (!config->name || config->name[0] == 0) {
        leader_pg_wrong_(pg, "name (of the election) is missing");
    } else if (strlen(config->name) >= sizeof pg->name) {
        leader_pg_wrong_(pg, "name (of the election) is longer than 127 bytes");
    } else {
        memcpy(pg->name, config->name, strlen(config->name));
    }
    leader_pg_settle_client_(pg, config);
    leader_backend backend = leader_register_backend(&pg->engine, &store);
    backend.fds = leader_pg_fds_;
    return backend;
}

#ifdef __cplusplus
}
#endif
#endif /* LEADER_PG_IMPLEMENTATION_DONE */
