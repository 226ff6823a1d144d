/* What must hold, whatever happens. Each check states a promise of leader.h in its own terms: nothing here
   looks inside. */

static void scenario_leads(candidate *c);
static void scenario_stops_leading(candidate *c);

static int64_t plan_renew_retry_ms(const candidate_plan *p) {
    int64_t ms = (plan_deadline_ms(p) - plan_renew_ms(p)) / 10;
    return ms < 1 ? 1 : ms < 500 ? ms : 500;
}

static void check_forget(candidate *c) {  // a new process begins
    c->in_term = c->lapsed = c->said_unhealthy = c->seen_record = c->keeps = false;
    c->drained = true;  // it has led nothing yet
    c->term_token = c->seen_token = c->request_seq = 0;
    c->valid_until_ms = c->hold_until_ms = INT64_MIN;
    c->start_count = c->renew_count = 0;
    c->longest_ms = 0;
    c->terms = 0;
    c->shown_token = 0;
    c->shown_value[0] = 0;
}

/* ---- what a leader says about itself belongs to its term ------------------------------------------- */
static void value_write(const candidate *c, char out[SIM_VALUE_BYTES]) {
    snprintf(out, SIM_VALUE_BYTES, "%d.%u.%d \"\\%s\xc3\xbc", c->number, (unsigned)c->incarnation, c->value,
             c->number % 2 ? " / \t" : "");
}

static term_values *values_of_term(uint64_t token) {
    unsigned kept = sim.term_count < SIM_TERMS_KEPT ? sim.term_count : SIM_TERMS_KEPT;
    for (unsigned i = 1; i <= kept; i++) {
        term_values *t = &sim.terms[(sim.term_count - i) % SIM_TERMS_KEPT];
        if (t->token == token) {
            return t;
        }
    }
    return NULL;
}

/* A term that others saw, but that had not begun: its record may be gone, and its token is given again. */
static void values_lose_power(void) {
    for (int i = 0; i < SIM_TERMS_KEPT; i++) {
        if (sim.terms[i].begun == 0) {
            sim.terms[i].token = 0;
            sim.terms[i].who = -1;
        }
    }
}

/* A holder that holds off draws its token again: the first one is shown with the same values, never led. */
static bool was_drawn_again(const term_values *a, const term_values *b) {
    const term_values *lower = a->token < b->token ? a : b;
    return lower->begun == 0;
}

/* No value is that of two terms: each attempt says something new. Only what one attempt wrote twice, because
   its request was doubled or its answer lost, begins alike. */
static void check_values_apart(const candidate *c, const term_values *one) {
    unsigned kept = sim.term_count < SIM_TERMS_KEPT ? sim.term_count : SIM_TERMS_KEPT;
    for (unsigned i = 0; i < kept; i++) {
        const term_values *t = &sim.terms[i];
        bool same_process = t->who == one->who && t->incarnation == one->incarnation;
        bool overlap = t->first <= one->last && one->first <= t->last;
        bool alike = t->first == one->first || was_drawn_again(t, one);
        if (t != one && same_process && overlap && !alike) {
            violation(&run.others, "%d shows what %d said in term %llu with token %llu", c->number, one->who,
                      (unsigned long long)t->token, (unsigned long long)one->token);
        }
    }
}

static term_values *values_note(uint64_t token, int who, uint32_t incarnation, int number) {
    term_values *t = values_of_term(token);
    if (!t) {
        term_values fresh = {token, who, incarnation, number, number, 0};
        t = &sim.terms[sim.term_count++ % SIM_TERMS_KEPT];
        *t = fresh;
    }
    return t;
}

static void check_value(const candidate *c, uint64_t token, int who, uint32_t incarnation, int number) {
    term_values *t = values_note(token, who, incarnation, number);
    if (t->who != who || t->incarnation != incarnation) {
        violation(&run.others, "%d shows token %llu with a value of %d, which is of %d", c->number,
                  (unsigned long long)token, who, t->who);
    }
    if (number < t->begun) {
        violation(&run.others, "%d shows token %llu with value %d, said before that term", c->number,
                  (unsigned long long)token, number);
    }
    if (number < t->first) {
        t->first = number;
    }
    if (number > t->last) {
        t->last = number;
    }
    check_values_apart(c, t);
}

/* The numbers of a term begin with that of the attempt that began it. */
static void values_begin(const candidate *c, uint64_t token) {
    if (!c->plan.says || sim.tokens_reset) {
        return;
    }
    term_values *t = values_note(token, c->number, c->incarnation, c->asked_value);
    if (t->first < c->asked_value) {
        violation(&run.others, "token %llu was shown with a value that %d had said before that term",
                  (unsigned long long)token, c->number);
    }
    t->begun = c->asked_value;
}

static bool says_nothing(const char *name) {
    for (int i = 0; i < sim.count; i++) {
        if (strcmp(sim_name(sim.all[i].name), name) == 0 && !sim.all[i].plan.says) {
            return true;
        }
    }
    return false;
}

/* Who is shown as leader, its token and its value are of one term. */
static void check_shown(candidate *c) {
    candidate *was = sim.running;
    int who = 0;
    unsigned incarnation = 0;
    int number = 0;
    sim.running = NULL;
    leader_view view = leader_get_view(&c->leader);
    sim.running = was;
    if (view.token == c->shown_token && strcmp(view.value, c->shown_value) == 0) {
        return;
    }
    run.values++;
    c->shown_token = view.token;
    memcpy(c->shown_value, view.value, sizeof c->shown_value);
    c->shown_value[sizeof c->shown_value - 1] = 0;
    if (!view.leader[0] || !view.value[0]) {
        if (view.value[0] || (view.leader[0] && !says_nothing(view.leader))) {
            violation(&run.others, "%d shows leader \"%s\" with value \"%s\"", c->number, view.leader,
                      view.value);
        }
        return;
    }
    if (sscanf(view.value, "%d.%u.%d ", &who, &incarnation, &number) != 3 || who < 0 || who >= sim.count
        || strcmp(sim_name(sim.all[who].name), view.leader) != 0) {
        violation(&run.others, "%d shows \"%s\" as the value of %s", c->number, view.value, view.leader);
        return;
    }
    if (!sim.tokens_reset) {
        check_value(c, view.token, who, incarnation, number);
    }
}

/* At most one leader. A candidate turns leader only while it runs itself, so it is enough to ask about the
   one that has just run: if it leads, nobody else may, and it must have a success to show that is younger
   than its renew deadline. */
static void check_leaders(candidate *c) {
    candidate *was = sim.running;
    sim.running = NULL;
    bool leads = c->live && leader_is_leader(&c->leader);
    if (!leads && c->in_term) c->lapsed = true;
    if (leads) {
        int64_t now_ms = candidate_ms(c);
        if (c->in_term && c->lapsed)
            violation(&run.others, "%d leads again in a term that was over", c->number);
        if (now_ms >= c->valid_until_ms)
            violation(&run.others, "%d leads at %lld although its last success counts only until %lld",
                      c->number, (long long)now_ms, (long long)c->valid_until_ms);
        if (now_ms < c->hold_until_ms)
            violation(&run.others, "%d leads while it should hold off, the store having forgotten a holder",
                      c->number);
        for (int i = 0; i < sim.count; i++) {
            candidate *o = &sim.all[i];
            if (o != c && candidate_ms(o) < o->kept_until_ms)
                violation(&run.others,
                          "%d leads although %d was closed without a release and counts until %lld",
                          c->number, o->number, (long long)o->kept_until_ms);
            if (o == c || !o->live) continue;
            if (leader_is_leader(&o->leader))
                violation(&run.overlaps,
                          "two leaders: %d (token %llu, %lld ms left) and %d (token %llu, %lld ms left)",
                          c->number, (unsigned long long)leader_token(&c->leader),
                          (long long)leader_remaining_ms(&c->leader), o->number,
                          (unsigned long long)leader_token(&o->leader),
                          (long long)leader_remaining_ms(&o->leader));
            else if (leader_remaining_ms(&o->leader) > 0)
                violation(&run.others, "%d leads while %d is told that it has %lld ms to finish", c->number,
                          o->number, (long long)leader_remaining_ms(&o->leader));
        }
        scenario_leads(c);
    }
    sim.running = was;
}

/* ---- callbacks: strictly paired, strictly ordered ---------------------------------------------- */
static void check_started(candidate *c, uint64_t token) {
    candidate *was = sim.running;
    sim.running = NULL;
    run.terms++;
    c->terms++;
    if (c->in_term) violation(&run.unpaired, "%d starts leading twice", c->number);
    uint64_t floor = sim.tokens_reset ? c->seen_token : sim.top_token;
    /* Who stalled between the clock and the callback hears of a term that is over already: nobody can act
       on its token. */
    if (token <= floor && leader_is_leader(&c->leader))
        violation(&run.regressions, "%d leads with token %llu after token %llu", c->number,
                  (unsigned long long)token, (unsigned long long)floor);
    if (token > sim.top_token) sim.top_token = token;
    values_begin(c, token);
    sim.running = was;
    c->in_term    = true;
    c->lapsed     = false;
    c->term_token = token;
    c->drained    = c->plan.drain_ms == 0;
    c->keeps      = true;
}

static void check_stopped(candidate *c, uint64_t token) {
    candidate *was = sim.running;
    sim.running = NULL;
    if (!c->in_term) violation(&run.unpaired, "%d stops leading without having started", c->number);
    else if (token != c->term_token)
        violation(&run.unpaired, "%d stops leading token %llu, but had started %llu", c->number,
                  (unsigned long long)token, (unsigned long long)c->term_token);
    if (leader_is_leader(&c->leader))
        violation(&run.others, "%d still leads in on_stopped_leading", c->number);
    c->in_term       = false;
    c->term_ended_ms = candidate_ms(c);
    scenario_stops_leading(c);
    sim.running = was;
}

static void check_new_leader(candidate *c, const char *identity) {
    if (c->in_term && strcmp(identity, sim_name(c->name)) != 0)
        violation(&run.unpaired, "%d hears of leader \"%s\" before its own term was stopped", c->number,
                  identity);
}

static void check_drain_asked(candidate *c) {
    if (c->in_term)
        violation(&run.unpaired, "%d is asked whether it has drained before it was told to stop", c->number);
}

/* Whoever closes without a release leaves its lease to expire. (A crash is known at once on one machine, and
   so is the end of a process that could not remove the name of its lock; the store that compares and swaps
   may know of any end.) */
static void check_kept(candidate *c, bool crashed) {
    bool kept = !crashed && c->keeps && sim.store != STORE_REGISTER && sim.wiped_us == 0;
    kept = kept && (sim.store != STORE_FILE || !vfs_has_lock(c->nonce));
    c->kept_until_ms = kept ? c->valid_until_ms : INT64_MIN;
}

static void check_ended(candidate *c, bool crashed) {
    check_kept(c, crashed);
    if (!crashed && c->in_term) violation(&run.unpaired, "%d closed without on_stopped_leading", c->number);
}

/* ---- requests ---------------------------------------------------------------------------------- */

/* How often a candidate may ask: one request per interval, and the few early attempts that leader.h allows
   itself. */
static void check_rate(candidate *c, const char *what, int64_t *ring, unsigned *count, int64_t now_ms,
                       int64_t interval_ms) {
    enum { RING = SIM_RATE_RING };
    if (*count >= RING && now_ms - ring[*count % RING] < interval_ms)
        violation(&run.others, "%d sends %d %s requests within %lld ms, its interval being %lld", c->number,
                  RING + 1, what, (long long)(now_ms - ring[*count % RING]), (long long)interval_ms);
    ring[(*count)++ % RING] = now_ms;
}

static void check_request(candidate *c, op_kind op, const leader_request *rq) {
    note(c, "asks to %s, seq %llu, reading %lld", op_names[op], (unsigned long long)rq->seq,
         (long long)rq->now_ms);
    if (rq->seq < c->request_seq)
        violation(&run.others, "%d: seq went back to %llu", c->number, (unsigned long long)rq->seq);
    if (rq->now_ms > candidate_ms(c))
        violation(&run.others, "%d: reading %lld lies in the future", c->number, (long long)rq->now_ms);
    c->nonce       = rq->nonce;
    c->request_seq = rq->seq;
    c->request_op  = op;
    c->request_ms  = rq->now_ms;
    if (op == OP_ACQUIRE) c->asked_value = c->value;
    if (op == OP_RELEASE) c->keeps = false;
    if (c->plan.observer && op != OP_OBSERVE)
        violation(&run.others, "%d only observes, yet asks to %s", c->number, op_names[op]);
    if (op == OP_ACQUIRE && c->in_term)       violation(&run.others, "%d acquires what it leads", c->number);
    if (op == OP_ACQUIRE && c->said_unhealthy)
        violation(&run.others, "%d acquires although it is unhealthy", c->number);
    if (op == OP_RENEW && c->in_term && c->tick_ms >= c->valid_until_ms)
        violation(&run.others, "%d renews a term that ended at %lld", c->number,
                  (long long)c->valid_until_ms);
    if (op == OP_RELEASE && c->in_term)
        violation(&run.others, "%d releases what it still leads", c->number);
    if (op == OP_RELEASE && !c->drained)
        violation(&run.others, "%d releases before it has drained", c->number);
    if (op == OP_ACQUIRE || op == OP_OBSERVE)
        check_rate(c, op_names[op], c->starts_ms, &c->start_count, rq->now_ms, plan_retry_ms(&c->plan));
    if (op == OP_RENEW)
        check_rate(c, "renew", c->renew_starts_ms, &c->renew_count, rq->now_ms,
                   plan_renew_retry_ms(&c->plan) * (SIM_RATE_RING / 2));
}

static void check_longest(candidate *c, const char *holder) {
    for (int i = 0; i < sim.count; i++) {
        const candidate *o = &sim.all[i];
        if (strcmp(holder, sim_name(o->name)) == 0 && o->plan.lease_ms > c->longest_ms) {
            c->longest_ms = o->plan.lease_ms;
        }
    }
}

static bool saw_a_record(const candidate *c) { return c->seen_record; }

static void check_answer(candidate *c, op_kind op, leader_result result, const leader_record *seen) {
    note(c, "is answered to %s: %s, holder \"%s\", token %llu, expires in %lld, hold off %lld", op_names[op],
         leader_strerror(result), seen->holder, (unsigned long long)seen->token,
         (long long)seen->expires_in_ms, (long long)seen->hold_off_ms);
    if (seen->holder[0] || seen->token > 0) c->seen_record = true;
    check_longest(c, seen->holder);
    if (seen->token > c->seen_token && !(result == LEADER_OK && (op == OP_ACQUIRE || op == OP_RENEW)))
        c->seen_token = seen->token;
    if (op != OP_OBSERVE && (result == LEADER_LOST || result == LEADER_HELD)) c->keeps = false;
    if (result != LEADER_OK || (op != OP_ACQUIRE && op != OP_RENEW)) return;
    c->kept_until_ms = INT64_MIN;                               // its earlier process's, taken over
    c->valid_until_ms = c->request_ms + plan_deadline_ms(&c->plan);
    if (seen->hold_off_ms > 0) c->hold_until_ms = candidate_ms(c) + seen->hold_off_ms;
}

static void check_ticked(candidate *c, int wait_ms) {
    candidate *was = sim.running;
    sim.running = NULL;
    if (wait_ms < 1 || wait_ms > LEADER_WAIT_MAX_MS)
        violation(&run.others, "%d: leader_tick answered %d", c->number, wait_ms);
    bool     leads = leader_is_leader(&c->leader);
    uint64_t token = leader_token(&c->leader);
    if (leads && !c->in_term) violation(&run.unpaired, "%d leads without on_started_leading", c->number);
    if (leads ? token != c->term_token : token != 0)
        violation(&run.others, "%d: leader_token says %llu, the term's is %llu, leads: %d", c->number,
                  (unsigned long long)token, (unsigned long long)c->term_token, leads);
    if (leads && leader_get_state(&c->leader) != LEADER_STATE_LEADER)
        violation(&run.others, "%d leads in state %s", c->number,
                  leader_state_name(leader_get_state(&c->leader)));
    sim.running = was;
    check_shown(c);
}

static void check_statistics(candidate *c) {
    candidate *was = sim.running;
    sim.running = NULL;
    leader_stats stats = leader_get_stats(&c->leader);
    if (stats.terms != c->terms) violation(&run.others, "%d counts %llu terms, but had %llu", c->number,
                                           (unsigned long long)stats.terms, (unsigned long long)c->terms);
    sim.running = was;
}

/* Nothing has gone wrong for two leases: everybody knows who leads, and what it said at their beginning. */
static void check_known(const candidate *leader) {
    char value[SIM_VALUE_BYTES] = "";
    if (leader->plan.says) {
        value_write(leader, value);
    }
    for (int i = 0; i < sim.count; i++) {
        // twins cannot tell
        if (!sim.all[i].live || (i != leader->number && sim.all[i].name == leader->name)) continue;
        leader_view view = leader_get_view(&sim.all[i].leader);
        if (pg_is_deaf(&sim.all[i])) violation(&run.others, "%d listens to nothing", i);
        if (strcmp(view.leader, sim_name(leader->name)) != 0)
            violation(&run.others, "%d believes that \"%s\" leads, but %d does", i, view.leader,
                      leader->number);
        if (strcmp(view.value, value) != 0)
            violation(&run.others, "%d shows value \"%s\", but %d says \"%s\"", i, view.value, leader->number,
                      value);
    }
}
