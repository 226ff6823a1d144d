/* A store with expiring keys, as Redis with the script of backends/leader_redis.h: a lease key with a time to live, and beside
 * it a witness that outlives it: the last token, until when a holder may count on its lease, and whether it was released. */

static struct ttl_store {
    bool     lease;
    int      holder;
    uint64_t nonce, seq, token;
    int64_t  lease_ms, expires_ms;                                                         /* expires -1: permanent */
    bool     witness, released;
    uint64_t last_token;
    int64_t  until_ms, witness_lease_ms;
    int64_t  clock_ms;                                                                     /* the server's at time 0 */
} ttl;

static int64_t ttl_now_ms(void) { return ttl.clock_ms + sim.now_us / 1000; }

static void ttl_reset(void) {
    memset(&ttl, 0, sizeof ttl);
    ttl.clock_ms = 1700000000000;
}

static void ttl_forget(void) {
    int64_t clock_ms = ttl.clock_ms;
    memset(&ttl, 0, sizeof ttl);
    ttl.clock_ms = clock_ms;
}

static void ttl_write(const message *m, uint64_t token) {
    int64_t life_ms = m->lease_ms;
    if (run.breaks.expire_early) life_ms = life_ms / 2;
    ttl.lease = true;      ttl.holder = m->name;   ttl.nonce = m->nonce;
    ttl.token = token;     ttl.lease_ms = m->lease_ms;
    ttl.expires_ms = ttl_now_ms() + life_ms;
    ttl.witness = true;    ttl.released = false;   ttl.last_token = token > ttl.last_token ? token : ttl.last_token;
    ttl.until_ms = ttl_now_ms() + life_ms;
    ttl.witness_lease_ms = m->lease_ms;
}

static bool ttl_mine(const message *m) {
    return ttl.lease && ttl.holder == m->name && (ttl.nonce == m->nonce || run.breaks.ignore_nonce)
        && (ttl.seq > m->settled_seq || ttl.token == m->term_token || run.breaks.adopt_ghost);
}

/* What a request of ours left that ran after the answer to a later one: the store has forgotten that answer since. */
static bool ttl_ghost(const message *m) { return ttl.lease && ttl.nonce == m->nonce && !ttl_mine(m); }

static void ttl_begin_term(message *m) {
    uint64_t token = ttl.witness ? ttl.last_token + !run.breaks.token_not_raised : (uint64_t)ttl_now_ms();
    if (token <= ttl.token && ttl.lease && !run.breaks.token_not_raised) token = ttl.token + 1;
    if (token < m->min_token && !run.breaks.token_not_raised) token = m->min_token;
    ttl_write(m, token);
    ttl.seq   = m->seq;
    m->result = LEADER_OK;
    m->token  = token;
    m->holder = m->name;
    m->expires_in_ms = m->lease_ms;
}

static void ttl_say_held(message *m, int holder, uint64_t token, int64_t expires_in_ms) {
    m->result = LEADER_HELD;
    m->holder = holder;
    m->token  = token;
    m->expires_in_ms = expires_in_ms;
    m->lease_ms = ttl.lease ? ttl.lease_ms : 0;
}

static void ttl_acquire(message *m) {
    int64_t  now_ms = ttl_now_ms();
    uint64_t known  = m->min_token ? m->min_token - 1 : 0;                              /* the caller's highest token */
    int64_t  longest_ms = ttl.witness && ttl.witness_lease_ms > m->longest_ms ? ttl.witness_lease_ms : m->longest_ms;
    if (ttl.lease) {
        bool named = ttl.holder == m->name;
        if (ttl_ghost(m))                     ttl_say_held(m, 0, ttl.token, ttl.expires_ms - now_ms + 1);
        else if (ttl_mine(m) && ttl.seq <= m->seq) ttl_begin_term(m);
        else if (named && m->reclaim)         ttl_begin_term(m);
        else {
            ttl_say_held(m, ttl.holder, ttl.token, ttl.expires_ms - now_ms + 1);
            if (named && !ttl_mine(m)) m->result = LEADER_E_DUPLICATE;
        }
        return;
    }
    if (run.breaks.no_hold_off) { ttl_begin_term(m); return; }
    if (!ttl.witness ? known > 0 : ttl.last_token < known) {                                        /* the store forgot */
        uint64_t token = (uint64_t)now_ms > known ? (uint64_t)now_ms : known;
        ttl.witness    = true;
        ttl.released   = false;
        ttl.last_token = token;
        ttl.until_ms   = now_ms + longest_ms;
        ttl.witness_lease_ms = longest_ms;
    }
    if (ttl.until_ms > now_ms + longest_ms) ttl.until_ms = now_ms + longest_ms;
    if (!ttl.witness || ttl.released || ttl.until_ms < now_ms) ttl_begin_term(m);
    else ttl_say_held(m, 0, ttl.last_token, ttl.until_ms - now_ms + 1);
}

static void ttl_renew(message *m) {
    if (!ttl_mine(m)) { m->result = LEADER_LOST; m->holder = ttl.lease ? ttl.holder : 0; m->token = ttl.lease ? ttl.token : 0; return; }
    ttl_write(m, ttl.token);
    m->result = LEADER_OK;
    m->holder = m->name;
    m->token  = ttl.token;
    m->expires_in_ms = m->lease_ms;
}

static void ttl_release(message *m) {
    m->holder = 0;
    if (!ttl_mine(m) || (ttl.seq > m->seq && !run.breaks.release_any_term)) { m->result = LEADER_LOST; return; }
    ttl.lease = false;
    ttl.last_token = !ttl.witness || ttl.token > ttl.last_token ? ttl.token : ttl.last_token;
    ttl.witness = ttl.released = true;
    m->result = LEADER_OK;
    store_announce();
}

static void ttl_execute(message *m) {
    if (ttl.lease && ttl.expires_ms < 0) ttl.expires_ms = ttl_now_ms() + ttl.lease_ms;
    if (ttl.lease && ttl_now_ms() > ttl.expires_ms) ttl.lease = false;
    m->expires_in_ms = -1;
    if      (m->op == OP_ACQUIRE) ttl_acquire(m);
    else if (m->op == OP_RENEW)   ttl_renew(m);
    else if (m->op == OP_RELEASE) ttl_release(m);
    else if (ttl.lease)           ttl_say_held(m, ttl.holder, ttl.token, ttl.expires_ms - ttl_now_ms() + 1);
    else                        { ttl_say_held(m, 0, ttl.last_token, -1); m->result = LEADER_OK; }
}

/* ---- the client ------------------------------------------------------------------------------------------------------ */
static leader_result ttl_ask(candidate *c, op_kind op, const leader_request *rq, leader_record *seen) {
    client *cl = &c->client;
    if (client_begins(c, rq)) {
        message m;
        memset(&m, 0, sizeof m);
        if (cl->longest_ms < rq->lease_ms) cl->longest_ms = rq->lease_ms;
        m.op         = op;
        m.nonce      = rq->nonce;
        m.seq        = rq->seq;
        m.min_token  = rq->min_token;
        m.lease_ms   = rq->lease_ms;
        m.longest_ms = cl->longest_ms;
        m.reclaim    = rq->reclaim;
        m.settled_seq = cl->settled_seq;
        m.term_token  = cl->term_token;
        client_send(c, &m);
    }
    if (!client_answered(c)) return c->plan.blocking ? LEADER_E_TIMEOUT : LEADER_PENDING;
    cl->wait_id = 0;
    if (cl->reply.result >= 0 || cl->reply.result == LEADER_E_DUPLICATE) cl->settled_seq = rq->seq;
    if (cl->reply.result == LEADER_OK && op == OP_ACQUIRE) cl->term_token = cl->reply.token;
    if (cl->reply.result < 0 && cl->reply.result != LEADER_E_DUPLICATE) return cl->reply.result;
    if (cl->longest_ms < cl->reply.lease_ms) cl->longest_ms = cl->reply.lease_ms;
    client_see_holder(seen, cl->reply.holder, cl->reply.token, cl->reply.expires_in_ms);
    return cl->reply.result;
}

static leader_result ttl_ask_acquire(void *self, const leader_request *rq, leader_record *seen) {
    return ttl_ask((candidate *)self, OP_ACQUIRE, rq, seen);
}
static leader_result ttl_ask_renew(void *self, const leader_request *rq, leader_record *seen) {
    return ttl_ask((candidate *)self, OP_RENEW, rq, seen);
}
static leader_result ttl_ask_release(void *self, const leader_request *rq, leader_record *seen) {
    return ttl_ask((candidate *)self, OP_RELEASE, rq, seen);
}
static leader_result ttl_ask_observe(void *self, const leader_request *rq, leader_record *seen) {
    return ttl_ask((candidate *)self, OP_OBSERVE, rq, seen);
}

static leader_backend ttl_backend(candidate *c) {
    leader_backend b;
    memset(&b, 0, sizeof b);
    b.self    = c;
    b.acquire = ttl_ask_acquire;
    b.renew   = ttl_ask_renew;
    b.release = ttl_ask_release;
    b.observe = ttl_ask_observe;
    b.poll    = client_poll;
    b.cancel  = client_cancel;
    return b;
}
