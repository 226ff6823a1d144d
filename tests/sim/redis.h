/* A Redis server for the real adapter: the protocol, a keyspace, and Lua 5.1, which executes the very
   scripts that backends/leader_redis.h sends. Time stands still while a script runs, keys expire by the
   server's wall clock, scripts are forgotten by a restart, and every write is one that the server may
   forget. */

enum { REDIS_KEYS = 8, REDIS_FIELDS = 8, REDIS_VALUE_MAX = 512, REDIS_ARGS_MAX = 24, REDIS_SCRIPTS = 16 };

typedef struct redis_field { char name[24], value[REDIS_VALUE_MAX]; bool used; } redis_field;

typedef struct redis_key {
    bool        used, hash;
    char        name[300], value[REDIS_VALUE_MAX];
    redis_field fields[REDIS_FIELDS];
    int64_t     expires_ms;                                     // on the server's wall clock; -1: never
} redis_key;

typedef struct redis_script { char sha1[41]; int function; bool loaded; } redis_script;

static struct {
    redis_key    keys[REDIS_KEYS], before[REDIS_KEYS];          // before: what a replica that lags behind has
    int64_t      before_us;
    int64_t      clock_ms;                                      // the wall clock at time 0
    int64_t      jumped_ms, jumped_us;                          // forward, and when
    int64_t      ran_ms;                                        // the clock when a script last ran
    lua_State   *lua;
    redis_script scripts[REDIS_SCRIPTS];                        // compiled once for all scenarios
    int          script_count;
    tcp_bytes    reply;
} redis;

typedef struct redis_args {
    int count;
    const char *at[REDIS_ARGS_MAX];
    size_t len[REDIS_ARGS_MAX];
} redis_args;

static int64_t redis_now_ms(void) { return redis.clock_ms + sim.now_us / 1000; }

/* ---- the keyspace ------------------------------------------------------------------------------ */
static redis_key *key_find(const char *name) {
    for (int i = 0; i < REDIS_KEYS; i++) {
        redis_key *k = &redis.keys[i];
        if (!k->used || strcmp(k->name, name) != 0) {
            continue;
        }
        if (k->expires_ms < 0 || redis_now_ms() <= k->expires_ms) {
            return k;
        }
        k->used = false;
    }
    return NULL;
}

static redis_key *key_make(const char *name, bool hash) {
    redis_key *k = key_find(name);
    for (int i = 0; !k && i < REDIS_KEYS; i++) {
        if (!redis.keys[i].used) {
            k = &redis.keys[i];
            memset(k, 0, sizeof *k);
            k->expires_ms = -1;
        }
    }
    if (!k || strlen(name) >= sizeof k->name) {
        abort();
    }
    k->used = true;
    k->hash = hash;
    snprintf(k->name, sizeof k->name, "%s", name);
    return k;
}

static redis_field *field_find(redis_key *k, const char *name) {
    for (int i = 0; k && i < REDIS_FIELDS; i++) {
        if (k->fields[i].used && strcmp(k->fields[i].name, name) == 0) {
            return &k->fields[i];
        }
    }
    return NULL;
}

static void field_set(redis_key *k, const char *name, const char *value) {
    redis_field *f = field_find(k, name);
    for (int i = 0; !f && i < REDIS_FIELDS; i++) {
        if (!k->fields[i].used) {
            f = &k->fields[i];
        }
    }
    if (!f || strlen(name) >= sizeof f->name || strlen(value) >= sizeof f->value) {
        abort();
    }
    f->used = true;
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(f->value, sizeof f->value, "%s", value);
}

static bool key_is_witness(const redis_key *k) { return k->hash; }

static void redis_evict(bool witness) {
    for (int i = 0; i < REDIS_KEYS; i++) {
        if (redis.keys[i].used && key_is_witness(&redis.keys[i]) == witness) {
            redis.keys[i].used = false;
        }
    }
}

static bool redis_persist(void) {                               // an operator's PERSIST of the lease key
    for (int i = 0; i < REDIS_KEYS; i++) {
        if (redis.keys[i].used && !key_is_witness(&redis.keys[i])) {
            redis.keys[i].expires_ms = -1;
            return true;
        }
    }
    return false;
}

/* Of the lease that somebody has at the moment, whether it knows or not. */
static int64_t redis_held_ms(void) {
    long long lease_ms = 0;
    for (int i = 0; i < REDIS_KEYS; i++) {
        const redis_key *k = &redis.keys[i];
        if (k->used && !key_is_witness(k)) {
            sscanf(k->value, "%*s %*s %*s %lld", &lease_ms);
        }
    }
    return lease_ms;
}

static void redis_forget(void) { memset(redis.keys, 0, sizeof redis.keys); }

static void redis_forget_scripts(void) {
    for (int i = 0; i < redis.script_count; i++) {
        redis.scripts[i].loaded = false;
    }
}

/* What asynchronous replication has not carried over yet is a few moments old; nobody may have seen it at
   all. */
static void redis_remember(void) {
    if (sim.now_us - redis.before_us < sim.lease_max_ms * 100) {
        return;
    }
    memcpy(redis.before, redis.keys, sizeof redis.before);
    redis.before_us = sim.now_us;
}

static void redis_fail_over(bool lagging) {
    if (lagging) {
        memcpy(redis.keys, redis.before, sizeof redis.keys);
    }
    redis_forget_scripts();
    tcp_server_ends();
}

/* The promise allows the server's clock to jump forward by less than lease - deadline, once in a lease;
   back, as it likes. */
static int64_t redis_jump_room_ms(void) {
    int64_t room_ms = INT64_MAX;
    for (int i = 0; i < sim.count; i++) {
        const candidate_plan *p = &sim.all[i].plan;
        int64_t slow_ms = plan_deadline_ms(p) * SIM_RATE_ONE / sim.rate_lo + 4;
        if (p->lease_ms - slow_ms < room_ms) {
            room_ms = p->lease_ms - slow_ms;
        }
    }
    return room_ms;
}

static bool redis_jump(void) {
    sim_rng *r = &sim.rng;
    int64_t ms = 0;
    if (asked.breaks.clock_jumps) {
        ms = sim.lease_max_ms;
    } else if (rng_percent(r, 30)) {
        ms = -rng_log(r, 1, sim.lease_max_ms * 4);
    } else {
        bool early = redis.jumped_us > 0 && sim.now_us - redis.jumped_us <= slowest_us(2 * sim.lease_max_ms);
        int64_t room_ms = redis_jump_room_ms();
        if (early || room_ms <= 1) {
            return false;
        }
        ms = rng_range(r, 1, room_ms - 1);
        redis.jumped_us = sim.now_us;
    }
    redis.clock_ms += ms;
    note(NULL, "the server's clock jumps by %lld ms", (long long)ms);
    return true;
}

static void redis_reset(void) {
    redis_forget();
    redis_forget_scripts();
    memset(redis.before, 0, sizeof redis.before);
    redis.before_us = redis.jumped_us = redis.ran_ms = 0;
    redis.clock_ms = 1700000000000;
}

/* ---- commands that a script may call: Lua in, Lua out ------------------------------------------ */
typedef int (*redis_command)(lua_State *lua, const redis_args *a);

static int lua_ok(lua_State *lua) {
    lua_newtable(lua);
    lua_pushstring(lua, "OK");
    lua_setfield(lua, -2, "ok");
    return 1;
}

static int lua_wrong(lua_State *lua, const char *text) {        // as an error reply
    lua_newtable(lua);
    lua_pushstring(lua, text);
    lua_setfield(lua, -2, "err");
    return 1;
}

static int call_time(lua_State *lua, const redis_args *a) {
    (void)a;
    char text[32];
    lua_newtable(lua);
    snprintf(text, sizeof text, "%lld", (long long)(redis_now_ms() / 1000));
    lua_pushstring(lua, text);
    lua_rawseti(lua, -2, 1);
    snprintf(text, sizeof text, "%lld", (long long)(redis_now_ms() % 1000 * 1000 + sim.now_us % 1000));
    lua_pushstring(lua, text);
    lua_rawseti(lua, -2, 2);
    return 1;
}

static int call_get(lua_State *lua, const redis_args *a) {
    const redis_key *k = key_find(a->at[1]);
    if (k && k->hash) {
        return lua_wrong(lua, "WRONGTYPE Operation against a key holding the wrong kind of value");
    }
    if (k) {
        lua_pushstring(lua, k->value);
    } else {
        lua_pushboolean(lua, 0);
    }
    return 1;
}

static int call_set(lua_State *lua, const redis_args *a) {
    int64_t life_ms = -1;
    bool only_new = false;
    for (int i = 3; i < a->count; i++) {
        if (strcasecmp(a->at[i], "NX") == 0) {
            only_new = true;
        } else if (strcasecmp(a->at[i], "PX") == 0 && i + 1 < a->count) {
            life_ms = strtoll(a->at[++i], NULL, 10);
        } else {
            return lua_wrong(lua, "ERR syntax error");
        }
    }
    if (only_new && key_find(a->at[1])) {
        lua_pushboolean(lua, 0);
        return 1;
    }
    redis_key *k = key_make(a->at[1], false);
    snprintf(k->value, sizeof k->value, "%s", a->at[2]);
    k->expires_ms = life_ms < 0 ? -1 : redis_now_ms() + life_ms;
    return lua_ok(lua);
}

static int call_del(lua_State *lua, const redis_args *a) {
    int gone = 0;
    for (int i = 1; i < a->count; i++) {
        redis_key *k = key_find(a->at[i]);
        if (k) {
            k->used = false;
            gone++;
        }
    }
    lua_pushinteger(lua, gone);
    return 1;
}

static int call_exists(lua_State *lua, const redis_args *a) {
    lua_pushinteger(lua, key_find(a->at[1]) != NULL);
    return 1;
}

static int call_pttl(lua_State *lua, const redis_args *a) {
    const redis_key *k = key_find(a->at[1]);
    int64_t left_ms = -2;
    if (k) {
        left_ms = k->expires_ms < 0 ? -1 : k->expires_ms - redis_now_ms();
    }
    lua_pushnumber(lua, (lua_Number)left_ms);
    return 1;
}

static int call_pexpire(lua_State *lua, const redis_args *a) {
    redis_key *k = key_find(a->at[1]);
    if (k) {
        k->expires_ms = redis_now_ms() + strtoll(a->at[2], NULL, 10);
    }
    lua_pushinteger(lua, k != NULL);
    return 1;
}

static int call_pexpireat(lua_State *lua, const redis_args *a) {
    redis_key *k = key_find(a->at[1]);
    if (k) {
        k->expires_ms = strtoll(a->at[2], NULL, 10);
    }
    lua_pushinteger(lua, k != NULL);
    return 1;
}

static void push_field(lua_State *lua, redis_key *k, const char *name) {
    const redis_field *f = field_find(k, name);
    if (f) {
        lua_pushstring(lua, f->value);
    } else {
        lua_pushboolean(lua, 0);
    }
}

static int call_hget(lua_State *lua, const redis_args *a) {
    push_field(lua, key_find(a->at[1]), a->at[2]);
    return 1;
}

static int call_hmget(lua_State *lua, const redis_args *a) {
    redis_key *k = key_find(a->at[1]);
    lua_newtable(lua);
    for (int i = 2; i < a->count; i++) {
        push_field(lua, k, a->at[i]);
        lua_rawseti(lua, -2, i - 1);
    }
    return 1;
}

static int call_hset(lua_State *lua, const redis_args *a) {
    redis_key *k = key_make(a->at[1], true);
    for (int i = 2; i + 1 < a->count; i += 2) {
        field_set(k, a->at[i], a->at[i + 1]);
    }
    lua_pushinteger(lua, (a->count - 2) / 2);
    return 1;
}

static int call_hdel(lua_State *lua, const redis_args *a) {
    redis_key *k = key_find(a->at[1]);
    int gone = 0;
    for (int i = 2; i < a->count; i++) {
        redis_field *f = field_find(k, a->at[i]);
        if (f) {
            f->used = false;
            gone++;
        }
    }
    bool empty = k != NULL;
    for (int i = 0; k && i < REDIS_FIELDS; i++) {
        empty = empty && !k->fields[i].used;
    }
    if (empty) {
        k->used = false;
    }
    lua_pushinteger(lua, gone);
    return 1;
}

static void reply_bulk(const char *text, size_t len);
static void reply_text(const char *text);

/* A notice is lost now and then: it goes to those who are subscribed at the moment, and nobody keeps it. */
static int call_publish(lua_State *lua, const redis_args *a) {
    tcp_bytes whole = redis.reply;
    int heard = 0;
    memset(&redis.reply, 0, sizeof redis.reply);
    reply_text("*3\r\n$7\r\nmessage\r\n");
    reply_bulk(a->at[1], a->len[1]);
    reply_bulk(a->at[2], a->len[2]);
    for (int i = 0; i < tcp.links_end; i++) {
        tcp_link *link = &tcp.links[i];
        if (!link->subscribed || !link->server_open || strcmp(link->channel, a->at[1]) != 0) {
            continue;
        }
        heard++;
        bool lost = sim.phase == PHASE_CHAOS && rng_permille(&sim.net_rng, sim.lose_permille);
        if (lost) {
            run.faults[FAULT_LOST_NOTICE]++;
        } else {
            link_to_client(link, TCP_TO_CLIENT, redis.reply.at, redis.reply.len);
        }
    }
    free(redis.reply.at);
    redis.reply = whole;
    lua_pushinteger(lua, heard);
    return 1;
}

static const struct { const char *name; int args; redis_command run; } redis_commands[] = {
    { "TIME", 1, call_time },       { "GET", 2, call_get },         { "SET", 3, call_set },
    { "DEL", 2, call_del },         { "EXISTS", 2, call_exists },   { "PTTL", 2, call_pttl },
    { "PEXPIRE", 3, call_pexpire }, { "PEXPIREAT", 3, call_pexpireat },
    { "HGET", 3, call_hget },       { "HMGET", 3, call_hmget },     { "HSET", 4, call_hset },
    { "HDEL", 3, call_hdel },       { "PUBLISH", 3, call_publish },
};

static int lua_dispatch(lua_State *lua) {
    redis_args a;
    a.count = lua_gettop(lua);
    if (a.count == 0 || a.count > REDIS_ARGS_MAX) {
        return luaL_error(lua, "wrong number of arguments");
    }
    for (int i = 0; i < a.count; i++) {
        a.at[i] = lua_tolstring(lua, i + 1, &a.len[i]);
        if (!a.at[i]) {
            return luaL_error(lua, "Lua redis() command arguments must be strings or integers");
        }
    }
    for (size_t i = 0; i < sizeof redis_commands / sizeof redis_commands[0]; i++) {
        if (strcasecmp(a.at[0], redis_commands[i].name) == 0 && a.count >= redis_commands[i].args) {
            return redis_commands[i].run(lua, &a);
        }
    }
    violation(&run.others, "a script calls %s, which the simulated server does not know", a.at[0]);
    return lua_wrong(lua, "ERR unknown command");
}

static int lua_redis_pcall(lua_State *lua) { return lua_dispatch(lua); }

static int lua_redis_call(lua_State *lua) {
    lua_dispatch(lua);
    if (!lua_istable(lua, -1)) {
        return 1;
    }
    lua_getfield(lua, -1, "err");
    if (lua_isstring(lua, -1)) {
        return lua_error(lua);
    }
    lua_pop(lua, 1);
    return 1;
}

static int lua_replicate_commands(lua_State *lua) {
    lua_pushboolean(lua, 1);
    return 1;
}

static void redis_open_lua(void) {
    lua_State *lua = luaL_newstate();
    if (!lua) {
        abort();
    }
    luaL_openlibs(lua);
    lua_newtable(lua);
    lua_pushcfunction(lua, lua_redis_call);
    lua_setfield(lua, -2, "call");
    lua_pushcfunction(lua, lua_redis_pcall);
    lua_setfield(lua, -2, "pcall");
    lua_pushcfunction(lua, lua_replicate_commands);
    lua_setfield(lua, -2, "replicate_commands");
    lua_setglobal(lua, "redis");
    redis.lua = lua;
}

/* ---- scripts ----------------------------------------------------------------------------------- */
static uint32_t turn_left(uint32_t x, int by) { return x << by | x >> (32 - by); }

static void sha1_block(uint32_t h[5], const unsigned char *p) {
    uint32_t w[80], s[5];
    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)p[i * 4] << 24 | (uint32_t)p[i * 4 + 1] << 16 | (uint32_t)p[i * 4 + 2] << 8
               | p[i * 4 + 3];
    }
    for (int i = 16; i < 80; i++) {
        w[i] = turn_left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 80; i++) {
        static const uint32_t constants[4] = { 0x5a827999u, 0x6ed9eba1u, 0x8f1bbcdcu, 0xca62c1d6u };
        uint32_t f = s[1] ^ s[2] ^ s[3];
        if (i < 20) {
            f = (s[1] & s[2]) | (~s[1] & s[3]);
        } else if (i >= 40 && i < 60) {
            f = (s[1] & s[2]) | (s[1] & s[3]) | (s[2] & s[3]);
        }
        uint32_t next = turn_left(s[0], 5) + f + s[4] + constants[i / 20] + w[i];
        s[4] = s[3];
        s[3] = s[2];
        s[2] = turn_left(s[1], 30);
        s[1] = s[0];
        s[0] = next;
    }
    for (int i = 0; i < 5; i++) {
        h[i] += s[i];
    }
}

static void sha1_hex(const char *text, size_t len, char out[41]) {
    uint32_t h[5] = { 0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u };
    unsigned char last[128];
    size_t whole = len / 64 * 64, rest = len - whole, bytes = rest < 56 ? 64 : 128;
    for (size_t at = 0; at < whole; at += 64) {
        sha1_block(h, (const unsigned char *)text + at);
    }
    memset(last, 0, sizeof last);
    memcpy(last, text + whole, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++) {
        last[bytes - 1 - (size_t)i] = (unsigned char)((uint64_t)len * 8 >> (8 * i));
    }
    for (size_t at = 0; at < bytes; at += 64) {
        sha1_block(h, last + at);
    }
    for (int i = 0; i < 5; i++) {
        snprintf(out + i * 8, 9, "%08x", h[i]);
    }
}

static redis_script *script_find(const char *sha1) {
    for (int i = 0; i < redis.script_count; i++) {
        if (strcasecmp(redis.scripts[i].sha1, sha1) == 0) {
            return &redis.scripts[i];
        }
    }
    return NULL;
}

static redis_script *script_load(const char *text, size_t len) {
    char sha1[41];
    sha1_hex(text, len, sha1);
    redis_script *s = script_find(sha1);
    if (s) {
        return s;
    }
    if (redis.script_count == REDIS_SCRIPTS || luaL_loadbuffer(redis.lua, text, len, "@user_script") != 0) {
        violation(&run.others, "a script does not compile: %s", lua_tostring(redis.lua, -1));
        return NULL;
    }
    s = &redis.scripts[redis.script_count++];
    memcpy(s->sha1, sha1, sizeof sha1);
    s->function = luaL_ref(redis.lua, LUA_REGISTRYINDEX);
    return s;
}

/* ---- replies ----------------------------------------------------------------------------------- */
static void reply_text(const char *text) { bytes_add(&redis.reply, text, strlen(text)); }

static void reply_number(char kind, long long n) {
    char text[32];
    snprintf(text, sizeof text, "%c%lld\r\n", kind, n);
    reply_text(text);
}

static void reply_bulk(const char *text, size_t len) {
    reply_number('$', (long long)len);
    bytes_add(&redis.reply, text, len);
    reply_text("\r\n");
}

static void reply_line(char kind, const char *text) {
    bytes_add(&redis.reply, &kind, 1);
    reply_text(text);
    reply_text("\r\n");
}

static bool reply_tagged(lua_State *lua, const char *field, char kind) {
    lua_getfield(lua, -1, field);
    bool there = lua_isstring(lua, -1);
    if (there) {
        reply_line(kind, lua_tostring(lua, -1));
    }
    lua_pop(lua, 1);
    return there;
}

static void reply_lua(lua_State *lua) {                         // what stands on top, as Redis converts it
    size_t len;
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING: {
        const char *text = lua_tolstring(lua, -1, &len);
        reply_bulk(text, len);
        return;
    }
    case LUA_TNUMBER:
        reply_number(':', (long long)lua_tonumber(lua, -1));
        return;
    case LUA_TBOOLEAN:
        reply_text(lua_toboolean(lua, -1) ? ":1\r\n" : "$-1\r\n");
        return;
    case LUA_TTABLE:
        break;
    default:
        reply_text("$-1\r\n");
        return;
    }
    if (reply_tagged(lua, "err", '-') || reply_tagged(lua, "ok", '+')) {
        return;
    }
    size_t count = lua_objlen(lua, -1);
    reply_number('*', (long long)count);
    for (size_t i = 1; i <= count; i++) {
        lua_rawgeti(lua, -1, (int)i);
        reply_lua(lua);
        lua_pop(lua, 1);
    }
}

/* ---- what a client may ask for ----------------------------------------------------------------- */
static void push_args(lua_State *lua, const char *name, const redis_args *a, int from, int to) {
    lua_createtable(lua, to - from, 0);
    for (int i = from; i < to; i++) {
        lua_pushlstring(lua, a->at[i], a->len[i]);
        lua_rawseti(lua, -2, i - from + 1);
    }
    lua_setglobal(lua, name);
}

static bool redis_is_empty(void) {
    bool empty = true;
    for (int i = 0; i < REDIS_KEYS; i++) {
        const redis_key *k = &redis.keys[i];
        empty = empty && !(k->used && key_find(k->name));
    }
    return empty;
}

/* What the promise leaves out: both keys are gone, and the clock was set back to before the last term, or
   stands at the very millisecond of the last token. Who has seen it still has to have a higher one. */
static void redis_excuse_tokens(void) {
    int64_t now_ms = redis_now_ms();
    bool behind = (uint64_t)now_ms <= sim.top_token || now_ms <= redis.ran_ms;
    if (behind && redis_is_empty()) {
        sim.tokens_reset = true;
    }
    redis.ran_ms = now_ms;
}

static void redis_run_script(const redis_script *s, const redis_args *a) {
    lua_State *lua = redis.lua;
    int keys = 3 + atoi(a->at[2]);
    if (keys > a->count) {
        reply_line('-', "ERR Number of keys can't be greater than number of args");
        return;
    }
    redis_excuse_tokens();
    push_args(lua, "KEYS", a, 3, keys);
    push_args(lua, "ARGV", a, keys, a->count);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, s->function);
    if (lua_pcall(lua, 0, 1, 0) == 0) {
        reply_lua(lua);
    } else {
        violation(&run.others, "a script ends with an error: %s", lua_tostring(lua, -1));
        reply_line('-', "ERR the script failed");
    }
    lua_pop(lua, 1);
    redis_remember();
}

static void redis_eval(const redis_args *a) {
    redis_script *s = script_load(a->at[1], a->len[1]);
    if (s) {
        s->loaded = true;
        redis_run_script(s, a);
    }
}

static void redis_evalsha(const redis_args *a) {
    const redis_script *s = script_find(a->at[1]);
    if (s && s->loaded) {
        redis_run_script(s, a);
    } else {
        reply_line('-', "NOSCRIPT No matching script. Please use EVAL.");
    }
}

/* Notices reach it. (The kernel finds a dead connection by itself in 30 seconds; here it stays dead.) */
static bool redis_hears(const candidate *c) {
    for (int i = 0; i < tcp.links_end; i++) {
        const tcp_link *link = &tcp.links[i];
        bool whole = link->client_open && link->server_open && !link->dead;
        if (whole && link->subscribed && link->owner == c->number && link->incarnation == c->incarnation) {
            return true;
        }
    }
    return false;
}

static void redis_subscribe(tcp_link *link, const redis_args *a, bool on) {
    if (!link) {
        return;
    }
    link->subscribed = on;
    snprintf(link->channel, sizeof link->channel, "%s", a->at[1]);
    reply_text(on ? "*3\r\n$9\r\nsubscribe\r\n" : "*3\r\n$11\r\nunsubscribe\r\n");
    reply_bulk(a->at[1], a->len[1]);
    reply_number(':', on);
}

static const char *redis_moods(void) {                          // what a server in trouble says
    static const char *const words[] = {"LOADING Redis is loading the dataset in memory",
                                        "BUSY Redis is busy running a script",
                                        "OOM command not allowed when used memory > 'maxmemory'",
                                        "READONLY You can't write against a read only replica.",
                                        "MASTERDOWN Link with MASTER is down",
                                        "NOPERM this user has no permissions",
                                        "NOREPLICAS Not enough good replicas"};
    return words[rng_range(&sim.net_rng, 0, (int64_t)(sizeof words / sizeof words[0]) - 1)];
}

static void redis_execute(tcp_link *link, const redis_args *a) {
    const char *word = a->at[0];
    bool script = strcasecmp(word, "EVAL") == 0 || strcasecmp(word, "EVALSHA") == 0;
    bool error = script && sim.now_us < sim.errors_us;
    if (error && rng_percent(&sim.net_rng, 50)) {
        reply_line('-', redis_moods());
        return;
    }
    if (strcasecmp(word, "EVAL") == 0) {
        redis_eval(a);
    } else if (strcasecmp(word, "EVALSHA") == 0) {
        redis_evalsha(a);
    } else if (strcasecmp(word, "SUBSCRIBE") == 0) {
        redis_subscribe(link, a, true);
    } else if (strcasecmp(word, "UNSUBSCRIBE") == 0) {
        redis_subscribe(link, a, false);
    } else if (strcasecmp(word, "TIME") == 0) {
        call_time(redis.lua, a);
        reply_lua(redis.lua);
        lua_pop(redis.lua, 1);
    } else {
        violation(&run.others, "a client says %s, which the simulated server does not know", word);
    }
    if (error) {                                                // some errors come after the deed was done
        redis.reply.len = 0;
        reply_line('-', redis_moods());
    }
}

/* One command from the front of the bytes; 0: it is not complete yet. */
static size_t redis_parse(char *at, size_t len, redis_args *a) {
    char *end = at + len, *p = at;
    char *line = (char *)memchr(p, '\n', len);
    a->count = 0;
    if (!line || *p != '*') {
        return 0;
    }
    int count = atoi(p + 1);
    p = line + 1;
    for (int i = 0; i < count && i < REDIS_ARGS_MAX; i++) {
        line = p < end ? (char *)memchr(p, '\n', (size_t)(end - p)) : NULL;
        if (!line) {
            return 0;
        }
        size_t bytes = (size_t)atoi(p + 1);
        p = line + 1;
        if ((size_t)(end - p) < bytes + 2) {
            return 0;
        }
        a->at[i] = p;
        a->len[i] = bytes;
        p += bytes + 2;
    }
    for (int i = 0; i < count; i++) {
        ((char *)(uintptr_t)a->at[i])[a->len[i]] = 0;           // over the line's end, which has been read
    }
    a->count = count;
    return (size_t)(p - at);
}

static void redis_note(const tcp_link *link, const redis_args *a, bool gone) {
    char text[160];
    size_t n = redis.reply.len < sizeof text - 1 ? redis.reply.len : sizeof text - 1;
    if (!asked.timeline) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        text[i] = redis.reply.at[i] < ' ' ? ' ' : redis.reply.at[i];
    }
    text[n] = 0;
    note(NULL, "the server runs %s of %d%s%s: %s", a->at[0], link ? link->owner : -1,
         gone ? " (given up)" : "", a->count > 7 ? a->at[7] : "", text);
}

/* Bytes arrive at the server; link NULL: a copy that comes once more, and whose reply nobody hears. */
static void server_takes(tcp_link *link, const char *bytes, size_t len, uint64_t id) {
    static tcp_bytes copy;
    tcp_bytes *in = link ? &link->out : &copy;
    bool gone = !link || !link_owner(link);
    copy.len = 0;
    bytes_add(in, bytes, len);
    if (gone) {
        run.faults[FAULT_GIVEN_UP]++;
    }
    if (link && id < sim.last_run[link->owner]) {
        run.faults[FAULT_REORDERED]++;
    } else if (link) {
        sim.last_run[link->owner] = id;
    }
    for (;;) {
        redis_args a;
        size_t taken = redis_parse(in->at, in->len, &a);
        if (taken == 0) {
            return;
        }
        redis.reply.len = 0;
        redis_execute(link, &a);
        redis_note(link, &a, gone);
        if (!gone && redis.reply.len > 0) {
            link_to_client(link, TCP_TO_CLIENT, redis.reply.at, redis.reply.len);
        }
        bytes_drop(in, taken);
    }
}

/* The nastiest moment for a request that was long given up: the store has just forgotten everything, and
   nobody asked since. */
static void redis_run_naive(const candidate *c) {
    if (c->naive_len > 0) {
        int64_t at_us = sim.now_us + rng_log(&sim.net_rng, 1, 1000);
        packet_send(NULL, TCP_TO_SERVER, at_us, c->naive, c->naive_len, false);
    }
}

static leader_backend redis_backend(candidate *c) {
    leader_redis_config config;
    memset(&config, 0, sizeof config);
    config.name = "job";
    config.no_notice = c->plan.no_notice;
    // where the network is this slow even in calm, users say so
    int64_t handshake_ms = 8 * sim.calm_us / 1000;
    if (handshake_ms > 1000) {
        config.connect_timeout_ms = handshake_ms;
    }
    return leader_redis_backend(&c->redis, &config);
}
