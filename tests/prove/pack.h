/* A world as a few dozen bytes, and back. Everything that later steps can depend on is in them, and
   nothing else:
 *
 *   times       relative to the owner's clock, as far as they still matter
 *   tokens      their order, by epoch (see world.h); renewals: their order, by origin
 *   versions    none, the one in the store, another (no version ever returns, so others are all alike)
 *   origins     which are equal
 *   requests    nothing of their numbers: a later one's is above them all
 *   candidates  in the order that makes the smallest text: they differ in nothing but their names
 *
 * Of a record that is no longer in the store, and of the last one seen, the numbers matter little: the
 * tokens only to a store that forgets (see tokens_rise), the renewals only to one that tells of old
 * records. With another one, what counts is whose it is and how long it was known.
 *
 * What is left out must not matter. That is not believed but checked: see compare_steps in prove.c. One
 * function lists the fields, for all three passes: to collect the values that are renamed, to write, to
 * read. */
#ifndef PROVE_PACK_H
#define PROVE_PACK_H

enum { LINE_MAX_VALUES = 48, ORIGINS_MAX = 12, EPOCHS_MAX = 12, KEY_MAX = 256 };

typedef struct line {               // values of one kind, sorted, and what becomes of each
    uint64_t value[LINE_MAX_VALUES];
    uint64_t name[LINE_MAX_VALUES];
    int      count;
} line;

typedef enum pass { PASS_COLLECT, PASS_WRITE, PASS_READ } pass;

typedef struct codec {
    pass     now;
    line     epochs, tokens[EPOCHS_MAX], renewals[ORIGINS_MAX];
    uint64_t epoch[EPOCHS_MAX];     // whose tokens stand on which line
    int      epoch_count;
    uint64_t origins[ORIGINS_MAX];
    int      origin_count;
    int      order[NODES_MAX];      // order[i]: who comes at place i
    int      place[NODES_MAX];
    uint8_t  key[KEY_MAX];
    size_t   bytes;
    uint64_t word;                  // bits on their way
    int      pending;               // how many
} codec;

static codec K;

static void broken_codec(const char *what) {
    printf("%s: the packing of states is too narrow: %s\n", B.name, what);
    exit(2);
}

/* -- lines -- */

static void line_add(line *l, uint64_t value) {
    int i = l->count;
    while (i > 0 && l->value[i - 1] > value) {
        i--;
    }
    if (i > 0 && l->value[i - 1] == value) {
        return;
    }
    if (l->count == LINE_MAX_VALUES) {
        broken_codec("values on a line");
    }
    memmove(&l->value[i + 1], &l->value[i], sizeof l->value[0] * (size_t)(l->count - i));
    l->value[i] = value;
    l->count++;
}

/* A write that succeeds counts on from the record in the store, above all that there is: the order is
   enough. */
static void line_settle(line *l, bool zero_is_none) {
    uint64_t name = 0;
    for (int i = 0; i < l->count; i++) {
        name += l->value[i] > 0 || !zero_is_none;
        l->name[i] = name;
    }
}

static uint64_t line_name(const line *l, uint64_t value) {
    for (int i = 0; i < l->count; i++) {
        if (l->value[i] == value) {
            return l->name[i];
        }
    }
    return 0;
}

static int origin_place(uint64_t origin) {      // 1, 2, ... in the order of their first appearance
    for (int i = 0; i < K.origin_count; i++) {
        if (K.origins[i] == origin) {
            return i + 1;
        }
    }
    if (K.origin_count == ORIGINS_MAX - 1) {
        broken_codec("origins");
    }
    K.origins[K.origin_count++] = origin;
    return K.origin_count;
}

/* -- bits -- */

/* Through a word of 64 bits: whatever is narrower than 32 always fits. */
static void bits_write(uint64_t value, int width) {
    if (value >> width) {
        broken_codec("a field");
    }
    K.word = (K.word << width) | value;
    K.pending += width;
    while (K.pending >= 8) {
        K.pending -= 8;
        K.key[K.bytes++] = (uint8_t)(K.word >> K.pending);
    }
}

static uint64_t bits_read(int width) {
    while (K.pending < width) {
        K.word = (K.word << 8) | K.key[K.bytes++];
        K.pending += 8;
    }
    K.pending -= width;
    return (K.word >> K.pending) & ((UINT64_C(1) << width) - 1);
}

static size_t bits_end(void) {
    if (K.pending > 0) {
        K.key[K.bytes++] = (uint8_t)(K.word << (8 - K.pending));
    }
    return K.bytes;
}

/* A small number that is the same in both worlds: what to write, and what was read. */
static uint64_t field(uint64_t value, int width) {
    if (K.now == PASS_WRITE) {
        bits_write(value, width);
    }
    return K.now == PASS_READ ? bits_read(width) : value;
}

static bool field_bool(bool value) {
    return field(value, 1) != 0;
}

static int field_int(int value, int width) {
    return (int)field((uint64_t)value, width);
}

/* How long ago: beyond the limit it does not matter how long. */
static int64_t field_age(int64_t t, int64_t now_ms, int64_t limit_ms) {
    int64_t age_ms = limit_ms;
    if (K.now != PASS_READ && t != LEADER_NEVER_) {
        age_ms = leader_max_(0, leader_min_(now_ms - t, limit_ms));
    }
    return now_ms - (int64_t)field((uint64_t)age_ms, 7);
}

/* How long to go: once it is over (below least) it does not matter since when. */
static int64_t field_rest(int64_t t, int64_t now_ms, int64_t least) {
    int64_t rest_ms = least;
    if (K.now != PASS_READ && t != LEADER_NEVER_) {
        rest_ms = leader_max_(least, t - now_ms);
    }
    return now_ms + (int64_t)field((uint64_t)(rest_ms - least), 7) + least;
}

/* A time that is only waited for: clocks that go in whole units see no difference within one. */
static int64_t field_units(int64_t rest_ms) {
    bool alike = B.fast_ms == B.slow_ms;
    rest_ms = leader_max_(rest_ms, 0);
    if (alike) {
        rest_ms = (rest_ms + B.unit_ms - 1) / B.unit_ms * B.unit_ms;
    }
    return (int64_t)field((uint64_t)rest_ms, 7);
}

static uint64_t field_line(line *l, uint64_t value, int width) {
    if (K.now == PASS_COLLECT) {
        line_add(l, value);
        return value;
    }
    if (K.now == PASS_WRITE) {
        bits_write(line_name(l, value), width);
        return value;
    }
    return bits_read(width);
}

static int epoch_index(uint64_t epoch) {
    int i = 0;
    while (i < K.epoch_count && K.epoch[i] != epoch) {
        i++;
    }
    if (i == EPOCHS_MAX) {
        broken_codec("epochs");
    }
    if (i == K.epoch_count) {
        K.epoch[i] = epoch;
        K.tokens[i].count = 0;
        K.epoch_count++;
    }
    return i;
}

static uint64_t field_token(uint64_t token) {
    uint64_t epoch = token >> EPOCH_BITS;
    uint64_t count = token & ((1u << EPOCH_BITS) - 1);
    epoch = field_line(&K.epochs, epoch, 4);
    line *l = K.now == PASS_READ ? NULL : &K.tokens[epoch_index(epoch)];
    count = field_line(l, count, 5);
    return (epoch << EPOCH_BITS) + count;
}

static uint64_t field_origin(uint64_t origin) {
    int place = 0;
    if (K.now != PASS_READ && origin != 0) {
        place = origin_place(origin);
    }
    place = field_int(place, 4);
    if (K.now != PASS_READ) {
        return origin;
    }
    return place == 0 ? 0 : (uint64_t)(2 * place + 1);
}

/* Which line of renewals is an origin's. */
static int origin_index(uint64_t origin) {
    if (origin == 0) {
        return 0;
    }
    return K.now == PASS_READ ? (int)(origin / 2) : origin_place(origin);
}

enum { RENEWAL_BASE = 10 };         // below: records that are no longer in the store, see field_old

static uint64_t field_renewal(uint64_t origin, uint64_t renewal) {
    renewal = field_line(&K.renewals[origin_index(origin)], renewal, 5);
    return K.now == PASS_READ ? renewal + RENEWAL_BASE : renewal;
}

static uint64_t field_nonce(uint64_t nonce) {
    int node = 0;
    int life = 0;
    if (!field_bool(nonce != 0)) {
        return 0;
    }
    if (K.now != PASS_READ) {
        node = K.place[node_of_nonce(nonce)];
        life = life_of_nonce(nonce);
    }
    node = field_int(node, 2);
    life = field_int(life, 2);
    return K.now == PASS_READ ? nonce_of(node, life) : nonce;
}

static uint64_t field_version(uint64_t version) {
    enum { NONE, STORED, OTHER };
    bool stored = w.store.present && version == w.store.version;
    uint64_t kind = OTHER;
    if (version == 0) {
        kind = NONE;
    } else if (stored) {
        kind = STORED;
    }
    kind = field(kind, 2);
    if (K.now != PASS_READ) {
        return version;
    }
    return kind == NONE ? 0 : 3 - kind;         // the one in the store is 2
}

/* -- records -- */

static bool same_record(const record *a, const record *b) {
    bool same_owner = a->holder == b->holder && a->nonce == b->nonce && a->seq == b->seq;
    bool same_write = a->origin == b->origin && a->renewal == b->renewal && a->token == b->token;
    bool same_times = a->lease_ms == b->lease_ms && a->hold_off_ms == b->hold_off_ms;
    bool same_place = a->version == b->version && a->revision == b->revision;
    return a->present == b->present && same_owner && same_write && same_times && same_place;
}

static void field_lease(record *r) {
    r->lease_ms = field_bool(r->lease_ms > 0) ? lease_ms() : 0;
    r->hold_off_ms = field_bool(r->hold_off_ms > 0) ? (int64_t)field((uint64_t)r->hold_off_ms, 7) : 0;
}

static void field_record(record *r) {
    bool held = field_bool(r->holder != 0);
    r->nonce = field_nonce(r->nonce);
    if (K.now == PASS_READ) {
        r->holder = held ? name_of(node_of_nonce(r->nonce)) + 1 : 0;
    }
    if (K.now == PASS_READ) {
        r->seq = r->nonce != 0;
    }
    r->token = field_token(r->token);
    r->origin = field_origin(r->origin);
    r->renewal = field_renewal(r->origin, r->renewal);
    r->version = field_version(r->version);
    field_lease(r);
    if (B.revisions) {
        r->revision = field_token(r->revision);
    }
}

/* Does the store's token rise for ever? A write for an empty store that is left over from before may come
   with a lower one, but not if the store was full from the start and forgets once: whichever write fills
   it again, no other one for an empty store will be carried out after it. */
static bool tokens_rise(void) {
    return B.forgets == 0 || (B.led && B.forgets == 1);
}

/* A record that was in the store; nobody will find it there again, though news of it may come late.
   `own`: the token of one's own term matters. */
static void field_old(record *r, uint64_t own, uint64_t renewal) {
    bool held = field_bool(r->holder != 0);
    r->nonce = field_nonce(r->nonce);
    bool mine = r->nonce == own;
    uint64_t token = mine ? field_token(r->token) : 0;
    r->origin = field_origin(r->origin);
    field_lease(r);
    if (B.notices) {
        renewal = field_renewal(r->origin, r->renewal);
    }
    if (K.now == PASS_READ) {
        r->holder = held ? name_of(node_of_nonce(r->nonce)) + 1 : 0;
        r->seq = r->nonce != 0;
        r->token = token;
        r->renewal = renewal;
        r->version = 1;
    }
}

/* A record somewhere else than in the store: most often it is the one in the store. */
static void field_copy(record *r, const candidate *c, uint64_t renewal) {
    bool same = field_bool(same_record(r, &w.store));
    int64_t stamp_ms = r->stamp_ms;
    if (K.now == PASS_READ) {
        memset(r, 0, sizeof *r);
    }
    if (same) {
        if (K.now == PASS_READ) {
            *r = w.store;
        }
    } else {
        r->present = field_bool(r->present);
        if (r->present && tokens_rise()) {
            field_old(r, c->core.nonce, renewal);
        } else if (r->present) {
            field_record(r);
        }
    }
    if (B.stamps && r->present) {
        r->stamp_ms = field_age(stamp_ms, c->clock_ms, lease_ms() + 1);
    }
}

static void field_known(leader_entry *e, const candidate *c) {
    record r = record_of_entry(e);
    r.present = e->version[0] != 0;
    r.stamp_ms = LEADER_NEVER_;
    field_copy(&r, c, 1);
    if (K.now == PASS_READ) {
        record_to_entry(&r, e);
    }
}

/* What a read found: the very record that was known before, or another one? */
static void field_answer(candidate *c) {
    leader_entry found;
    memset(&found, 0, sizeof found);
    found_by(c, &c->call.entry, &found);
    bool same = field_bool(c->engine.is_known && leader_entry_same_form_(&found, &c->engine.known));
    field_copy(&c->call.entry, c, same ? 1 : 2);
}

/* What is being written: its version may be none. */
static void field_draft(record *r, const candidate *c) {
    r->present = true;
    field_record(r);
    if (B.stamps) {
        r->stamp_ms = field_age(r->stamp_ms, c->clock_ms, lease_ms() + 1);
    }
}

/* -- candidates -- */

static void field_request(candidate *c) {
    leader_t *l = &c->core;
    const int64_t deadline_ms = l->cfg.renew_deadline_ms;
    l->request.op = field_int(l->request.op, 3);
    if (l->request.op != LEADER_OP_NONE_) {
        l->request.sent_ms = field_age(l->request.sent_ms, c->clock_ms, deadline_ms);
        l->request.timeout_ms = field_units(l->request.timeout_ms);
    } else if (K.now == PASS_READ) {
        l->request.sent_ms = l->lease.until_ms - deadline_ms;
    }
    if (K.now == PASS_READ) {
        l->request.seq = 15;        // above all that was written
        l->request.again_at_ms = LEADER_NEVER_;
    }
}

static void field_lease_of(candidate *c) {
    leader_t *l = &c->core;
    bool owns = l->state == LEADER_STATE_LEADER || l->state == LEADER_STATE_HOLDING_OFF;
    l->lease.claim = (leader_claim_)field_int(l->lease.claim, 2);
    bool held = l->lease.claim == LEADER_CLAIM_HELD_;
    l->lease.token = held ? field_token(l->lease.token) : 0;
    l->lease.highest_token = tokens_rise() ? l->lease.token : field_token(l->lease.highest_token);
    l->lease.until_ms = owns ? field_rest(l->lease.until_ms, c->clock_ms, 0) : c->clock_ms;
    l->lease.hold_until_ms = field_rest(l->lease.hold_until_ms, c->clock_ms, -1);
    l->lease.store_answered = B.cautious ? field_bool(l->lease.store_answered) : true;
    l->lease.undrained = B.drains ? field_bool(l->lease.undrained) : false;
    if (K.now == PASS_READ) {
        l->until_ms = l->state == LEADER_STATE_LEADER ? l->lease.until_ms : LEADER_NEVER_;
    }
}

static void field_window(candidate *c) {
    leader_t *l = &c->core;
    bool over = c->clock_ms - l->plan.window_ms >= l->cfg.retry_ms;
    l->plan.window_ms = field_age(l->plan.window_ms, c->clock_ms, l->cfg.retry_ms);
    l->plan.early = field_int(over ? 0 : l->plan.early, 4);
    l->plan.noticed = field_bool(l->plan.noticed);
}

static void field_plan(candidate *c) {
    leader_t *l = &c->core;
    bool asks = l->request.op != LEADER_OP_NONE_;
    l->plan.next_ms = asks ? c->clock_ms : c->clock_ms + field_units(l->plan.next_ms - c->clock_ms);
    bool owns = l->lease.claim == LEADER_CLAIM_HELD_ || l->state == LEADER_STATE_RELEASING;
    l->plan.retries = owns ? field_int(l->plan.retries > 3 ? 3 : l->plan.retries, 2) : 0;
    if (B.notices) {
        field_window(c);
    } else {
        l->plan.early = 0;          // without notices nobody asks more than once or twice in one retry_ms
        l->plan.window_ms = c->clock_ms;
    }
    l->leave.stopping = field_bool(l->leave.stopping);
    l->leave.pause_ms = (int64_t)field((uint64_t)l->leave.pause_ms, 5);
    l->leave.pause_until_ms = field_rest(l->leave.pause_until_ms, c->clock_ms, 0);
    l->stop_asked = field_bool(l->stop_asked != 0);
    l->resign_asked = (int64_t)field((uint64_t)l->resign_asked, 5);
    if (K.now == PASS_READ) {
        l->plan.errors = 0;
        l->leave.drain_until_ms = INT64_MAX;
        bool told = l->resign_asked != 0 || (l->stop_asked && !l->leave.stopping);
        l->wake = told;             // leader_stop and leader_resign leave it with their word
        l->due_ms = c->clock_ms;
    }
}

static void field_knowledge(candidate *c) {
    leader_engine *e = &c->engine;
    const int64_t over_ms = lease_ms() + 1;
    e->is_known = field_bool(e->is_known);
    e->must_read = field_bool(e->must_read);
    e->doubt = field_bool(e->doubt);
    e->duplicate = field_bool(e->duplicate);
    e->seen_any = field_bool(e->seen_any);
    e->nonce = field_bool(e->nonce != 0) ? c->core.nonce : 0;
    if (e->is_known) {
        field_known(&e->known, c);
        e->known.dead = field_bool(e->known.dead);
        bool mine = e->known.nonce == c->core.nonce && e->known.hold_off_ms == 0;
        bool timed = e->known.holder[0] && !mine;
        e->seen_ms = timed ? field_age(e->seen_ms, c->clock_ms, over_ms) : c->clock_ms;
    } else if (K.now == PASS_READ) {
        memset(&e->known, 0, sizeof e->known);
    }
    if (B.stamps) {
        int64_t told_ms = e->known.elapsed_ms + (c->clock_ms - e->learnt_ms);
        told_ms = (int64_t)field((uint64_t)leader_min_(told_ms, over_ms), 7);
        e->known.elapsed_ms = K.now == PASS_READ ? told_ms : e->known.elapsed_ms;
    }
    if (K.now == PASS_READ) {
        e->learnt_ms = c->clock_ms;
        e->read_ms = c->clock_ms;
    }
}

static void field_lineage(candidate *c) {
    leader_engine *e = &c->engine;
    e->longest_ms = field_bool(e->longest_ms > 0) ? lease_ms() : 0;
    e->highest_token = tokens_rise() ? 0 : field_token(e->highest_token);
    e->doubt_until_ms = field_rest(e->doubt_until_ms, c->clock_ms, -1);
    if (!e->seen_any) {
        memset(&e->last, 0, sizeof e->last);
        return;
    }
    e->last.origin = field_origin(e->last.origin);
    bool matters = !tokens_rise();
    e->last.renewal = matters || B.notices ? field_renewal(e->last.origin, e->last.renewal) : 0;
    e->last.token = matters ? field_token(e->last.token) : 0;
    e->last.revision = matters && B.revisions ? field_token(e->last.revision) : 0;
}

static void field_term(candidate *c) {
    leader_engine *e = &c->engine;
    bool held = c->core.lease.claim == LEADER_CLAIM_HELD_;
    e->term_token = held ? field_token(e->term_token) : 0;
    bool held_off = field_bool(e->hold_until_ms != LEADER_NEVER_);
    e->hold_until_ms = held_off ? field_rest(e->hold_until_ms, c->clock_ms, -1) : LEADER_NEVER_;
    e->is_first = field_bool(B.forgets > 0 && e->is_first);
    e->drawn_again = held && e->is_first ? field_token(e->drawn_again) : 0;
}

/* What is on its way to the store; what it says does not matter if it cannot be carried out any more. */
static void field_written(candidate *c) {
    record next = c->call.entry;
    if (!field_bool(may_succeed(&next))) {
        memset(&next, 0, sizeof next);
        next.version = 1;
    } else {
        field_draft(&next, c);
    }
    if (K.now == PASS_READ) {
        record_to_entry(&next, &c->engine.next);
        c->call.entry = next;
    }
}

static void field_call(candidate *c) {
    leader_engine *e = &c->engine;
    network_call *call = &c->call;
    e->op = field_bool(e->op != LEADER_OP_NONE_) ? c->core.request.op : LEADER_OP_NONE_;
    e->step = field_bool(e->step == LEADER_STEP_WRITE_) ? LEADER_STEP_WRITE_ : LEADER_STEP_READ_;
    if (e->op == LEADER_OP_NONE_) {
        memset(call, 0, sizeof *call);
        return;
    }
    e->conflicts = field_int(e->conflicts, 3);
    e->call_ms = field_age(e->call_ms, c->clock_ms, lease_ms() + 1);
    call->state = (call_state)field_int(call->state, 2);
    call->is_write = e->step == LEADER_STEP_WRITE_;
    if (K.now == PASS_READ) {
        e->seq = c->core.request.seq;
        e->call_id = 5;
        call->id = 5;
    }
    if (call->is_write && call->state == CALL_SENT) {
        field_written(c);
    }
    if (call->state != CALL_ANSWERED) {
        return;
    }
    int result = field_int(call->result == LEADER_OK ? 0 : call->result == LEADER_LOST ? 1 : 2, 2);
    static const leader_result results[] = {LEADER_OK, LEADER_LOST, LEADER_E_IO, LEADER_E_IO};
    call->result = results[result];
    if (call->result == LEADER_OK && call->is_write) {
        field_copy(&call->entry, c, 2);
        e->next.hold_off_ms = call->entry.hold_off_ms;
    } else if (call->result == LEADER_OK) {
        field_answer(c);
    }
}

static void field_candidate(int node) {
    candidate *c = &w.c[node];
    c->life = field_int(c->life, 2);
    if (K.now == PASS_READ) {
        c->core.nonce = nonce_of(node, c->life);
    }
    c->in_term = field_bool(c->in_term);
    c->working = field_bool(c->working);
    c->core.state = (leader_state)field_int(c->core.state, 3);
    field_lease_of(c);
    field_request(c);
    field_plan(c);
    field_knowledge(c);
    field_lineage(c);
    field_term(c);
    field_call(c);
    if (B.notices) {
        c->has_news = field_bool(c->has_news);
        if (c->has_news) {
            field_copy(&c->news, c, 2);
        }
    }
}

/* -- the world -- */

static void fields(void) {
    w.crashes = field_int(w.crashes, 2);
    w.resigns = field_int(w.resigns, 2);
    w.stops = field_int(w.stops, 2);
    w.forgets = field_int(w.forgets, 2);
    w.stalls = field_int(w.stalls, 2);
    w.resets = field_int(w.resets, 2);
    w.delays = field_int(w.delays, B.delays > 0 ? 3 : 0);
    w.store.present = field_bool(w.store.present);
    if (w.store.present) {
        field_record(&w.store);
        if (B.stamps) {
            w.store.stamp_ms = field_age(w.store.stamp_ms, w.c[K.order[0]].clock_ms, lease_ms() + 1);
        }
    }
    w.top_token = field_token(w.top_token);
    w.revisions = B.revisions ? field_token(w.revisions) : 1;
    for (int i = 0; i < B.nodes; i++) {
        field_candidate(K.order[i]);
    }
    w.orphans = field_int(w.orphans, 2);
    for (int i = 0; i < w.orphans; i++) {
        field_draft(&w.orphan[i], &w.c[K.order[0]]);
    }
}

static size_t pack_in_order(void) {
    K.epochs.count = 0;
    K.epoch_count = 0;
    for (int i = 0; i < ORIGINS_MAX; i++) {
        K.renewals[i].count = 0;
    }
    for (int i = 0; i < B.nodes; i++) {
        K.place[K.order[i]] = i;
    }
    K.origin_count = 0;
    K.now = PASS_COLLECT;
    fields();
    line_settle(&K.epochs, true);
    for (int i = 0; i < K.epoch_count; i++) {
        line_settle(&K.tokens[i], true);
    }
    for (int i = 0; i <= K.origin_count; i++) {
        line_settle(&K.renewals[i], false);
    }
    K.now = PASS_WRITE;
    K.bytes = 0;
    K.pending = 0;
    fields();
    return bits_end();
}

static const int orders[6][NODES_MAX] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

/* What tells most candidates apart, so that few orders have to be tried: nothing but what is in the text
   anyway. */
static uint64_t signature(const candidate *c) {
    const leader_t *l = &c->core;
    const leader_engine *e = &c->engine;
    bool asks = l->request.op != LEADER_OP_NONE_;
    uint64_t s = (uint64_t)l->state;
    s = s * 8 + (uint64_t)l->request.op;
    s = s * 4 + (uint64_t)l->lease.claim;
    s = s * 4 + (uint64_t)c->life;
    s = s * 4 + (asks ? (uint64_t)c->call.state : 0);
    s = s * 4 + (asks ? (uint64_t)e->step : 0);
    s = s * 8 + (asks ? (uint64_t)e->conflicts : 0);
    s = s * 16 + e->is_known + 2u * e->must_read + 4u * e->seen_any + 8u * (e->known.holder[0] != 0);
    if (asks) {
        int64_t age_ms = leader_min_(c->clock_ms - l->request.sent_ms, l->cfg.renew_deadline_ms);
        s = s * 64 + (uint64_t)age_ms;
    }
    return s;
}

static bool is_sorted(const uint64_t *of, const int *order) {
    bool sorted = of[order[0]] <= of[order[1]];
    return sorted && (B.nodes == 2 || of[order[1]] <= of[order[2]]);
}

/* The smallest text of all orders; `order` says which it was. Clocks that differ keep their owners. */
static size_t pack(uint8_t key[KEY_MAX], int order[NODES_MAX]) {
    size_t best = 0;
    uint64_t of[NODES_MAX] = {0, 0, 0};
    bool alike = B.fast_ms == B.slow_ms;
    int count = B.nodes == 2 ? 2 : 6;
    for (int i = 0; i < B.nodes && alike; i++) {
        of[i] = signature(&w.c[i]);
    }
    for (int i = 0; i < (alike ? count : 1); i++) {
        if (!is_sorted(of, orders[i])) {
            continue;
        }
        memcpy(K.order, orders[i], sizeof K.order);
        size_t size = pack_in_order();
        if (best == 0 || size < best || (size == best && memcmp(K.key, key, size) < 0)) {
            memcpy(key, K.key, size);
            memcpy(order, K.order, sizeof K.order);
            best = size;
        }
    }
    return best;
}

static void unpack(const uint8_t *key, size_t size) {
    memcpy(K.key, key, size);
    memcpy(K.order, orders[0], sizeof K.order);
    K.now = PASS_READ;
    K.bytes = 0;
    K.pending = 0;
    violation = NULL;
    memset(&w.store, 0, sizeof w.store);
    for (int i = 0; i < B.nodes; i++) {
        w.c[i].clock_ms = 100000;
    }
    fields();
    w.versions = 2;
    w.origins = ORIGINS_MAX + 1;
}

#endif
