/* The state machine over a store that answers anything, in any time. Whatever it says: true is read only
   within the validity of a request that succeeded, never before a hold-off is over; callbacks come in
   pairs and in order; tokens rise; requests are made one at a time; nothing is released before the work is
   over. */
#include "fuzz.h"

typedef struct core_world {
    fuzz_input in;
    leader_t   l;
    int        op;                  // under way in the store; 0: none
    uint64_t   seq, token;          // last request's; last term's
    int64_t    valid_until, hold_until;
    bool       led, undrained, answered, stopped;
} core_world;

enum { CORE_ACQUIRE = 1, CORE_RENEW, CORE_RELEASE, CORE_OBSERVE };

static void core_pass(core_world *w) {
    static const int64_t steps[8] = {0, 1, 7, 100, 499, 5000, 20000, 0};
    unsigned byte = fuzz_byte(&w->in);
    fuzz_now_ms += byte == 255 ? INT64_C(1) << 40 : steps[byte & 7] + (byte >> 3);
}

static void core_check(core_world *w) {
    leader_view view = leader_get_view(&w->l);
    bool leading = leader_is_leader(&w->l);
    MUST(view.leading == leading && (leader_token(&w->l) != 0) == leading);
    MUST(view.remaining_ms >= 0 && strlen(view.leader) <= LEADER_IDENTITY_MAX);
    MUST(leader_due_ms(&w->l) >= 0 && leader_due_ms(&w->l) <= LEADER_WAIT_MAX_MS);
    if (!leading) return;
    MUST(w->led && fuzz_now_ms < w->valid_until && fuzz_now_ms > w->hold_until);
    MUST(leader_token(&w->l) == w->token && view.state == LEADER_STATE_LEADER
         && view.remaining_ms <= w->valid_until - fuzz_now_ms);
}

/* What the answer means, as the header's rules have it. */
static void core_note(core_world *w, const leader_request *q, int result, const leader_record *seen) {
    bool sane = seen->token <= INT64_MAX;
    if (sane && result != LEADER_PENDING && w->op == CORE_ACQUIRE && result == LEADER_OK) {
        const int64_t ten_years = INT64_C(315360000000);
        int64_t hold_off = seen->hold_off_ms < ten_years ? seen->hold_off_ms : ten_years;
        if (w->l.cfg.cautious_start && !w->answered && hold_off < w->l.cfg.lease_ms)
            hold_off = w->l.cfg.lease_ms;
        if (hold_off > 0 && fuzz_now_ms + hold_off > w->hold_until) w->hold_until = fuzz_now_ms + hold_off;
        w->valid_until = seen->token >= q->min_token ? q->now_ms + w->l.cfg.renew_deadline_ms : INT64_MIN;
        w->answered = true;
    }
    if (sane && w->op == CORE_ACQUIRE && (result == LEADER_HELD || result == LEADER_E_DUPLICATE))
        w->answered = true;
    if (sane && w->op == CORE_RENEW && result == LEADER_OK)
        w->valid_until = q->now_ms + w->l.cfg.renew_deadline_ms;
    if (sane && w->op == CORE_RENEW && (result == LEADER_LOST || result == LEADER_E_DUPLICATE))
        w->valid_until = INT64_MIN;
}

static leader_result core_answer(core_world *w, int op, const leader_request *q, leader_record *seen) {
    MUST(q->seq == w->seq ? op == w->op : q->seq > w->seq && (w->op == 0 || !w->l.cfg.backend.cancel));
    MUST(q->now_ms <= fuzz_now_ms && q->timeout_ms >= 1 && q->nonce != 0 && q->lease_ms == w->l.cfg.lease_ms
         && q->min_token > w->token);
    MUST(op != CORE_ACQUIRE || (!w->led && !w->undrained && !w->l.cfg.observe_only));
    MUST(op != CORE_RELEASE || (!w->led && !w->undrained && fuzz_now_ms > w->hold_until));
    MUST(!w->stopped);
    w->op = op;
    w->seq = q->seq;
    core_pass(w);
    unsigned choice = fuzz_byte(&w->in), fill = fuzz_byte(&w->in);
    int result = choice < 128 ? LEADER_OK : choice < 250 ? (int)(choice % 13) - 8 : (int)fuzz_number(&w->in);
    seen->token = fill & 1   ? (uint64_t)fuzz_number(&w->in)
                  : fill & 2 ? q->min_token + fuzz_byte(&w->in)
                             : q->min_token;
    if (fill & 4) seen->expires_in_ms = fuzz_number(&w->in);
    if (fill & 8) seen->hold_off_ms = fuzz_number(&w->in);
    if (fill & 16) seen->again_ms = fuzz_number(&w->in);
    if (fill & 32) memset(seen->holder, 'x', fill & 64 ? sizeof seen->holder : 3);
    if (fill & 128) memcpy(seen->holder, "me", 3);
    if (fill == 255) w->l.host.log(w->l.host.core, LEADER_LOG_ERROR, "the store has something to say");
    core_note(w, q, result, seen);
    // such a token ends it, whatever comes with it
    if (result != LEADER_PENDING || seen->token > INT64_MAX) w->op = 0;
    return (leader_result)result;
}

static leader_result core_acquire(void *w, const leader_request *q, leader_record *seen) {
    return core_answer((core_world *)w, CORE_ACQUIRE, q, seen);
}
static leader_result core_renew(void *w, const leader_request *q, leader_record *seen) {
    return core_answer((core_world *)w, CORE_RENEW, q, seen);
}
static leader_result core_release(void *w, const leader_request *q, leader_record *seen) {
    return core_answer((core_world *)w, CORE_RELEASE, q, seen);
}
static leader_result core_observe(void *w, const leader_request *q, leader_record *seen) {
    return core_answer((core_world *)w, CORE_OBSERVE, q, seen);
}
static bool core_poll(void *w) { core_pass((core_world *)w); return fuzz_byte(&((core_world *)w)->in) & 1; }
static void core_cancel(void *w) { MUST(((core_world *)w)->op != 0); ((core_world *)w)->op = 0; }

static bool core_is_healthy(void *w) {
    core_pass((core_world *)w);
    return (fuzz_byte(&((core_world *)w)->in) & 15) != 15;
}
static bool core_is_drained(void *user) {
    core_world *w = (core_world *)user;
    bool drained = (fuzz_byte(&w->in) & 3) != 3;
    core_pass(w);
    if (drained) w->undrained = false;
    return drained;
}
static void core_started(void *user, uint64_t token) {
    core_world *w = (core_world *)user;
    MUST(!w->led && !w->undrained && token > w->token && leader_is_leader(&w->l));
    w->led = true;
    w->token = token;
    core_check(w);
    core_pass(w);
}
static void core_stopped(void *user, uint64_t token, leader_result why) {
    core_world *w = (core_world *)user;
    MUST(w->led && token == w->token && !leader_is_leader(&w->l) && leader_strerror(why)[0]);
    w->led = false;
    w->undrained = true;
    core_pass(w);
}
static void core_new_leader(void *user, const char *identity) {
    core_world *w = (core_world *)user;
    MUST(strlen(identity) <= LEADER_IDENTITY_MAX);
    MUST(strcmp(identity, "me") == 0 || !w->led);
    MUST(leader_tick(&w->l) == 100);                // a callback cannot re-enter
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static core_world w;
    leader_config cfg;
    fuzz_reset();
    memset(&w, 0, sizeof w);
    memset(&cfg, 0, sizeof cfg);
    w.in = fuzz_open(data, size);
    w.valid_until = w.hold_until = INT64_MIN;
    unsigned flags = fuzz_byte(&w.in);
    cfg.identity = "me";
    cfg.backend.self = &w;
    cfg.backend.acquire = core_acquire;
    cfg.backend.renew = core_renew;
    cfg.backend.release = core_release;
    cfg.backend.observe = flags & 1 ? core_observe : NULL;
    cfg.backend.poll = flags & 2 ? core_poll : NULL;
    cfg.backend.cancel = flags & 4 ? core_cancel : NULL;
    cfg.clock_ms = fuzz_clock_ms;
    cfg.user = &w;
    cfg.cautious_start = flags & 8;
    cfg.keep_lease_on_stop = flags & 16;
    cfg.is_healthy = flags & 32 ? core_is_healthy : NULL;
    cfg.is_drained = core_is_drained;
    cfg.on_started_leading = core_started;
    cfg.on_stopped_leading = core_stopped;
    cfg.on_new_leader = core_new_leader;
    cfg.observe_only = (flags & 0xc1) == 0xc1;
    cfg.drain_timeout_ms = flags & 64 ? 3000 : 0;
    cfg.renew_retries = flags & 128 ? -1 : 0;
    MUST(leader_init(&w.l, &cfg) == LEADER_OK);
    for (int step = 0; step < 400 && w.in.at < w.in.end; step++) {
        unsigned what = fuzz_byte(&w.in);
        if (what == 250) leader_stop(&w.l);
        else if (what == 251) leader_resign(&w.l, fuzz_number(&w.in));
        else if (what == 252) MUST(leader_wait(&w.l, 0) != LEADER_E_REENTRANT);
        else {
            core_pass(&w);
            core_check(&w);
            int wait = leader_tick(&w.l);
            MUST(wait >= 1 && wait <= LEADER_WAIT_MAX_MS);
            if (what & 1) fuzz_now_ms += wait;
        }
        core_check(&w);
        w.stopped = leader_is_stopped(&w.l);
        leader_stats stats = leader_get_stats(&w.l);
        MUST(strlen(stats.last_error_text) < sizeof stats.last_error_text && stats.terms <= stats.acquires);
        (void)leader_is_healthy(&w.l, 1000);
    }
    (void)leader_close(&w.l, 0);
    MUST(!w.led && !leader_is_leader(&w.l) && leader_token(&w.l) == 0 && leader_close(&w.l, 0) == LEADER_OK);
    return 0;
}
