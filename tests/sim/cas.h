/* A compare-and-swap store, as the Kubernetes API server with a Lease: every write names the version and the uid that it
 * replaces. Nothing expires by itself: a candidate takes a record over after it has watched it unchanged for a full lease. */

static struct cas_store { cas_object object; uint64_t versions, uids; } cas;

static void cas_reset(void) { memset(&cas, 0, sizeof cas); }

static void cas_write(const cas_object *object) {
    cas.object = *object;
    cas.object.exists  = true;
    cas.object.version = ++cas.versions;
}

static void cas_delete(void) {
    if (!cas.object.exists) return;
    cas.object.exists = false;
    cas.versions++;
    store_announce();
}

static void cas_execute(message *m) {
    const cas_object *wanted = &m->object;
    bool was_held = cas.object.exists && cas.object.holder;
    m->status = 200;
    if (m->op == OP_CREATE) {
        if (cas.object.exists) m->status = 409;
        else {
            cas_object fresh = *wanted;
            fresh.uid = ++cas.uids;
            cas_write(&fresh);
            m->status = 201;
        }
    } else if (!cas.object.exists) {
        m->status = 404;
    } else if (m->op == OP_PUT) {
        if (wanted->uid != cas.object.uid || wanted->version != cas.object.version) m->status = 409;
        else cas_write(wanted);
    }
    m->object = cas.object;
    m->token  = cas.object.version;
    if (was_held && !cas.object.holder) store_announce();
}

/* ---- the client ------------------------------------------------------------------------------------------------------ */
static void cas_send(candidate *c, op_kind op, const cas_object *object) {
    message m;
    memset(&m, 0, sizeof m);
    m.op = op;
    if (object) m.object = *object;
    client_send(c, &m);
}

static bool cas_same_form(const cas_object *a, const cas_object *b) {                        /* labels are not part of it */
    return a->exists == b->exists && a->uid == b->uid && a->holder == b->holder && a->nonce == b->nonce && a->seq == b->seq &&
           a->token == b->token && a->lease_ms == b->lease_ms && a->renewals == b->renewals;
}

/* What a reply shows. The observation timer starts with the reply in which this form was first seen. */
static void cas_learn(candidate *c, const cas_object *object) {
    client *cl = &c->client;
    int64_t now_ms = c->host.now_ms(c->host.core);
    bool    gone   = !object->exists || object->uid != cl->known.uid || object->version < cl->known.version;
    if (cl->seen_any && gone) cl->forgot = true;
    if (object->exists && object->holder) {
        cl->seen_any = true;
        if (object->lease_ms > cl->longest_ms) cl->longest_ms = object->lease_ms;
        if (object->nonce != cl->nonce) cl->forgot = false;         /* another's: its lease or its release decides now */
    }
    if (!cas_same_form(object, &cl->known)) cl->seen_ms = run.breaks.seen_at_request ? c->request_ms : now_ms;
    if (object->version > cl->highest) cl->highest = object->version;
    if (object->token   > cl->highest) cl->highest = object->token;
    uint64_t uid = object->exists ? object->uid : cl->known.uid;
    cl->known     = *object;
    cl->known.uid = uid;
}

static leader_result cas_error(int status) {
    return status == 403 ? LEADER_E_AUTH : status == -1 ? LEADER_E_CORRUPT : LEADER_E_IO;
}

static uint64_t cas_next_token(const client *cl, const leader_request *rq) {
    return cl->highest + 1 > rq->min_token ? cl->highest + 1 : rq->min_token;
}

static leader_result cas_take(candidate *c, const leader_request *rq) {
    client *cl = &c->client;
    cas_object mine = cl->known;
    if (cl->longest_ms < rq->lease_ms) cl->longest_ms = rq->lease_ms;
    mine.holder   = c->name;
    mine.nonce    = rq->nonce;
    mine.seq      = rq->seq;
    mine.token    = cas_next_token(cl, rq);
    mine.lease_ms = rq->lease_ms;
    mine.renewals++;
    cas_send(c, cl->known.exists ? OP_PUT : OP_CREATE, &mine);
    return LEADER_PENDING;
}

static leader_result cas_taken(candidate *c, const leader_request *rq, leader_record *seen) {
    client *cl = &c->client;
    uint64_t token = cas_next_token(cl, rq);
    bool forgot = cl->forgot && !run.breaks.no_hold_off;
    cas_learn(c, &cl->reply.object);
    cl->forgot   = false;
    cl->seen_any = true;
    if (cl->known.version > token) token = cl->known.version;
    cl->known.token = token;                                             /* the next renewal writes it down */
    if (token > cl->highest) cl->highest = token;
    client_see_holder(seen, c->name, token, rq->lease_ms);
    seen->hold_off_ms = forgot ? cl->longest_ms : 0;
    return LEADER_OK;
}

/* A GET came back during an acquire: take it, or say who has it. */
static leader_result cas_judge(candidate *c, const leader_request *rq, leader_record *seen) {
    client *cl = &c->client;
    const cas_object *known = &cl->known;
    if (!known->exists || !known->holder) return cas_take(c, rq);
    int64_t left_ms = cl->seen_ms + known->lease_ms + 1 - c->host.now_ms(c->host.core);
    if (run.breaks.take_early) left_ms -= c->plan.retry_ms ? c->plan.retry_ms : known->lease_ms / 8;
    bool named = known->holder == c->name, mine = named && known->nonce == rq->nonce && known->seq <= rq->seq;
    if (mine && run.breaks.adopt_without_write) {
        client_see_holder(seen, c->name, cas_next_token(cl, rq), rq->lease_ms);
        return LEADER_OK;
    }
    if (mine || (named && rq->reclaim) || left_ms <= 0) return cas_take(c, rq);
    client_see_holder(seen, known->holder, known->token > known->version ? known->token : known->version, left_ms);
    return named && known->nonce != rq->nonce ? LEADER_E_DUPLICATE : LEADER_HELD;
}

static leader_result cas_on_acquire(candidate *c, const leader_request *rq, leader_record *seen) {
    client *cl = &c->client;
    int status = cl->reply.status;
    op_kind op = cl->wait_op;
    if (status == 409) {
        if (++cl->rounds > 3) return LEADER_E_IO;
        cas_send(c, OP_GET, NULL);
        return LEADER_PENDING;
    }
    if (status != 200 && status != 201 && status != 404) return cas_error(status);
    if (status != 404 && op != OP_GET) return cas_taken(c, rq, seen);
    if (status == 404 && ++cl->rounds > 3) return LEADER_E_IO;
    cas_learn(c, &cl->reply.object);
    return cas_judge(c, rq, seen);
}

static bool cas_still_mine(const candidate *c, const leader_request *rq) {
    const cas_object *known = &c->client.known;
    return known->exists && known->holder == c->name && known->nonce == rq->nonce && known->seq <= rq->seq;
}

static void cas_send_keep(candidate *c, op_kind wanted) {
    cas_object next = c->client.known;
    next.renewals++;
    if (wanted == OP_RELEASE) { next.holder = 0; next.nonce = 0; next.seq = 0; }
    cas_send(c, OP_PUT, &next);
}

/* Renew and release: one PUT on the version we know; after a conflict look again, and repeat it if it is still ours. */
static leader_result cas_on_keep(candidate *c, op_kind wanted, const leader_request *rq, leader_record *seen) {
    client *cl = &c->client;
    int status = cl->reply.status;
    uint64_t uid = cl->known.uid, token = cl->known.token;
    if (status == 409 && cl->wait_op == OP_PUT) {
        if (++cl->rounds > 3) return LEADER_E_IO;
        cas_send(c, OP_GET, NULL);
        return LEADER_PENDING;
    }
    if (status != 200 && status != 404) return cas_error(status);
    cas_learn(c, &cl->reply.object);
    const cas_object *known = &cl->known;
    if (status == 200 && cl->wait_op == OP_PUT) {
        if (wanted == OP_RENEW) client_see_holder(seen, c->name, known->token, rq->lease_ms);
        return LEADER_OK;
    }
    if (status == 404 || !cas_still_mine(c, rq) || (wanted == OP_RENEW && known->uid != uid)) {
        if (known->exists) client_see_holder(seen, known->holder, known->token, -1);
        return LEADER_LOST;
    }
    if (wanted == OP_RENEW && token > cl->known.token) cl->known.token = token;
    cas_send_keep(c, wanted);
    return LEADER_PENDING;
}

static leader_result cas_on_observe(candidate *c, leader_record *seen) {
    client *cl = &c->client;
    if (cl->reply.status != 200 && cl->reply.status != 404) return cas_error(cl->reply.status);
    cas_learn(c, &cl->reply.object);
    if (!cl->known.exists || !cl->known.holder) return LEADER_OK;
    client_see_holder(seen, cl->known.holder, cl->known.token, -1);
    return LEADER_HELD;
}

static leader_result cas_ask(candidate *c, op_kind wanted, const leader_request *rq, leader_record *seen) {
    client *cl = &c->client;
    if (wanted == OP_RELEASE && cl->forgot) return LEADER_LOST;      /* written or not: nobody may take it before a full lease */
    if (client_begins(c, rq)) {
        cl->rounds = 0;
        bool keep = wanted == OP_RENEW || wanted == OP_RELEASE;
        if (keep && cas_still_mine(c, rq)) cas_send_keep(c, wanted); else cas_send(c, OP_GET, NULL);
    }
    for (;;) {
        if (!client_answered(c)) return c->plan.blocking ? LEADER_E_TIMEOUT : LEADER_PENDING;
        leader_result result = wanted == OP_ACQUIRE ? cas_on_acquire(c, rq, seen)
                             : wanted == OP_OBSERVE ? cas_on_observe(c, seen) : cas_on_keep(c, wanted, rq, seen);
        if (result != LEADER_PENDING) { cl->wait_id = 0; return result; }
    }
}

static leader_result cas_ask_acquire(void *self, const leader_request *rq, leader_record *seen) {
    return cas_ask((candidate *)self, OP_ACQUIRE, rq, seen);
}
static leader_result cas_ask_renew(void *self, const leader_request *rq, leader_record *seen) {
    return cas_ask((candidate *)self, OP_RENEW, rq, seen);
}
static leader_result cas_ask_release(void *self, const leader_request *rq, leader_record *seen) {
    return cas_ask((candidate *)self, OP_RELEASE, rq, seen);
}
static leader_result cas_ask_observe(void *self, const leader_request *rq, leader_record *seen) {
    return cas_ask((candidate *)self, OP_OBSERVE, rq, seen);
}

static leader_backend cas_backend(candidate *c) {
    leader_backend b;
    memset(&b, 0, sizeof b);
    b.self    = c;
    b.acquire = cas_ask_acquire;
    b.renew   = cas_ask_renew;
    b.release = cas_ask_release;
    b.observe = cas_ask_observe;
    b.poll    = client_poll;
    b.cancel  = client_cancel;
    return b;
}
