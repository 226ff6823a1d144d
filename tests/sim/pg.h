/* libpq and a PostgreSQL behind it, for the real backends/leader_pg.h: sessions that keep their order,
   statements that are run long after their sender gave them up, commits whose answer is lost, a replica
   that takes over with or without the last commits, read-only spells, serialization failures, and notices
   that a pooler swallows. What a statement does is read from its text: columns, parameters and conditions
   count only if they are there. */

enum { PG_SESSIONS = 64, PG_PARAMS = 16, PG_COLUMNS = 14, PG_TEXT = 300 };
enum {
    PG_CONNECT,
    PG_STATEMENT,
    PG_BYE,
    PG_ACCEPT,
    PG_REFUSE,
    PG_RESULT,
    PG_NOTICE,
    PG_CLOSED
}; // a packet's status

typedef struct pg_row {
    bool exists;
    char column[PG_COLUMNS][PG_TEXT];
} pg_row;

static const struct {
    const char *name;
    char kind;
} pg_columns[PG_COLUMNS] = { // text, number, time
    {"name", 't'},    {"holder", 't'}, {"token", 'n'},  {"lease_ms", 'n'},    {"acquired", 'z'},
    {"renewed", 'z'}, {"value", 't'},  {"heir", 't'},   {"hold_off_ms", 'n'}, {"renewal", 'n'},
    {"seq", 'n'},     {"nonce", 't'},  {"origin", 't'}, {"version", 't'}};

typedef struct pg_session {
    bool open, listens;
    int who, server;
    uint32_t incarnation;
    uint64_t id;
    int64_t last_us;
    char channel[64];
} pg_session;

static struct {
    bool table;
    pg_row row, backup, stale; // stale: what a server that was left behind shows
    bool has_backup;
    int primary; // of two servers
    int64_t read_only_us;
    pg_session sessions[PG_SESSIONS];
} pg;

struct pg_conn {
    bool in_use, broken, silent, accepted;
    int who, server;
    uint64_t id;
    int64_t last_us;
    char error[160];
    http_packet *answers, *notices;
    int stage; // of the first answer: result, blank, sync
};
struct pg_result {
    ExecStatusType status;
    char code[6];
    int tuples;
    char text[3000], read_only[8];
};

static struct pg_conn pg_conns[SIM_CANDIDATES_MAX];

/* ---- on the way: TCP keeps the order, or nothing more arrives ------------------------------------------ */
static void pg_append(http_packet **list, http_packet *p) {
    while (*list) {
        list = &(*list)->next;
    }
    p->next = NULL;
    *list = p;
}

static void pg_drop_list(http_packet **list) {
    while (*list) {
        http_packet *p = *list;
        *list = p->next;
        http_packet_free(p);
    }
}

static http_packet *pg_packet(int who, uint32_t incarnation, uint64_t id, long kind) {
    http_packet *p = http_packet_new(who, incarnation, id);
    p->status = kind;
    return p;
}

static void pg_to_server(struct pg_conn *conn, http_packet *p) {
    candidate *c = &sim.all[conn->who];
    if (conn->silent || net_loses(c->cut_requests_us, FAULT_LOST_REQUEST)) {
        conn->silent = true;
        http_packet_free(p);
        return;
    }
    int64_t at_us = sim.now_us + net_delay_us();
    conn->last_us = at_us > conn->last_us ? at_us : conn->last_us;
    http_plan(p, EV_PG_REQUEST, conn->last_us);
}

static void pg_to_client(pg_session *s, http_packet *p) {
    if (!s->open || net_loses(sim.all[s->who].cut_replies_us, FAULT_LOST_REPLY)) {
        s->open = false; // the client is left with half a connection
        http_packet_free(p);
        return;
    }
    int64_t at_us = sim.now_us + net_delay_us();
    s->last_us = at_us > s->last_us ? at_us : s->last_us;
    http_plan(p, EV_PG_REPLY, s->last_us);
}

static pg_session *pg_session_of(const http_packet *p) {
    for (int i = 0; i < PG_SESSIONS; i++) {
        if (pg.sessions[i].open && pg.sessions[i].id == p->id) {
            return &pg.sessions[i];
        }
    }
    return NULL;
}

static void pg_close_session(pg_session *s) {
    pg_to_client(s, pg_packet(s->who, s->incarnation, s->id, PG_CLOSED));
    s->open = false;
}

static void pg_server_ends(void) {
    for (int i = 0; i < PG_SESSIONS; i++) {
        if (pg.sessions[i].open) {
            bool tells = rng_percent(&sim.net_rng, 70);
            if (tells) {
                pg_close_session(&pg.sessions[i]);
            }
            pg.sessions[i].open = false;
        }
    }
}

/* ---- statements ---------------------------------------------------------------------------------------- */
static int pg_column(const char *name, size_t len) {
    for (int i = 0; i < PG_COLUMNS; i++) {
        if (strlen(pg_columns[i].name) == len && memcmp(pg_columns[i].name, name, len) == 0) {
            return i;
        }
    }
    violation(&run.others, "there is no column %.*s", (int)len, name);
    return 0;
}

/* The next item of a list with commas: its end. */
static const char *pg_item_end(const char *p) {
    int depth = 0;
    for (; *p && !(depth == 0 && (*p == ',' || *p == ')')); p++) {
        depth += (*p == '(') - (*p == ')');
        if (depth == 0 && strncmp(p, " WHERE ", 7) == 0) {
            break;
        }
    }
    return p;
}

static const char *pg_param_in(const char *item, const char *const *params) {
    const char *dollar = strchr(item, '$');
    int number = dollar ? (int)strtol(dollar + 1, NULL, 10) : 0;
    if (number < 1 || number > PG_PARAMS || !params[number - 1]) {
        violation(&run.others, "a parameter is missing: %.60s", item);
        return "";
    }
    return params[number - 1];
}

static void pg_set(pg_row *row, int column, const char *text) {
    snprintf(row->column[column], PG_TEXT, "%s", text);
}

static void pg_insert(const char *sql, const char *const *params) {
    const char *name = strstr(sql, "(name,") + 1;
    const char *value = strstr(sql, "VALUES (") + 8;
    pg.row.exists = true;
    while (true) {
        size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz_");
        pg_set(&pg.row, pg_column(name, len), pg_param_in(value, params));
        name += len;
        value = pg_item_end(value);
        if (*name != ',' || *value != ',') {
            return;
        }
        name += 2;
        value++;
    }
}

static void pg_update(const char *sql, const char *const *params) {
    const char *item = strstr(sql, " SET ") + 5;
    while (true) {
        size_t len = strspn(item, "abcdefghijklmnopqrstuvwxyz_");
        const char *end = pg_item_end(item);
        const char *when = strstr(item, "CASE WHEN $");
        const char *then = strstr(item, "THEN ");
        bool cased = when && when < end;
        if (!cased) {
            pg_set(&pg.row, pg_column(item, len), pg_param_in(item, params));
        } else if (strcmp(pg_param_in(when, params), "true") == 0) {
            pg_set(&pg.row, pg_column(item, len), pg_param_in(then, params));
        }
        if (*end != ',') {
            return;
        }
        item = end + 1 + strspn(end + 1, " ");
    }
}

static void pg_json(const pg_row *row, tcp_bytes *out) {
    for (int i = 0; i < PG_COLUMNS; i++) {
        char text[PG_TEXT * 6 + 8];
        char head[40];
        snprintf(head, sizeof head, "%c\"%s\":", i == 0 ? '{' : ',', pg_columns[i].name);
        bytes_add(out, head, strlen(head));
        snprintf(text, sizeof text, "%s", row->column[i]);
        if (pg_columns[i].kind == 't') {
            leader_json_quote(text, sizeof text, row->column[i]);
        } else if (pg_columns[i].kind == 'z') {
            char when[28];
            leader_time_text_(when, strtoll(row->column[i], NULL, 10));
            snprintf(text, sizeof text, "\"%s\"", when);
        }
        bytes_add(out, text, strlen(text));
    }
    bytes_add(out, "}", 2);
}

/* Long after all faults, every connection listens that was asked to. */
static bool pg_is_deaf(const candidate *c) {
    for (int i = 0; i < PG_SESSIONS && sim.store == STORE_PG && !c->plan.no_notice; i++) {
        const pg_session *s = &pg.sessions[i];
        if (s->open && s->who == c->number && s->id == pg_conns[c->number].id && !s->listens) {
            return true;
        }
    }
    return false;
}

static void pg_notify(const char *channel) {
    for (int i = 0; i < PG_SESSIONS; i++) {
        pg_session *s = &pg.sessions[i];
        if (!s->open || !s->listens || strcmp(s->channel, channel) != 0) {
            continue;
        }
        if (sim.all[s->who].plan.vague_notice && sim.phase == PHASE_CHAOS) { // a pooler: LISTEN in vain
            run.faults[FAULT_LOST_NOTICE]++;
            continue;
        }
        http_packet *p = pg_packet(s->who, s->incarnation, s->id, PG_NOTICE);
        pg_json(&pg.row, &p->body);
        pg_to_client(s, p);
    }
}

static void pg_changed(const char *sql, const char *const *params, http_packet *reply) {
    reply->ends = true; // one row
    if (strstr(sql, "pg_notify($14::text") && params[13][0]) {
        pg_notify(params[13]);
    } else if (sim.phase >= PHASE_STEADY) {
        violation(&run.others, "%s tells nobody, long after the queue of notices was full", params[2]);
    }
    if (rng_permille(&sim.net_rng, 50)) {
        pg.backup = pg.row;
        pg.has_backup = true;
    }
}

static void pg_error(http_packet *reply, const char *code) {
    snprintf(reply->path, sizeof reply->path, "%s", code);
}

static void pg_write(const char *sql, const char *const *params, http_packet *reply) {
    bool insert = strstr(sql, "INSERT INTO") != NULL;
    const char *version = strstr(sql, "AND version = $15 FOR UPDATE");
    bool same = !version || (params[14] && strcmp(params[14], pg.row.column[PG_COLUMNS - 1]) == 0);
    if (insert && pg.row.exists && !strstr(sql, "ON CONFLICT (name) DO NOTHING")) {
        pg_error(reply, "23505");
    } else if (insert && !pg.row.exists) {
        pg_insert(sql, params);
        pg_changed(sql, params, reply);
    } else if (!insert && pg.row.exists && same
               && !rng_permille(&sim.net_rng, sim.phase == PHASE_CHAOS ? 5 : 0)) {
        pg_update(sql, params); // unless the row is locked, which is a conflict, too
        pg_changed(sql, params, reply);
    }
}

static void pg_execute(pg_session *s, const char *sql, const char *const *params, http_packet *reply) {
    bool behind = s->server != pg.primary;
    bool refuses = behind || sim.now_us < pg.read_only_us;
    const pg_row *row = behind ? &pg.stale : &pg.row;
    if (strncmp(sql, "LISTEN ", 7) == 0) {
        s->listens = true;
        sscanf(sql, "LISTEN \"%63[^\"]", s->channel);
    } else if (strncmp(sql, "SELECT coalesce((SELECT row_to_json(t)", 38) == 0 && pg.table) {
        reply->ends = true;
        if (row->exists && strcmp(row->column[0], params[0]) == 0) {
            pg_json(row, &reply->body);
        }
        snprintf(reply->method, sizeof reply->method, "%s", refuses ? "on" : "off");
    } else if (strncmp(sql, "SELECT", 6) == 0) {
        pg_error(reply, "42P01");
    } else if (refuses) {
        pg_error(reply, "25006");
    } else if (strncmp(sql, "CREATE TABLE IF NOT EXISTS", 26) == 0) {
        pg.table = true;
    } else if (!pg.table) {
        pg_error(reply, "42P01");
    } else {
        pg_write(sql, params, reply);
    }
}

/* ---- the server ---------------------------------------------------------------------------------------- */
static void pg_connects(const http_packet *p) {
    pg_session *s = NULL;
    for (int i = 0; i < PG_SESSIONS; i++) {
        if (!pg.sessions[i].open) {
            s = &pg.sessions[i];
        } else if (!s && pg_conns[pg.sessions[i].who].id != pg.sessions[i].id) { // whose client has left it
            s = &pg.sessions[i];
        }
    }
    if (!s) {
        return;
    }
    memset(s, 0, sizeof *s);
    s->open = true;
    s->who = p->who;
    s->incarnation = p->incarnation;
    s->id = p->id;
    s->server = p->method[0] - '0';
    bool writable = s->server == pg.primary && sim.now_us >= pg.read_only_us;
    bool refused = !writable && strcmp(p->path, "read-write") == 0;
    pg_to_client(s, pg_packet(s->who, s->incarnation, s->id, refused ? PG_REFUSE : PG_ACCEPT));
    s->open = s->open && !refused;
}

static void pg_runs(pg_session *s, const http_packet *p) {
    static const char *const codes[] = {"40001", "57014", "53100", "57P01",
                                        "42501", "54000", "25006", "XX000"};
    const char *params[PG_PARAMS] = {NULL};
    const char *at = p->body.at;
    const char *end = p->body.at + p->body.len;
    const char *sql = at;
    for (int i = 0; i <= PG_PARAMS && at < end; i++, at += strlen(at) + 1) {
        if (i > 0) {
            params[i - 1] = at;
        }
    }
    http_packet *reply = pg_packet(p->who, p->incarnation, p->id, PG_RESULT);
    bool error = sim.now_us < sim.errors_us && rng_percent(&sim.net_rng, 80);
    bool lost = sim.now_us < sim.errors_us && rng_percent(&sim.net_rng, 30);
    if (error && !lost) { // what failed has changed nothing
        pg_error(reply, codes[rng_range(&sim.net_rng, 0, 7)]);
    } else {
        pg_execute(s, sql, params, reply);
    }
    note(NULL, "the server runs %.40s of %d#%llu: %s%s %s", sql, p->who, (unsigned long long)p->id,
         reply->path, reply->ends ? "a row" : "", pg.row.column[PG_COLUMNS - 1]);
    if (lost) { // the deed is done, and nobody hears of it
        http_packet_free(reply);
        pg_close_session(s);
        return;
    }
    bool ended = strcmp(reply->path, "57P01") == 0;
    pg_to_client(s, reply);
    if (ended) {
        pg_close_session(s);
    }
}

static void pg_request_arrives(int at) {
    http_packet *p = http_take(at);
    const candidate *c = &sim.all[p->who];
    pg_session *s = pg_session_of(p);
    if (p->status == PG_STATEMENT
        && (!c->up || c->incarnation != p->incarnation || pg_conns[p->who].id != p->id)) {
        run.faults[FAULT_GIVEN_UP]++;
    }
    if (sim.now_us < sim.outage_us) {
        if (s) {
            s->open = false;
        }
    } else if (p->status == PG_CONNECT) {
        pg_connects(p);
    } else if (s && p->status == PG_BYE) {
        s->open = false;
    } else if (s) {
        pg_runs(s, p);
    }
    http_packet_free(p);
}

/* ---- what happens to it -------------------------------------------------------------------------------- */
static void pg_wipe(void) {
    pg.row.exists = false;
    pg.has_backup = false;
    pg.table = pg.table && rng_percent(&sim.rng, 50); // truncated, or dropped
}

static void pg_fails_over(void) {
    pg.stale = pg.row;
    pg.primary = !pg.primary;
    if (rng_percent(&sim.rng, 50)) {
        pg_server_ends();
    }
}

/* A replica takes over that lacks the last commits: only who has seen them can notice, which is what the
   promise says. */
static bool pg_restore(void) {
    uint64_t renewal = strtoull(pg.backup.column[9], NULL, 10);
    uint64_t token = strtoull(pg.backup.column[2], NULL, 10);
    uint64_t origin = strtoull(pg.backup.column[12], NULL, 16);
    if (!pg.has_backup) {
        return false;
    }
    for (int i = 0; i < sim.count; i++) {
        const candidate *c = &sim.all[i];
        const leader_engine *e = &c->pg.engine;
        bool knows = e->last.origin != origin || e->last.token > token || e->last.renewal > renewal;
        if (c->up && !c->plan.observer && !knows) {
            return false;
        }
    }
    pg_fails_over();
    pg_server_ends();
    pg.row = pg.backup;
    sim.restored_us = sim.now_us;
    return true;
}

static void pg_process_ends(const candidate *c) {
    struct pg_conn *conn = &pg_conns[c->number];
    pg_drop_list(&conn->answers);
    pg_drop_list(&conn->notices);
    conn->in_use = false;
    conn->id = 0;
}

static void pg_reset(void) {
    for (int i = 0; i < SIM_CANDIDATES_MAX; i++) {
        sim.all[i].number = i;
        pg_process_ends(&sim.all[i]);
    }
    memset(&pg, 0, sizeof pg);
}

/* ---- the functions of libpq ---------------------------------------------------------------------------- */
static void pg_reply_arrives(int at) {
    http_packet *p = http_take(at);
    struct pg_conn *conn = &pg_conns[p->who];
    candidate *c = &sim.all[p->who];
    bool mine =
        c->up && c->incarnation == p->incarnation && conn->in_use && conn->id == p->id && !conn->silent;
    if (!mine) {
        run.faults[FAULT_LATE_REPLY]++;
        http_packet_free(p);
        return;
    }
    if (p->status == PG_RESULT) {
        pg_append(&conn->answers, p);
    } else if (p->status == PG_NOTICE) {
        pg_append(&conn->notices, p);
    } else {
        conn->accepted = p->status == PG_ACCEPT;
        conn->broken = p->status != PG_ACCEPT;
        const char *why =
            p->status == PG_REFUSE ? "session is read-only" : "server closed the connection unexpectedly";
        snprintf(conn->error, sizeof conn->error, "connection to server at \"sim\" failed: %s\n", why);
        http_packet_free(p);
    }
    candidate_wake(c);
}

static PQconninfoOption pg_option(const char *keyword, const char *val) {
    PQconninfoOption option;
    memset(&option, 0, sizeof option);
    option.keyword = (char *)(uintptr_t)keyword;
    option.val = (char *)(uintptr_t)val;
    return option;
}

PQconninfoOption *PQconninfoParse(const char *conninfo, char **error) {
    static PQconninfoOption options[2];
    (void)conninfo;
    (void)error;
    options[0] = pg_option("hostaddr", "10.0.0.1,10.0.0.2");
    options[1] = pg_option(NULL, NULL);
    return options;
}

PQconninfoOption *PQconndefaults(void) {
    static PQconninfoOption options[2];
    options[0] = pg_option("port", "5432");
    options[1] = pg_option(NULL, NULL);
    return options;
}

void PQconninfoFree(PQconninfoOption *options) {
    (void)options;
}

PGconn *PQconnectStartParams(const char *const *keywords, const char *const *values, int expand) {
    candidate *c = sim.running;
    struct pg_conn *conn = &pg_conns[c->number];
    const char *wants = "";
    (void)expand;
    sim_point(c, POINT_SYSCALL);
    if (conn->in_use) {
        violation(&run.others, "%d: a second connection", c->number);
    }
    pg_process_ends(c);
    memset(conn, 0, sizeof *conn);
    conn->in_use = true;
    conn->who = c->number;
    conn->id = ++sim.message_ids;
    for (int i = 0; keywords[i]; i++) {
        if (strcmp(keywords[i], "hostaddr") == 0) {
            conn->server = strcmp(values[i], "10.0.0.2") == 0;
        }
        if (strcmp(keywords[i], "target_session_attrs") == 0) {
            wants = values[i];
        }
    }
    http_packet *p = pg_packet(c->number, c->incarnation, conn->id, PG_CONNECT);
    snprintf(p->method, sizeof p->method, "%d", conn->server);
    snprintf(p->path, sizeof p->path, "%s", wants);
    note(c, "connects to server %d as #%llu", conn->server, (unsigned long long)conn->id);
    pg_to_server(conn, p);
    return conn;
}

PostgresPollingStatusType PQconnectPoll(PGconn *conn) {
    sim_point(sim.running, POINT_SYSCALL);
    if (conn->broken) {
        return PGRES_POLLING_FAILED;
    }
    return conn->accepted ? PGRES_POLLING_OK : PGRES_POLLING_READING;
}

int PQsendQueryParams(PGconn *conn, const char *sql, int count, const Oid *types, const char *const *values,
                      const int *lengths, const int *formats, int result_format) {
    candidate *c = sim.running;
    (void)types;
    (void)lengths;
    (void)formats;
    (void)result_format;
    sim_point(c, POINT_SYSCALL);
    if (conn->broken) {
        return 0;
    }
    http_packet *p = pg_packet(c->number, c->incarnation, conn->id, PG_STATEMENT);
    bytes_add(&p->body, sql, strlen(sql) + 1);
    for (int i = 0; i < count; i++) {
        bytes_add(&p->body, values[i], strlen(values[i]) + 1);
    }
    note(c, "sends %.40s on #%llu", sql, (unsigned long long)conn->id);
    pg_to_server(conn, p);
    return 1;
}

int PQconsumeInput(PGconn *conn) {
    sim_point(sim.running, POINT_SYSCALL);
    return !conn->broken;
}

int PQisBusy(PGconn *conn) {
    return !conn->answers;
}

PGresult *PQgetResult(PGconn *conn) {
    http_packet *p = conn->answers;
    int stage = conn->stage;
    if (!p) {
        return NULL;
    }
    conn->stage = (stage + 1) % 3;
    if (stage == 1) {
        return NULL;
    }
    PGresult *result = (PGresult *)calloc(1, sizeof *result);
    if (!result) {
        abort();
    }
    if (stage == 2) {
        result->status = PGRES_PIPELINE_SYNC;
        conn->answers = p->next;
        http_packet_free(p);
        return result;
    }
    result->status = p->path[0] ? PGRES_FATAL_ERROR : PGRES_TUPLES_OK;
    snprintf(result->code, sizeof result->code, "%.5s", p->path);
    result->tuples = p->ends;
    snprintf(result->read_only, sizeof result->read_only, "%s", p->method);
    snprintf(result->text, sizeof result->text, "%s", p->body.at ? p->body.at : "");
    return result;
}

PGnotify *PQnotifies(PGconn *conn) {
    http_packet *p = conn->notices;
    if (!p) {
        return NULL;
    }
    conn->notices = p->next;
    PGnotify *notice = (PGnotify *)calloc(1, sizeof *notice + p->body.len);
    if (!notice) {
        abort();
    }
    notice->extra = (char *)(notice + 1);
    memcpy(notice->extra, p->body.at, p->body.len);
    http_packet_free(p);
    return notice;
}

void PQfinish(PGconn *conn) {
    if (!conn) {
        return;
    }
    candidate *c = sim.running;
    sim_point(c, POINT_SYSCALL);
    if (!conn->broken) {
        pg_to_server(conn, pg_packet(c->number, c->incarnation, conn->id, PG_BYE));
    }
    pg_process_ends(c);
}

void PQfreemem(void *old) {
    free(old);
}

void PQclear(PGresult *result) {
    free(result);
}

ConnStatusType PQstatus(const PGconn *conn) {
    return conn->broken ? CONNECTION_BAD : CONNECTION_OK;
}

char *PQerrorMessage(const PGconn *conn) {
    return (char *)(uintptr_t)conn->error;
}

char *PQresultErrorField(const PGresult *result, int field) {
    return field == PG_DIAG_SQLSTATE ? (char *)(uintptr_t)result->code : (char *)(uintptr_t) "trouble";
}

char *PQgetvalue(const PGresult *result, int row, int column) {
    (void)row;
    return (char *)(uintptr_t)(column == 0 ? result->text : result->read_only);
}

ExecStatusType PQresultStatus(const PGresult *result) {
    return result->status;
}

int PQntuples(const PGresult *result) {
    return result->tuples;
}

int PQconnectionNeedsPassword(const PGconn *conn) {
    (void)conn;
    return 0;
}

PGVerbosity PQsetErrorVerbosity(PGconn *conn, PGVerbosity verbosity) {
    (void)conn;
    return verbosity;
}

PQnoticeProcessor PQsetNoticeProcessor(PGconn *conn, PQnoticeProcessor hears, void *user) {
    (void)conn;
    (void)user;
    return hears;
}

int PQsetnonblocking(PGconn *conn, int on) {
    (void)conn;
    (void)on;
    return 0;
}

int PQenterPipelineMode(PGconn *conn) {
    (void)conn;
    return 1;
}

int PQpipelineSync(PGconn *conn) {
    return !conn->broken;
}

int PQflush(PGconn *conn) {
    return conn->broken ? -1 : 0;
}

int PQsocket(const PGconn *conn) {
    (void)conn;
    return -1; // always ready
}

static leader_backend pg_backend(candidate *c) {
    leader_pg_config where;
    memset(&where, 0, sizeof where);
    where.name = "job";
    where.conninfo = "hostaddr=10.0.0.1,10.0.0.2";
    where.no_listen = c->plan.no_notice;
    where.connect_timeout_ms = 1000 + c->plan.lease_ms / 10; // a round trip may take that long here
    return leader_pg_backend(&c->pg, &where);
}
