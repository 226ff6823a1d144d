/* leader_quorum.h - v1.1.0 - a lease on a majority of independent stores, for leader.h
   Licence: see leader.h

   Three, five or seven stores of any kind, each behind a backend of its own: five Redis servers, three
   directories on three mounts, two servers and a Kubernetes cluster. The stores keep the state and know
   nothing of each other. This backend counts votes: it leads while a majority of the stores holds its
   record, so the loss of any minority costs nothing, not even time.

   DO THIS
       #define LEADER_WITH_QUORUM                     // and what the stores need, such as LEADER_WITH_REDIS
       #define LEADER_IMPLEMENTATION                  // in one C file
       #include "leader.h"

       leader_file one, two, three;
       leader_backend stores[3];
       stores[0] = leader_file_backend(&one, "/mnt/a/job.lease");
       stores[1] = leader_file_backend(&two, "/mnt/b/job.lease");
       stores[2] = leader_file_backend(&three, "/mnt/c/job.lease");
       leader_quorum quorum;
       cfg.backend = leader_quorum_backend(&quorum, stores, 3);

   All candidates name the same stores; their order does not matter. The stores fail independently of each
   other, or the majority is worth nothing.

   HOW IT DECIDES
   - An attempt looks at all stores at once. If a majority can be had, it acquires each of them. The
     term's token is above everything that a store told; stores that granted a lower one are asked again
     until a majority holds it. Validity is counted from before the first look.
   - A renewal counts only if a majority confirms it in this very round. A store that lost our record, or
     never had it, is repaired on the way: it gets the same token or a higher one. Only while the round
     before is younger than the renew deadline, though: later on somebody else may have led, and a term
     that takes back what it lost would have a token that is too low.
   - A store that was found empty gives a vote that counts only after a full lease, for a candidate that
     has just started as well: the leader that the store forgot may still lead. Such a record is not
     released, it expires.
   - No majority: what was got is released, and the next attempt comes at a random moment within retry_ms.
   - Each store has its own request. One that hangs is given up after three quarters of the request
     time-out, and delays nobody meanwhile, unless it is needed for a majority.

   WHAT IT DOES NOT PROMISE
   - Tokens rise as long as every majority has a store that remembers the last term. A term may be on no
     more than a bare majority, and one of these stores may be wiped. Therefore an attempt that has not
     heard from every store, or found one empty, begins at the wall clock (in milliseconds): above every
     earlier token, unless a clock was set back or there were more than a thousand attempts a second.
   - A store that comes back with an old state (a backup, a replica that lagged) counts as one that
     remembers. A minority of them can be outvoted only by tokens, at the resource.
   - A store wiped after the look, and an acquire whose answer is lost: then only the store knows that its
     record is in doubt, and must not release it. Ours do not; one of your own that is no register has to
     see to it (hold_off_ms).
   - The first start on new stores takes a full lease: they are all empty.
   - The token that others see beside the leader's name can be a little above its own: stores choose
     theirs.

   DESCRIPTORS. Those of all stores come together: a Redis client has two (one with no_notice), a file
   store one. See LEADER_FDS_MAX.  MESSAGES of a store begin with its number, "store 2 of 5: "; what fails
   in one store is a warning, and becomes leader_error() only when no majority is left. */
#ifndef LEADER_QUORUM_H_INCLUDED
#define LEADER_QUORUM_H_INCLUDED

#ifndef LEADER_H_INCLUDED
#  error "include leader.h before backends/leader_quorum.h, or define LEADER_WITH_QUORUM with it alone"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LEADER_QUORUM_MAX 7

typedef struct leader_quorum leader_quorum; // complete below: yours to place, not to read, copy or move

/* Copies the backends. Wrong settings are reported by leader_init. */
LEADER_API leader_backend leader_quorum_backend(leader_quorum *, const leader_backend *stores, int count);

/* ---- stop here if you only want the API ------------------------------------------------------- */

typedef struct leader_quorum_store_ {
    leader_quorum *quorum;
    leader_backend backend;
    leader_host    host;            // the core as this store sees it

    /* the request under way */
    int            op;              // LEADER_OP_..._; NONE: idle
    uint64_t       seq;
    uint64_t       min_token;
    int64_t        sent_ms;
    int64_t        again_at_ms;

    /* what it said in this round */
    leader_result  result;          // its last answer; PENDING: none
    leader_record  told;
    int64_t        free_from_ms;    // nobody may take it before
    uint64_t       first_token;     // of its first grant
    bool           looked;
    bool           available;       // the look said that it may become ours
    bool           voted;           // it confirmed our record
    bool           denied;          // it said that the record is not ours
    bool           freed;           // nothing of ours is left in it
    bool           over;            // nothing more to ask

    /* what is known since open */
    bool           known;           // it has answered once
    bool           claimed;         // an acquire was sent: a record under our name may be ours
    bool           ours;
    bool           doubt;           // it was found empty: our record counts only from counts_from_ms on
    int64_t        counts_from_ms;
    int64_t        longest_ms;      // the longest lease that it told
    int64_t        not_before_ms;   // it asked to be left alone until then
    uint64_t       term;            // the attempt or term that our record belongs to
    uint64_t       token;           // of our record
    uint64_t       seen_token;      // the highest that it told
    char           complaint[120];  // what it said last about what is wrong; "": it answers
} leader_quorum_store_;

struct leader_quorum {
    leader_host    host;
    leader_config  config;          // as the stores see it
    char           wrong[160];      // with the settings, told by open
    int            count;
    leader_quorum_store_ stores[LEADER_QUORUM_MAX];

    /* the round: one request of the core, and what is left to do after its answer */
    int            op;              // LEADER_OP_..._; NONE: only wait for what is under way
    uint64_t       seq;             // of the core's request
    bool           decided;         // the core has its answer
    bool           go;              // acquire: a majority can be had
    bool           unfinished;      // the last pass left something to do
    int64_t        start_ms;
    int64_t        timeout_ms;
    int64_t        lease_ms;
    uint64_t       nonce;
    bool           reclaim;
    char           value[LEADER_VALUE_MAX + 1];
    char           heir[LEADER_IDENTITY_MAX + 1];

    uint64_t       requests;        // numbers the requests to the stores
    uint64_t       term;            // the core's request that began it
    uint64_t       token;           // of the term, or of the attempt
    int64_t        confirmed_ms;    // the clock before the last round that a majority confirmed
    int64_t        lead_from_ms;    // the term that the core holds off starts then
};

#ifdef __cplusplus
}
#endif
#endif /* LEADER_QUORUM_H_INCLUDED */

#if defined(LEADER_IMPLEMENTATION) && !defined(LEADER_QUORUM_IMPLEMENTATION_DONE)
#define LEADER_QUORUM_IMPLEMENTATION_DONE

#ifdef __cplusplus
extern "C" {
#endif

static int leader_quorum_majority_(const leader_quorum *q) {
    return q->count / 2 + 1;
}

static int64_t leader_quorum_now_(const leader_quorum *q) {
    return q->host.now_ms(q->host.core);
}

/* Too late to ask anything in this round. */
static bool leader_quorum_late_(const leader_quorum *q) {
    return leader_quorum_now_(q) - q->start_ms >= q->timeout_ms;
}

static int leader_quorum_number_(const leader_quorum_store_ *s) {
    return (int)(s - s->quorum->stores) + 1;
}

/* ---- the core as a store sees it -------------------------------------------------------------- */

static void leader_quorum_host_fd_(void *core, intptr_t fd, int events) {
    leader_host *host = &((leader_quorum_store_ *)core)->quorum->host;
    host->fd(host->core, fd, events);
}

static void leader_quorum_host_due_(void *core) {
    leader_host *host = &((leader_quorum_store_ *)core)->quorum->host;
    host->due(host->core);
}

static int64_t leader_quorum_host_now_(void *core) {
    return leader_quorum_now_(((leader_quorum_store_ *)core)->quorum);
}

/* What fails in one store is no error of the election. It is said once, not in every round. */
static void leader_quorum_host_log_(void *core, leader_level level, const char *text) {
    leader_quorum_store_ *s = (leader_quorum_store_ *)core;
    leader_host *host = &s->quorum->host;
    char line[200];
    if (level == LEADER_LOG_ERROR) {
        level = LEADER_LOG_WARN;
        bool repeated = strncmp(s->complaint, text, sizeof s->complaint - 1) == 0;
        snprintf(s->complaint, sizeof s->complaint, "%s", text);
        if (repeated) {
            return;
        }
    }
    snprintf(line, sizeof line, "store %d of %d: %s", leader_quorum_number_(s), s->quorum->count, text);
    host->log(host->core, level, line);
}

static void leader_quorum_note_health_(leader_quorum_store_ *s, leader_result result) {
    if (result < 0 && s->complaint[0] == 0) {
        leader_quorum_host_log_(s, LEADER_LOG_ERROR, leader_strerror(result));
    }
    if (result >= 0 && s->complaint[0] != 0) {
        s->complaint[0] = 0;
        leader_quorum_host_log_(s, LEADER_LOG_INFO, "answers again");
    }
}

/* ---- what a store answered -------------------------------------------------------------------- */

/* A full lease has passed since our record went into the store that had been empty. */
static void leader_quorum_end_doubt_(leader_quorum_store_ *s) {
    if (s->ours && s->doubt && leader_quorum_now_(s->quorum) >= s->counts_from_ms) {
        s->doubt = false;
    }
}

static bool leader_quorum_counts_(const leader_quorum_store_ *s, int64_t at_ms) {
    return !s->doubt || at_ms >= s->counts_from_ms;
}

static bool leader_quorum_is_named_(const leader_quorum_store_ *s) {
    return strcmp(s->told.holder, s->quorum->config.identity) == 0;
}

static void leader_quorum_looked_(leader_quorum_store_ *s) {
    bool free_now = s->result == LEADER_OK && s->free_from_ms <= leader_quorum_now_(s->quorum);
    bool maybe_ours = leader_quorum_is_named_(s) && (s->claimed || s->quorum->reclaim);
    bool empty = s->result == LEADER_OK && s->told.token == 0 && s->told.holder[0] == 0;
    s->looked = true;
    if (empty) {
        s->doubt = true;
    } else if (!leader_quorum_is_named_(s)) {
        s->doubt = false;
    }
    // a record that ran out is to be taken, not raised: raised, its store would think that it forgot a term
    s->ours = s->ours && leader_quorum_is_named_(s);
    s->available = free_now || maybe_ours;
    s->over = !s->available;
    s->denied = s->over;
}

/* Until then nobody else can have led since the majority confirmed us last. */
static bool leader_quorum_may_join_(const leader_quorum *q) {
    bool fresh = leader_quorum_now_(q) < q->confirmed_ms + q->config.renew_deadline_ms;
    return q->op == LEADER_OP_ACQUIRE_ || fresh;
}

static void leader_quorum_granted_(leader_quorum_store_ *s) {
    leader_quorum *q = s->quorum;
    int64_t hold_off_ms = leader_min_(s->told.hold_off_ms, LEADER_TIME_MAX_MS_);
    if (!s->voted) {
        s->first_token = s->told.token;
    }
    s->ours = true;
    s->voted = true;
    s->denied = false;
    s->token = s->told.token;
    s->term = leader_quorum_may_join_(q) ? q->term : 0;
    if (hold_off_ms <= 0 && !s->doubt) {
        return;
    }
    s->doubt = true;
    s->denied = true;               // what it had was lost
    int64_t full_ms = leader_max_(q->lease_ms, s->longest_ms);
    s->counts_from_ms = leader_quorum_now_(q) + leader_max_(hold_off_ms, full_ms) + 1;
}

static void leader_quorum_refused_(leader_quorum_store_ *s) {
    s->ours = false;
    s->voted = false;
    s->denied = true;
    s->over = true;
    if (!leader_quorum_is_named_(s)) {
        s->doubt = false;           // its holder waited, or is waiting, for what the store forgot
    }
}

static void leader_quorum_failed_(leader_quorum_store_ *s) {
    s->over = true;
    if (s->result == LEADER_E_CORRUPT) {
        s->ours = false;
        s->voted = false;
    }
    if (s->told.again_ms > 0) {
        int64_t pause_ms = leader_min_(s->told.again_ms, s->quorum->config.retry_max_ms);
        s->not_before_ms = leader_quorum_now_(s->quorum) + pause_ms;
    }
}

static void leader_quorum_answered_(leader_quorum_store_ *s, int op) {
    bool refused = s->result == LEADER_HELD || s->result == LEADER_E_DUPLICATE;
    leader_quorum_end_doubt_(s);
    if (op == LEADER_OP_RELEASE_) {
        s->freed = s->result >= 0;
        s->ours = s->ours && !s->freed;
        s->over = true;
    } else if (op == LEADER_OP_OBSERVE_ && s->result >= 0) {
        leader_quorum_looked_(s);
    } else if (refused) {
        leader_quorum_refused_(s);
    } else if (s->result < 0) {
        leader_quorum_failed_(s);
    } else if (op == LEADER_OP_ACQUIRE_) {
        leader_quorum_granted_(s);
    } else if (s->result == LEADER_OK) {
        s->voted = true;
    } else {
        s->ours = false;            // LOST: the next request of this round asks for it again
        s->denied = true;
    }
}

/* What a store says is bounded before anybody reckons with it. */
static leader_result leader_quorum_check_(leader_quorum_store_ *s, int op, leader_result result) {
    leader_record *told = &s->told;
    leader_result other = op == LEADER_OP_ACQUIRE_ || op == LEADER_OP_OBSERVE_ ? LEADER_HELD : LEADER_LOST;
    bool fits = result <= LEADER_PENDING || result == other;
    bool short_of = op == LEADER_OP_ACQUIRE_ && result == LEADER_OK && told->token < s->min_token;
    told->holder[LEADER_IDENTITY_MAX] = 0;
    told->value[LEADER_VALUE_MAX] = 0;
    told->again_ms = leader_min_(told->again_ms, LEADER_TIME_MAX_MS_);
    told->expires_in_ms = leader_min_(told->expires_in_ms, LEADER_TIME_MAX_MS_);
    if (fits && !short_of && told->token <= INT64_MAX) {
        return result;
    }
    memset(told, 0, sizeof *told);
    const char *wrong = fits ? "its token makes no sense" : "its answer does not fit the request";
    leader_quorum_host_log_(s, LEADER_LOG_ERROR, wrong);
    return fits ? LEADER_E_CORRUPT : LEADER_E_STATE;
}

static void leader_quorum_remember_(leader_quorum_store_ *s) {
    bool unknown = s->result < 0 || s->told.expires_in_ms < 0;
    s->free_from_ms = unknown ? INT64_MAX : leader_quorum_now_(s->quorum) + s->told.expires_in_ms;
    if (s->result >= 0) {
        s->known = true;
        s->seen_token = leader_max_u64_(s->seen_token, s->told.token);
    }
    if (s->result == LEADER_HELD) {
        s->longest_ms = leader_max_(s->longest_ms, s->told.expires_in_ms);
    }
}

/* ---- one request to one store ----------------------------------------------------------------- */

static void leader_quorum_cancel_store_(leader_quorum_store_ *s) {
    if (s->op == LEADER_OP_NONE_) {
        return;
    }
    s->op = LEADER_OP_NONE_;
    if (s->backend.cancel) {
        s->backend.cancel(s->backend.self);
    }
}

static bool leader_quorum_has_term_(const leader_quorum_store_ *s) {
    return s->term == s->quorum->term && s->token >= s->quorum->token;
}

/* The request that this store needs next in an attempt: look, acquire, and acquire again while its
   token is too low. */
static int leader_quorum_next_to_win_(const leader_quorum_store_ *s) {
    if (!s->looked) {
        return LEADER_OP_OBSERVE_;
    }
    bool has_it = s->voted && leader_quorum_has_term_(s);
    return s->quorum->go && !has_it ? LEADER_OP_ACQUIRE_ : LEADER_OP_NONE_;
}

/* The same in a renewal: renew, or repair. A store that has never answered is looked at first: it
   may be empty. */
static int leader_quorum_next_to_keep_(const leader_quorum_store_ *s) {
    bool has_term = s->ours && leader_quorum_has_term_(s);
    if (s->voted && has_term) {
        return LEADER_OP_NONE_;
    }
    if (has_term) {
        return LEADER_OP_RENEW_;
    }
    if (!leader_quorum_may_join_(s->quorum)) {
        return LEADER_OP_NONE_;
    }
    return s->known || s->looked ? LEADER_OP_ACQUIRE_ : LEADER_OP_OBSERVE_;
}

static int leader_quorum_next_(const leader_quorum_store_ *s) {
    if (s->over || leader_quorum_late_(s->quorum)) {
        return LEADER_OP_NONE_;
    }
    switch (s->quorum->op) {
    case LEADER_OP_ACQUIRE_:
        return leader_quorum_next_to_win_(s);
    case LEADER_OP_RENEW_:
        return leader_quorum_next_to_keep_(s);
    case LEADER_OP_RELEASE_:
        return s->freed ? LEADER_OP_NONE_ : LEADER_OP_RELEASE_;
    case LEADER_OP_OBSERVE_:
        return s->looked ? LEADER_OP_NONE_ : LEADER_OP_OBSERVE_;
    default:
        return LEADER_OP_NONE_;
    }
}

/* A store judges by min_token what it forgot, so it gets what it told itself. Only a record that is
   ours is raised to the term's token. */
static void leader_quorum_send_(leader_quorum_store_ *s, int op) {
    leader_quorum *q = s->quorum;
    s->op = op;
    s->seq = ++q->requests;
    s->sent_ms = leader_quorum_now_(q);
    s->min_token = s->seen_token + 1;
    if (op == LEADER_OP_ACQUIRE_) {
        s->claimed = true;
        if (s->ours) {
            s->min_token = leader_max_u64_(s->min_token, q->token);
        }
    }
}

typedef leader_result (*leader_quorum_function_)(void *self, const leader_request *, leader_record *seen);

static leader_result leader_quorum_call_(leader_quorum_store_ *s) {
    const leader_backend *b = &s->backend;
    const leader_quorum_function_ functions[] = {NULL, b->acquire, b->renew, b->release, b->observe};
    leader_quorum *q = s->quorum;
    leader_request request;
    memset(&request, 0, sizeof request);
    memset(&s->told, 0, sizeof s->told);
    request.seq = s->seq;
    request.identity = q->config.identity;
    request.nonce = q->nonce;
    request.min_token = s->min_token;
    request.lease_ms = q->lease_ms;
    request.timeout_ms = q->timeout_ms;
    request.now_ms = s->sent_ms;
    request.reclaim = q->reclaim;
    request.value = q->value;
    request.heir = q->heir;
    return leader_quorum_check_(s, s->op, functions[s->op](b->self, &request, &s->told));
}

/* Starts the next request of a store, or asks for the outcome of the one under way. True: it ended. */
static bool leader_quorum_advance_(leader_quorum_store_ *s) {
    if (s->op == LEADER_OP_NONE_) {
        int next = leader_quorum_next_(s);
        if (next == LEADER_OP_NONE_) {
            return false;
        }
        leader_quorum_send_(s, next);
    }
    int op = s->op;
    leader_result result = leader_quorum_call_(s);
    if (result == LEADER_PENDING && !leader_quorum_late_(s->quorum)) {
        int64_t again_ms = s->told.again_ms > 0 ? s->told.again_ms : LEADER_WAIT_MAX_MS;
        s->again_at_ms = leader_quorum_now_(s->quorum) + again_ms;
        return false;
    }
    if (result == LEADER_PENDING) {
        leader_quorum_cancel_store_(s);
        memset(&s->told, 0, sizeof s->told);
        result = LEADER_E_TIMEOUT;
    }
    s->op = LEADER_OP_NONE_;
    s->result = result;
    leader_quorum_note_health_(s, result);
    leader_quorum_remember_(s);
    leader_quorum_answered_(s, op);
    return true;
}

/* ---- the round -------------------------------------------------------------------------------- */

typedef bool (*leader_quorum_test_)(const leader_quorum_store_ *s);

static int leader_quorum_tally_(const leader_quorum *q, leader_quorum_test_ test) {
    int n = 0;
    for (int i = 0; i < q->count; i++) {
        if (test(&q->stores[i])) {
            n++;
        }
    }
    return n;
}

/* The token of the last term may be known to this store alone. */
static bool leader_quorum_may_know_more_(const leader_quorum_store_ *s) {
    return !s->looked || !s->backend.observe || s->doubt;
}

static bool leader_quorum_is_available_(const leader_quorum_store_ *s) {
    return s->available && !s->over;
}

static bool leader_quorum_is_under_way_(const leader_quorum_store_ *s) {
    return s->op != LEADER_OP_NONE_;
}

static bool leader_quorum_may_vote_(const leader_quorum_store_ *s) {
    return !s->over;
}

static bool leader_quorum_is_pursued_(const leader_quorum_store_ *s) {
    return s->op != LEADER_OP_NONE_ || leader_quorum_next_(s) != LEADER_OP_NONE_;
}

static bool leader_quorum_has_voted_(const leader_quorum_store_ *s) {
    return s->voted && leader_quorum_has_term_(s);
}

/* A vote of this round that counts by the time the term starts. */
static bool leader_quorum_confirms_(const leader_quorum_store_ *s) {
    int64_t at_ms = leader_max_(leader_quorum_now_(s->quorum), s->quorum->lead_from_ms);
    return leader_quorum_has_voted_(s) && leader_quorum_counts_(s, at_ms);
}

static bool leader_quorum_may_confirm_(const leader_quorum_store_ *s) {
    return leader_quorum_has_voted_(s) ? leader_quorum_confirms_(s) : leader_quorum_is_pursued_(s);
}

static bool leader_quorum_is_lost_(const leader_quorum_store_ *s) {
    return s->denied && !leader_quorum_may_confirm_(s);
}

static bool leader_quorum_has_failed_(const leader_quorum_store_ *s) {
    return s->over && s->result < 0 && s->result != LEADER_E_DUPLICATE;
}

static bool leader_quorum_is_duplicate_(const leader_quorum_store_ *s) {
    return s->result == LEADER_E_DUPLICATE;
}

static bool leader_quorum_is_freed_(const leader_quorum_store_ *s) {
    return s->freed;
}

static bool leader_quorum_freed_ours_(const leader_quorum_store_ *s) {
    return s->freed && s->result == LEADER_OK;
}

static bool leader_quorum_busy_(const leader_quorum *q) {
    return q->unfinished || leader_quorum_tally_(q, leader_quorum_is_under_way_) > 0;
}

/* What all stores together have said so far in an attempt. The token must be above what each voter
   had before, which its first grant is. What a store made of its token when it was raised does not
   count: they would overtake each other for ever. True: there is more to ask. */
static bool leader_quorum_settle_(leader_quorum *q) {
    if (q->op != LEADER_OP_ACQUIRE_ || q->decided) {
        return false;
    }
    int available = leader_quorum_tally_(q, leader_quorum_is_available_);
    bool starts = !q->go && available >= leader_quorum_majority_(q);
    q->go = q->go || starts;
    if (starts && leader_quorum_tally_(q, leader_quorum_may_know_more_) > 0) {
        q->token = leader_max_u64_(q->token, (uint64_t)leader_max_(1, leader_wall_us_() / 1000));
    }
    for (int i = 0; i < q->count; i++) {
        const leader_quorum_store_ *s = &q->stores[i];
        if (starts) {
            q->token = leader_max_u64_(q->token, s->seen_token + 1);
        }
        if (s->voted) {
            q->token = leader_max_u64_(q->token, s->first_token);
        }
    }
    return starts;
}

static void leader_quorum_pump_(leader_quorum *q) {
    enum { PASSES_MAX = 16 };
    q->unfinished = true;
    for (int pass = 0; pass < PASSES_MAX && q->unfinished; pass++) {
        q->unfinished = false;
        for (int i = 0; i < q->count; i++) {
            if (leader_quorum_advance_(&q->stores[i])) {
                q->unfinished = true;
            }
        }
        if (leader_quorum_settle_(q)) {
            q->unfinished = true;
        }
    }
}

static void leader_quorum_reset_store_(leader_quorum_store_ *s) {
    leader_quorum_cancel_store_(s);
    leader_quorum_end_doubt_(s);
    memset(&s->told, 0, sizeof s->told);
    s->result = LEADER_PENDING;
    s->free_from_ms = INT64_MAX;
    s->looked = false;
    s->available = false;
    s->voted = false;
    s->denied = false;
    s->freed = !s->claimed || s->doubt;     // a record in doubt is left to expire
    s->over = false;
    if (leader_quorum_now_(s->quorum) < s->not_before_ms) {
        s->over = true;
        s->result = LEADER_E_IO;
    }
}

/* Without a way to look, every store may be had, and the first grant may be that of an empty one. */
static void leader_quorum_skip_look_(leader_quorum_store_ *s) {
    s->looked = true;
    s->available = true;
    s->doubt = s->doubt || !s->known;
    if (s->quorum->op == LEADER_OP_OBSERVE_) {
        s->over = true;
        s->result = LEADER_E_STATE;
    }
}

/* Every request of an earlier round is forgotten, so no late answer is credited to this one. */
static void leader_quorum_begin_(leader_quorum *q, int op, const leader_request *request) {
    q->op = op;
    q->seq = request->seq;
    q->decided = false;
    q->go = false;
    q->start_ms = request->now_ms;
    q->timeout_ms = leader_max_(1, request->timeout_ms - request->timeout_ms / 4);
    q->lease_ms = request->lease_ms;
    q->nonce = request->nonce;
    q->reclaim = request->reclaim;
    snprintf(q->value, sizeof q->value, "%s", request->value);
    snprintf(q->heir, sizeof q->heir, "%s", request->heir);
    if (op == LEADER_OP_ACQUIRE_) {
        q->term = request->seq;
        q->token = request->min_token;
    }
    for (int i = 0; i < q->count; i++) {
        leader_quorum_reset_store_(&q->stores[i]);
        if (!q->stores[i].backend.observe) {
            leader_quorum_skip_look_(&q->stores[i]);
        }
    }
}

/* ---- what the core hears -------------------------------------------------------------------- */

static void leader_quorum_sort_(int64_t *values, int count) {
    for (int i = 1; i < count; i++) {
        for (int j = i; j > 0 && values[j - 1] > values[j]; j--) {
            int64_t value = values[j];
            values[j] = values[j - 1];
            values[j - 1] = value;
        }
    }
}

static bool leader_quorum_same_holder_(const leader_quorum_store_ *a, const leader_quorum_store_ *b) {
    bool held = a->over && a->result == LEADER_HELD && a->told.holder[0];
    return held && b->result == LEADER_HELD && strcmp(a->told.holder, b->told.holder) == 0;
}

/* The store with the lowest token among those of a candidate that a majority of them names as their
   holder: none of them has less than its term. NULL: there is no such candidate. */
static const leader_quorum_store_ *leader_quorum_holder_(const leader_quorum *q) {
    for (int i = 0; i < q->count; i++) {
        const leader_quorum_store_ *lowest = &q->stores[i];
        int same = 0;
        for (int j = 0; j < q->count; j++) {
            const leader_quorum_store_ *other = &q->stores[j];
            if (leader_quorum_same_holder_(&q->stores[i], other)) {
                same++;
                lowest = other->told.token < lowest->told.token ? other : lowest;
            }
        }
        if (same >= leader_quorum_majority_(q)) {
            return lowest;
        }
    }
    return NULL;
}

/* The moment at which a majority can be had, as far as the stores could tell; -1: unknown. */
static int64_t leader_quorum_rest_(const leader_quorum *q) {
    int64_t from_ms[LEADER_QUORUM_MAX];
    for (int i = 0; i < q->count; i++) {
        from_ms[i] = q->stores[i].free_from_ms;
    }
    leader_quorum_sort_(from_ms, q->count);
    int64_t last_ms = from_ms[leader_quorum_majority_(q) - 1];
    return last_ms == INT64_MAX ? -1 : leader_max_(0, last_ms - leader_quorum_now_(q));
}

static uint64_t leader_quorum_random_(const leader_quorum *q) {
    return leader_mix_(q->nonce ^ leader_mix_(q->requests));
}

/* Candidates that come in the same moment would split the stores between them, so each is told another. */
static void leader_quorum_tell_(const leader_quorum *q, leader_record *seen) {
    enum { APART_MS = 3 };
    const leader_quorum_store_ *holder = leader_quorum_holder_(q);
    if (holder) {
        *seen = holder->told;
        seen->hold_off_ms = 0;
        seen->again_ms = 0;
    }
    seen->expires_in_ms = leader_quorum_rest_(q);
    if (seen->expires_in_ms >= 0) {
        seen->expires_in_ms += (int64_t)(leader_quorum_random_(q) % APART_MS);
    }
}

static leader_result leader_quorum_error_(const leader_quorum *q) {
    leader_result first = LEADER_OK;
    for (int i = 0; i < q->count; i++) {
        leader_result result = leader_quorum_has_failed_(&q->stores[i]) ? q->stores[i].result : LEADER_OK;
        if (first != LEADER_OK && result != LEADER_OK && result != first) {
            return LEADER_E_IO;
        }
        first = result != LEADER_OK ? result : first;
    }
    return first == LEADER_OK ? LEADER_E_IO : first;
}

/* One line about all stores that fail. */
static leader_result leader_quorum_complain_(leader_quorum *q, int confirmed) {
    char text[160];
    int n = snprintf(text, sizeof text, "%d of %d stores confirmed, %d are needed", confirmed, q->count,
                     leader_quorum_majority_(q));
    for (int i = 0; i < q->count && n < (int)sizeof text; i++) {
        const leader_quorum_store_ *s = &q->stores[i];
        if (leader_quorum_has_failed_(s)) {
            n += snprintf(text + n, sizeof text - (size_t)n, "; store %d: %s", i + 1, s->complaint);
        }
    }
    q->host.log(q->host.core, LEADER_LOG_ERROR, text);
    return leader_quorum_error_(q);
}

/* How long until a majority of the votes counts: the core holds off for that long. */
static int64_t leader_quorum_hold_off_(const leader_quorum *q) {
    int64_t now_ms = leader_quorum_now_(q);
    int64_t waits_ms[LEADER_QUORUM_MAX];
    memset(waits_ms, 0, sizeof waits_ms);
    int votes = 0;
    for (int i = 0; i < q->count; i++) {
        const leader_quorum_store_ *s = &q->stores[i];
        if (leader_quorum_has_voted_(s)) {
            waits_ms[votes++] = leader_quorum_counts_(s, now_ms) ? 0 : s->counts_from_ms - now_ms;
        }
    }
    leader_quorum_sort_(waits_ms, votes);
    return waits_ms[leader_quorum_majority_(q) - 1];
}

/* Nobody got a majority. What was got is given back, also after the core has its answer; the time
   of the next attempt is random, so that two candidates do not meet for ever. */
static void leader_quorum_give_back_(leader_quorum *q, leader_record *seen) {
    q->op = LEADER_OP_NONE_;
    if (!q->go) {
        return;
    }
    uint64_t most_ms = (uint64_t)q->config.retry_ms;
    seen->expires_in_ms = (int64_t)(leader_quorum_random_(q) % (most_ms + 1));
    q->op = LEADER_OP_RELEASE_;
    q->start_ms = leader_quorum_now_(q);
    for (int i = 0; i < q->count; i++) {
        leader_quorum_store_ *s = &q->stores[i];
        s->freed = !s->claimed || s->doubt;
        s->over = false;
    }
    leader_quorum_pump_(q);
}

static leader_result leader_quorum_beaten_(leader_quorum *q, leader_record *seen) {
    int failed = leader_quorum_tally_(q, leader_quorum_has_failed_);
    int votes = leader_quorum_tally_(q, leader_quorum_has_voted_);
    leader_result result = LEADER_HELD;
    leader_quorum_tell_(q, seen);
    if (q->count - failed < leader_quorum_majority_(q)) {
        result = leader_quorum_complain_(q, votes);
    } else if (leader_quorum_tally_(q, leader_quorum_is_duplicate_) > 0) {
        result = LEADER_E_DUPLICATE;
    }
    leader_quorum_give_back_(q, seen);
    return result;
}

static leader_result leader_quorum_decide_acquire_(leader_quorum *q, leader_record *seen) {
    int majority = leader_quorum_majority_(q);
    bool busy = leader_quorum_busy_(q);
    if (leader_quorum_tally_(q, leader_quorum_has_voted_) >= majority) {
        int64_t hold_off_ms = leader_quorum_hold_off_(q);
        if (hold_off_ms > 0 && busy) {
            return LEADER_PENDING;  // another vote may count at once
        }
        q->lead_from_ms = leader_quorum_now_(q) + hold_off_ms;
        q->confirmed_ms = q->start_ms;
        seen->token = q->token;
        seen->hold_off_ms = hold_off_ms;
        return LEADER_OK;
    }
    bool hopeless = leader_quorum_tally_(q, leader_quorum_may_vote_) < majority;
    int failed = leader_quorum_tally_(q, leader_quorum_has_failed_);
    bool clear = leader_quorum_holder_(q) != NULL || failed >= majority;
    if (busy && !(hopeless && clear)) {
        return LEADER_PENDING;
    }
    return leader_quorum_beaten_(q, seen);
}

static leader_result leader_quorum_decide_renew_(leader_quorum *q, leader_record *seen) {
    int majority = leader_quorum_majority_(q);
    int confirmed = leader_quorum_tally_(q, leader_quorum_confirms_);
    if (confirmed >= majority) {
        q->confirmed_ms = q->start_ms;
        seen->token = q->token;
        return LEADER_OK;
    }
    if (leader_quorum_tally_(q, leader_quorum_is_lost_) >= majority) {
        leader_quorum_tell_(q, seen);
        q->op = LEADER_OP_NONE_;
        return leader_quorum_tally_(q, leader_quorum_is_duplicate_) > 0 ? LEADER_E_DUPLICATE : LEADER_LOST;
    }
    bool hopeless = leader_quorum_tally_(q, leader_quorum_may_confirm_) < majority;
    if (leader_quorum_busy_(q) && !hopeless) {
        return LEADER_PENDING;
    }
    return leader_quorum_complain_(q, confirmed);
}

static leader_result leader_quorum_decide_release_(leader_quorum *q) {
    int freed = leader_quorum_tally_(q, leader_quorum_is_freed_);
    if (freed >= leader_quorum_majority_(q)) {
        return leader_quorum_tally_(q, leader_quorum_freed_ours_) > 0 ? LEADER_OK : LEADER_LOST;
    }
    return leader_quorum_busy_(q) ? LEADER_PENDING : leader_quorum_complain_(q, freed);
}

static leader_result leader_quorum_decide_observe_(leader_quorum *q, leader_record *seen) {
    int majority = leader_quorum_majority_(q);
    bool held = leader_quorum_holder_(q) != NULL;
    bool free_now = leader_quorum_tally_(q, leader_quorum_is_available_) >= majority;
    if (leader_quorum_busy_(q) && !held && !free_now) {
        return LEADER_PENDING;
    }
    int failed = leader_quorum_tally_(q, leader_quorum_has_failed_);
    leader_quorum_tell_(q, seen);
    if (q->count - failed < majority) {
        return leader_quorum_complain_(q, q->count - failed);
    }
    return held ? LEADER_HELD : LEADER_OK;
}

static leader_result leader_quorum_decide_(leader_quorum *q, leader_record *seen) {
    switch (q->op) {
    case LEADER_OP_ACQUIRE_:
        return leader_quorum_decide_acquire_(q, seen);
    case LEADER_OP_RENEW_:
        return leader_quorum_decide_renew_(q, seen);
    case LEADER_OP_RELEASE_:
        return leader_quorum_decide_release_(q);
    default:
        return leader_quorum_decide_observe_(q, seen);
    }
}

/* When a store or the end of the round wants to be looked at. */
static int64_t leader_quorum_again_(const leader_quorum *q) {
    int64_t now_ms = leader_quorum_now_(q);
    int64_t at_ms = q->start_ms + q->timeout_ms;
    for (int i = 0; i < q->count; i++) {
        if (leader_quorum_is_under_way_(&q->stores[i])) {
            at_ms = leader_min_(at_ms, q->stores[i].again_at_ms);
        }
    }
    return q->unfinished ? 1 : leader_max_(1, at_ms - now_ms);
}

static leader_result leader_quorum_run_(leader_quorum *q, int op, const leader_request *request,
                                        leader_record *seen) {
    if (q->seq != request->seq) {
        leader_quorum_begin_(q, op, request);
    }
    leader_quorum_pump_(q);
    leader_result result = leader_quorum_decide_(q, seen);
    q->decided = result != LEADER_PENDING;
    if (!q->decided) {
        seen->again_ms = leader_quorum_again_(q);
    }
    return result;
}

static leader_result leader_quorum_acquire_(void *self, const leader_request *request, leader_record *seen) {
    return leader_quorum_run_((leader_quorum *)self, LEADER_OP_ACQUIRE_, request, seen);
}

static leader_result leader_quorum_renew_(void *self, const leader_request *request, leader_record *seen) {
    return leader_quorum_run_((leader_quorum *)self, LEADER_OP_RENEW_, request, seen);
}

static leader_result leader_quorum_release_(void *self, const leader_request *request, leader_record *seen) {
    return leader_quorum_run_((leader_quorum *)self, LEADER_OP_RELEASE_, request, seen);
}

static leader_result leader_quorum_observe_(void *self, const leader_request *request, leader_record *seen) {
    return leader_quorum_run_((leader_quorum *)self, LEADER_OP_OBSERVE_, request, seen);
}

/* Stores that were too slow for the answer are served here. */
static bool leader_quorum_poll_(void *self) {
    leader_quorum *q = (leader_quorum *)self;
    bool changed = false;
    for (int i = 0; i < q->count; i++) {
        const leader_backend *b = &q->stores[i].backend;
        if (b->poll && b->poll(b->self)) {
            changed = true;
        }
    }
    leader_quorum_pump_(q);
    return changed;
}

static int leader_quorum_fds_(void *self, leader_fd out[], int cap) {
    leader_quorum *q = (leader_quorum *)self;
    int n = 0;
    for (int i = 0; i < q->count && n < cap; i++) {
        const leader_backend *b = &q->stores[i].backend;
        if (b->fds) {
            n += b->fds(b->self, out + n, cap - n);
        }
    }
    return n;
}

static void leader_quorum_cancel_(void *self) {
    leader_quorum *q = (leader_quorum *)self;
    q->op = LEADER_OP_NONE_;
    for (int i = 0; i < q->count; i++) {
        leader_quorum_cancel_store_(&q->stores[i]);
    }
}

/* ---- open and close --------------------------------------------------------------------------- */

static const char *leader_quorum_check_store_(const leader_quorum *q, int at) {
    const leader_backend *b = &q->stores[at].backend;
    if (!b->acquire || !b->renew || !b->release) {
        return "acquire, renew or release is missing";
    }
    for (int i = 0; i < at; i++) {
        if (b->self && q->stores[i].backend.self == b->self) {
            return "it is the same object as an earlier one";
        }
    }
    return NULL;
}

static void leader_quorum_shut_(leader_quorum *q, int count) {
    for (int i = 0; i < count; i++) {
        const leader_backend *b = &q->stores[i].backend;
        leader_quorum_cancel_store_(&q->stores[i]);
        if (b->close) {
            b->close(b->self);
        }
    }
}

static const char *leader_quorum_open_store_(leader_quorum *q, int at) {
    leader_quorum_store_ *s = &q->stores[at];
    leader_backend backend = s->backend;
    memset(s, 0, sizeof *s);
    s->quorum = q;
    s->backend = backend;
    s->counts_from_ms = LEADER_NEVER_;
    s->not_before_ms = LEADER_NEVER_;
    s->host.core = s;
    s->host.config = &q->config;
    s->host.fd = leader_quorum_host_fd_;
    s->host.due = leader_quorum_host_due_;
    s->host.log = leader_quorum_host_log_;
    s->host.now_ms = leader_quorum_host_now_;
    const char *wrong = leader_quorum_check_store_(q, at);
    if (!wrong && backend.open) {
        wrong = backend.open(backend.self, &s->host);
    }
    return wrong;
}

/* An empty store is trusted only after a full lease: those that read the configuration see to it
   themselves, and say so in their records. */
static const char *leader_quorum_open_(void *self, const leader_host *host) {
    leader_quorum *q = (leader_quorum *)self;
    if (q->count != 3 && q->count != 5 && q->count != 7) {
        snprintf(q->wrong, sizeof q->wrong, "leader_quorum_backend: 3, 5 or 7 stores, not %d", q->count);
        return q->wrong;
    }
    q->host = *host;
    q->config = *host->config;
    q->config.cautious_start = true;
    q->op = LEADER_OP_NONE_;
    q->seq = 0;
    q->requests = 0;
    q->term = 0;
    q->token = 0;
    q->confirmed_ms = 0;
    q->lead_from_ms = LEADER_NEVER_;
    for (int i = 0; i < q->count; i++) {
        const char *wrong = leader_quorum_open_store_(q, i);
        if (wrong) {
            snprintf(q->wrong, sizeof q->wrong, "store %d of %d: %s", i + 1, q->count, wrong);
            leader_quorum_shut_(q, i);
            return q->wrong;
        }
    }
    return NULL;
}

static void leader_quorum_close_(void *self) {
    leader_quorum *q = (leader_quorum *)self;
    leader_quorum_shut_(q, q->count);
}

LEADER_API leader_backend leader_quorum_backend(leader_quorum *q, const leader_backend *stores, int count) {
    leader_backend backend;
    memset(&backend, 0, sizeof backend);
    memset(q, 0, sizeof *q);
    q->count = count;
    int lookers = 0;
    for (int i = 0; i < count && i < LEADER_QUORUM_MAX; i++) {
        q->stores[i].backend = stores[i];
        lookers += stores[i].observe != NULL;
    }
    backend.self = q;
    backend.acquire = leader_quorum_acquire_;
    backend.renew = leader_quorum_renew_;
    backend.release = leader_quorum_release_;
    backend.observe = lookers > count / 2 ? leader_quorum_observe_ : NULL;
    backend.poll = leader_quorum_poll_;
    backend.cancel = leader_quorum_cancel_;
    backend.fds = leader_quorum_fds_;
    backend.name = count > 0 ? stores[0].name : NULL;
    backend.open = leader_quorum_open_;
    backend.close = leader_quorum_close_;
    return backend;
}

#ifdef __cplusplus
}
#endif
#endif /* LEADER_QUORUM_IMPLEMENTATION_DONE */
