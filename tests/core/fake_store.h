/* One election, on a store that answers what the test wants and on a clock that the test turns.

   A test prepares f->cfg, calls begin(), writes a script ("the next renew fails", "every acquire is HELD")
   and lets time pass with run(). What happened can be read afterwards: f->said, the callbacks in their
   order; f->sent[], the requests. Everything that must hold in *every* test is watched all the time: see
   complain(). */
#ifndef FAKE_STORE_H_INCLUDED
#define FAKE_STORE_H_INCLUDED

#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/tools/utest.h"

typedef enum fake_op { ACQUIRE, RENEW, RELEASE, OBSERVE, OPS } fake_op;

typedef struct fake_answer {
    leader_result result;
    leader_record record;
    int64_t after_ms;               // PENDING until this long after the send
    int64_t takes_ms;               // the call itself lasts this long: a blocking store, or a stall
    int     pendings;               // PENDING this many times first, each with record.again_ms
} fake_answer;

typedef struct fake_request {
    fake_op  op;
    uint64_t seq, min_token;
    int64_t  at_ms, timeout_ms;     // at_ms: request.now_ms, since begin()
    bool     reclaim;
} fake_request;

enum { FAKE_SCRIPT_MAX = 64, FAKE_SENT_MAX = 4096, FAKE_START_MS = 1000000 };

typedef struct fake {
    leader_t      me;
    leader_config cfg;
    int64_t       now_ms;           // the clock
    int64_t       creep_ms;         // it goes on by this much whenever somebody looks at it
    bool          real_time;        // it is the real one: for what really sleeps

    fake_answer   script[OPS][FAKE_SCRIPT_MAX], always[OPS];
    int           scripted[OPS], played[OPS];
    bool          has_always[OPS];
    uint64_t      token;            // of the store that does what it should, where nothing else is scripted
    uint64_t      seq, nonce;       // of the request under way or the last one
    int           pendings;
    bool          changed;          // what poll answers, once
    bool          changed_always;

    fake_request  sent[FAKE_SENT_MAX];
    int           sent_count, calls, polls, cancels, opens, closes;
    const leader_host *host;

    char          said[4096];       // callbacks: "started 1; leader a; stopped 1 ok; leader -; "
    char          log[8192];        // "W text\n"
    int           started, stopped;
    uint64_t      last_token;
    bool          healthy, drained;
    int           healthy_asked, drained_asked;
    void (*in_started)(struct fake *), (*in_stopped)(struct fake *), (*in_new)(struct fake *),
        (*in_log)(struct fake *);
    void        (*in_call)(struct fake *);       // inside every call of the backend
    int64_t       result;           // for the hooks to leave something in
    char          wrong[256];       // the first thing that must never happen, and did
} fake;

static inline void complain(fake *f, const char *text) {
    if (!f->wrong[0]) snprintf(f->wrong, sizeof f->wrong, "%s", text);
}

/* ---- answers ----------------------------------------------------------------------------------- */

static inline fake_answer says(leader_result result) {
    fake_answer a;
    memset(&a, 0, sizeof a);
    a.result = result;
    a.record.expires_in_ms = -1;
    return a;
}
static inline fake_answer held(const char *holder, uint64_t token, int64_t expires_in_ms) {
    fake_answer a = says(LEADER_HELD);
    snprintf(a.record.holder, sizeof a.record.holder, "%s", holder);
    a.record.token = token;
    a.record.expires_in_ms = expires_in_ms;
    return a;
}
static inline fake_answer named(fake_answer a, const char *holder, uint64_t token) {
    snprintf(a.record.holder, sizeof a.record.holder, "%s", holder);
    a.record.token = token;
    return a;
}
static inline fake_answer granted(uint64_t token, int64_t hold_off_ms) {
    fake_answer a = says(LEADER_OK);
    a.record.token = token;
    a.record.hold_off_ms = hold_off_ms;
    return a;
}
static inline fake_answer after(fake_answer a, int64_t ms) { a.after_ms = ms; return a; }
static inline fake_answer taking(fake_answer a, int64_t ms) { a.takes_ms = ms; return a; }
static inline fake_answer again_in(fake_answer a, int64_t ms) { a.record.again_ms = ms; return a; }
static inline fake_answer never(void) { return after(says(LEADER_OK), INT64_MAX); }

static inline void next(fake *f, fake_op op, fake_answer a) {
    if (f->scripted[op] < FAKE_SCRIPT_MAX) f->script[op][f->scripted[op]++] = a;
    else complain(f, "the script is full");
}
static inline void always(fake *f, fake_op op, fake_answer a) { f->always[op] = a; f->has_always[op] = true; }
static inline void well_again(fake *f, fake_op op) {
    f->has_always[op] = false;
    f->played[op] = f->scripted[op];
}

/* ---- the backend ------------------------------------------------------------------------------- */

static inline void fake_note_(fake *f, fake_op op, const leader_request *r) {
    if (r->seq <= f->seq) complain(f, "seq did not rise");
    if (f->nonce && f->nonce != r->nonce) complain(f, "the nonce changed");
    if (r->nonce == 0) complain(f, "the nonce is 0");
    if (strcmp(r->identity, "a") != 0) complain(f, "another identity was sent");
    if (r->timeout_ms < 1) complain(f, "no time was left for a request");
    if (r->now_ms > f->now_ms) complain(f, "a request was sent before its clock reading");
    f->seq = r->seq;
    f->nonce = r->nonce;
    f->pendings = 0;
    if (f->sent_count == FAKE_SENT_MAX) { complain(f, "too many requests"); return; }
    fake_request *s = &f->sent[f->sent_count++];
    s->op = op;
    s->seq = r->seq;
    s->min_token = r->min_token;
    s->at_ms = r->now_ms - FAKE_START_MS;
    s->timeout_ms = r->timeout_ms;
    s->reclaim = r->reclaim;
}

static inline leader_result fake_call_(fake *f, fake_op op, const leader_request *r, leader_record *seen) {
    leader_record zeroed;
    memset(&zeroed, 0, sizeof zeroed);
    const bool scripted = f->played[op] < f->scripted[op];
    if (memcmp(seen, &zeroed, sizeof zeroed) != 0) complain(f, "the record was not zeroed before the call");
    if (r->seq != f->seq) fake_note_(f, op, r);
    f->calls++;
    if (f->in_call) f->in_call(f);
    fake_answer a = scripted            ? f->script[op][f->played[op]]
                    : f->has_always[op] ? f->always[op]
                                        : granted(0, 0);
    if (f->now_ms - r->now_ms < a.after_ms || f->pendings < a.pendings) {
        f->pendings++;
        seen->again_ms = a.record.again_ms;
        return LEADER_PENDING;
    }
    if (scripted) f->played[op]++;
    f->now_ms += a.takes_ms;
    *seen = a.record;
    if (op == ACQUIRE && a.result == LEADER_OK) {
        if (seen->token == 0) seen->token = r->min_token > f->token ? r->min_token : f->token + 1;
        if (seen->token > f->token && seen->token <= INT64_MAX) f->token = seen->token;
    }
    return a.result;
}

static inline leader_result fake_acquire_(void *self, const leader_request *r, leader_record *seen) {
    return fake_call_((fake *)self, ACQUIRE, r, seen);
}
static inline leader_result fake_renew_(void *self, const leader_request *r, leader_record *seen) {
    return fake_call_((fake *)self, RENEW, r, seen);
}
static inline leader_result fake_release_(void *self, const leader_request *r, leader_record *seen) {
    return fake_call_((fake *)self, RELEASE, r, seen);
}
static inline leader_result fake_observe_(void *self, const leader_request *r, leader_record *seen) {
    return fake_call_((fake *)self, OBSERVE, r, seen);
}

static inline bool fake_poll_(void *self) {
    fake *f = (fake *)self;
    bool changed = f->changed;
    f->polls++;
    f->changed = false;
    return changed || f->changed_always;
}
static inline void fake_cancel_(void *self) {
    fake *f = (fake *)self;
    fake_op op = f->sent_count ? f->sent[f->sent_count - 1].op : ACQUIRE;
    f->cancels++;
    if (f->played[op] < f->scripted[op]) f->played[op]++;       // its answer will never be heard
}
static inline const char *fake_open_(void *self, const leader_host *host) {
    fake *f = (fake *)self;
    f->opens++;
    f->host = host;
    return NULL;
}
static inline void fake_close_(void *self) { ((fake *)self)->closes++; }

/* ---- callbacks --------------------------------------------------------------------------------- */

static inline void fake_say_(fake *f, const char *format, ...) LEADER_PRINTF_(2, 3);
static inline void fake_say_(fake *f, const char *format, ...) {
    size_t n = strlen(f->said);
    va_list args;
    va_start(args, format);
    vsnprintf(f->said + n, sizeof f->said - n, format, args);
    va_end(args);
}
static inline const char *fake_word_(leader_result r) {
    switch (r) {
    case LEADER_OK: return "asked";
    case LEADER_LOST: return "lost";
    case LEADER_UNHEALTHY: return "unhealthy";
    case LEADER_E_IO: return "io";
    case LEADER_E_STORE: return "store";
    case LEADER_E_TIMEOUT: return "deadline";
    case LEADER_E_AUTH: return "auth";
    case LEADER_E_CORRUPT: return "corrupt";
    case LEADER_E_DUPLICATE: return "duplicate";
    case LEADER_E_STATE: return "nonsense";
    case LEADER_PENDING: case LEADER_HELD: case LEADER_E_CONFIG: case LEADER_E_REENTRANT: break;
    }
    return "?";
}
static inline void fake_on_started_(void *user, uint64_t token) {
    fake *f = (fake *)user;
    if (f->started != f->stopped) complain(f, "a term started inside another");
    if (token <= f->last_token) complain(f, "a token did not rise");
    if (leader_is_leader(&f->me) && leader_token(&f->me) != token)
        complain(f, "on_started_leading and leader_token disagree");
    f->last_token = token;
    f->started++;
    fake_say_(f, "started %llu; ", (unsigned long long)token);
    if (f->in_started) f->in_started(f);
}
static inline void fake_on_stopped_(void *user, uint64_t token, leader_result why) {
    fake *f = (fake *)user;
    if (f->started != f->stopped + 1) complain(f, "a term stopped that had not started");
    if (token != f->last_token) complain(f, "a term stopped with another token");
    if (leader_is_leader(&f->me) || leader_token(&f->me) || leader_get_view(&f->me).leading)
        complain(f, "leader inside on_stopped_leading");
    f->stopped++;
    fake_say_(f, "stopped %llu %s; ", (unsigned long long)token, fake_word_(why));
    if (f->in_stopped) f->in_stopped(f);
}
static inline void fake_on_new_(void *user, const char *identity) {
    fake *f = (fake *)user;
    char leader[LEADER_IDENTITY_MAX + 1];
    leader_get_leader(&f->me, leader, sizeof leader);
    if (strcmp(leader, identity) != 0 && (strcmp(identity, "a") != 0 || leader_is_leader(&f->me)))
        complain(f, "on_new_leader and leader_get_leader disagree");
    if (strcmp(identity, "a") != 0 && f->started != f->stopped)
        complain(f, "another leader was reported inside a term");
    fake_say_(f, "leader %s; ", identity[0] ? identity : "-");
    if (f->in_new) f->in_new(f);
}
static inline void fake_on_log_(void *user, leader_level level, const char *text) {
    fake *f = (fake *)user;
    size_t n = strlen(f->log);
    snprintf(f->log + n, sizeof f->log - n, "%c %s\n", "?EWID"[level], text);
    if (f->in_log) f->in_log(f);
}
static inline bool fake_is_healthy_(void *user) {
    ((fake *)user)->healthy_asked++;
    return ((fake *)user)->healthy;
}
static inline bool fake_is_drained_(void *user) {
    ((fake *)user)->drained_asked++;
    return ((fake *)user)->drained;
}
static inline int64_t fake_clock_(void *user) {
    fake *f = (fake *)user;
    f->now_ms += f->creep_ms;
    if (f->real_time) f->now_ms = leader_clock_ms_();
    return f->now_ms;
}

/* ---- set-up and time --------------------------------------------------------------------------- */

static inline void prepare(fake *f) {
    memset(f, 0, sizeof *f);
    f->now_ms = FAKE_START_MS;
    f->healthy = f->drained = true;
    f->cfg.identity = "a";
    f->cfg.backend.self = f;
    f->cfg.backend.acquire = fake_acquire_;
    f->cfg.backend.renew = fake_renew_;
    f->cfg.backend.release = fake_release_;
    f->cfg.backend.observe = fake_observe_;
    f->cfg.backend.poll = fake_poll_;
    f->cfg.backend.cancel = fake_cancel_;
    f->cfg.backend.open = fake_open_;
    f->cfg.backend.close = fake_close_;
    f->cfg.is_healthy = fake_is_healthy_;
    f->cfg.is_drained = fake_is_drained_;
    f->cfg.on_started_leading = fake_on_started_;
    f->cfg.on_stopped_leading = fake_on_stopped_;
    f->cfg.on_new_leader = fake_on_new_;
    f->cfg.on_log = fake_on_log_;
    f->cfg.user = f;
    f->cfg.clock_ms = fake_clock_;
    f->cfg.clock_user = f;
}
static inline void begin(fake *f) {
    if (leader_init(&f->me, &f->cfg) != LEADER_OK) complain(f, leader_error(&f->me));
}

static inline int tick(fake *f) {
    int wait = leader_tick(&f->me);
    if (wait < 1 || wait > LEADER_WAIT_MAX_MS) complain(f, "leader_tick answered something outside 1..60000");
    return wait;
}
/* Lets time pass as a loop does that sleeps exactly as long as it is told; the last tick is at the very
   end. */
static inline void run(fake *f, int64_t ms) {
    int64_t end = f->now_ms + ms;
    for (;;) {
        int wait = tick(f);
        if (f->now_ms >= end) return;
        f->now_ms += wait < end - f->now_ms ? wait : end - f->now_ms;
    }
}
/* A loop, up to the moment that is so many ms after begin(). */
static inline void run_to(fake *f, int64_t ms) { run(f, FAKE_START_MS + ms - f->now_ms); }
/* Time without a tick. */
static inline void stall(fake *f, int64_t ms) { f->now_ms += ms; }
static inline void stall_to(fake *f, int64_t ms) { f->now_ms = FAKE_START_MS + ms; }

static inline void finish(fake *f) {
    f->in_started = f->in_stopped = f->in_new = f->in_log = f->in_call = NULL;
    leader_close(&f->me, 0);
    if (f->started != f->stopped) complain(f, "a term never stopped");
    if (f->opens != f->closes) complain(f, "the backend was not closed once");
}

/* ---- what happened ----------------------------------------------------------------------------- */

static inline int sends(const fake *f, fake_op op) {
    int n = 0;
    for (int i = 0; i < f->sent_count; i++) n += f->sent[i].op == op;
    return n;
}
/* The nth request of a kind, from 0; negative counts from the last. A request at -1 where there is none. */
static inline fake_request sent(const fake *f, fake_op op, int nth) {
    static const fake_request none = {OPS, 0, 0, -1, -1, false};
    if (nth < 0) nth += sends(f, op);
    for (int i = 0; i < f->sent_count && nth >= 0; i++)
        if (f->sent[i].op == op && nth-- == 0)
            return f->sent[i];
    return none;
}
/* "acquire 0, renew 5000, renew 5500": all requests and when they were sent. */
static inline const char *story(const fake *f) {
    static const char *const names[] = {"acquire", "renew", "release", "observe"};
    static char text[2048];
    text[0] = 0;
    for (int i = 0; i < f->sent_count; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s %lld", i ? ", " : "", names[f->sent[i].op],
                 (long long)f->sent[i].at_ms);
    }
    return text;
}
static inline leader_state state(const fake *f) { return leader_get_state(&f->me); }
static inline leader_stats stats(const fake *f) { return leader_get_stats(&f->me); }
static inline leader_view view(const fake *f) { return leader_get_view(&f->me); }
static inline bool leads(const fake *f) { return leader_is_leader(&f->me); }

/* A set of tests, each with a fake of its own named f, prepared but not begun. */
#define FAKE_FIXTURE(SET)                                                                                    \
    struct SET {                                                                                             \
        fake f;                                                                                              \
    };                                                                                                       \
    UTEST_F_SETUP(SET) {                                                                                     \
        prepare(&utest_fixture->f);                                                                          \
        EXPECT_STREQ("", utest_fixture->f.wrong);                                                            \
    }                                                                                                        \
    UTEST_F_TEARDOWN(SET) {                                                                                  \
        finish(&utest_fixture->f);                                                                           \
        EXPECT_STREQ("", utest_fixture->f.wrong);                                                            \
    }
#define FAKE_TEST(SET, NAME)                                                                                 \
    static void test_##SET##_##NAME(int *utest_result, fake *f);                                             \
    UTEST_F(SET, NAME) {                                                                                     \
        test_##SET##_##NAME(utest_result, &utest_fixture->f);                                                \
    }                                                                                                        \
    static void test_##SET##_##NAME(int *utest_result, fake *f)

#endif
