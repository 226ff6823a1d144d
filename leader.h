/* leader.h - v1.1.0 - leader election in one C header - MIT or public domain, licence at the end

   Several copies of a program run and exactly one may act. leader.h tells each copy whether it is the
   one. It keeps a lease in a store that all copies share (a file, Redis, a Kubernetes Lease, etcd,
   PostgreSQL), renews it, hands it over, and takes it over when its holder is gone. No threads, no
   allocation, no dependency, and no blocking except for what a file system takes.

   SIX WORDS
       term     one uninterrupted leadership of one process
       lease    the time-limited claim in the store that a term rests on
       token    the fencing token: a number that rises with every term
       holder   the identity that the record in the store names
       standby  a candidate that does not lead
       nonce    the random number that tells two processes with one identity apart

   WHAT IT PROMISES
       At most one process reads true from leader_is_leader() at any moment. L is lease_ms, D is
       renew_deadline_ms, D < L:

       - A term is valid for D, counted from before its request was sent. Others wait for L. So two
         can read true only if their clocks run at rates that differ by more than L/D (15/10).
       - Every question is checked against a clock that also counts suspend. A process that was
         stopped, swapped out, suspended or stuck in a callback reads false the first time it looks
         again. It needs no tick for that.
       - Every term has a token greater than those of all earlier terms.
       - A store that lost its record has not released it: the next leader waits a full lease first.
       - The lease is released only when the work is over (is_drained). In doubt it expires.
       - Wall-clock time decides nothing.

   WHAT IT DOES NOT PROMISE
       - Anything after the moment of the check. A thread can stall between leader_is_leader() and
         what it does next: that is what leader_remaining_ms() and the token are for.
       - A token at a resource that has not seen the newer one yet.
       - Stores restored from a backup or edited by hand. A store wiped while a candidate starts that
         has seen nothing: cautious_start makes such a candidate wait one lease, its own. It waits as
         long for a record that does not say its lease any more. So give all candidates of an election
         one lease_ms.
       - Clocks that stop: paused or snapshotted virtual machines, and clones of them.
       - The file store on NFS, SMB or FUSE with stale caches. Each backend names its own limits.

   DO THIS
       #define LEADER_IMPLEMENTATION       in exactly one C or C++ file, before the first system header
       #include "leader.h"
   and everywhere else just #include "leader.h".

       #define LEADER_IMPLEMENTATION
       #include "leader.h"
       #include <stdio.h>

       int main(int argc, char **argv) {
           leader_file file;
           leader_config config = {0};                     // C++: = {}
           config.identity = argc > 1 ? argv[1] : "node-a";  // a different name for every copy
           config.backend = leader_file_backend(&file, "job.lease");
           leader_t me;
           if (leader_init(&me, &config) != LEADER_OK) {
               fprintf(stderr, "%s\n", leader_error(&me));
               return 1;
           }
           for (int i = 0; i < 60; i++) {
               leader_tick(&me);
               if (leader_is_leader(&me)) {
                   puts("I do the work");
               }
               leader_sleep(&me, 1000);
           }
           return leader_close(&me, 1000) != LEADER_OK;
       }

   HOW DO I STOP THE WORK IN TIME?
       Ask leader_is_leader() before you START something, and leader_remaining_ms() before something
       that takes long: it must be over before that many milliseconds have passed. Cancel longer work in
       on_stopped_leading, and let is_drained say when the last of it has ended: the lease is kept until
       then, so a graceful hand-over never overlaps. If your process may stall anywhere, only the token
       makes the resource safe.

   WHAT IS THE TOKEN FOR?
       Send leader_token() along with every write. A resource that remembers the highest token it has
       seen, and rejects smaller ones, cannot be harmed by a leader that was stopped for an hour and
       wakes up in the middle of a write.

   TIMING      lease_ms is 15000 and everything else follows from it: renew after 1/3, give up after
               2/3. A shorter lease fails over faster and tolerates less. A standby plans its attempt
               for the moment at which the lease can run out, so a crash costs the rest of the lease
               plus one round trip; a release wakes standbys at once. A late tick costs nothing while it
               is less than renew_deadline_ms - renew_ms late.

   STATES      FOLLOWER     competes or watches.
               HOLDING_OFF  has the record but may not lead yet: the store forgot an earlier holder.
               LEADER       leader_is_leader() is true while the deadline has not passed.
               DRAINING     not leader; on_stopped_leading has run; the lease is kept until is_drained.
               RELEASING    the release is under way. Then FOLLOWER again, or
               STOPPED      after leader_stop.
               LEADER goes to FOLLOWER when the store says that the lease is not ours. Every other end
               of a term goes through DRAINING. A process whose work is not drained does not compete.

   EVENT LOOPS leader_tick() answers in how many milliseconds it wants to be called again, at the latest.
               poll: after each tick leader_fds(), poll() for that long, tick again.
               epoll, libuv, libev: on_fd tells which descriptors to watch (0: stop, it is about to be
               closed), on_due asks for a tick soon, a timer does the rest. Just sleeping works as well.

   THREADS     leader_tick, _sleep, _wait, _close, _fds, _error, _set_value, _resign_to: one thread at a
               time. Everything else from any thread; leader_stop and leader_resign from signal handlers
               too. Compilers without atomics (tcc): the loop's thread only.
               A forked child never leads: all questions answer no there, and its ticks and closes touch
               nothing of the parent's. Children of _Fork() or a bare clone() find out at their first tick.

   LOGGING     on_log gets every message. Without it, warnings and errors go to stderr, one line each,
               repeated ones rarely. An empty on_log silences them.

   BACKENDS    leader_file_backend    a file, for processes that share a directory     (this header)
               leader_single_backend  always leader                                   (this header)
               in backends/           Redis, Kubernetes, etcd, PostgreSQL, and a majority of any of them,
                                      with LEADER_WITH_REDIS, _K8S, _ETCD, _PG, _QUORUM defined
               your own               two functions: see leader_register

   COMPILE OPTIONS, global (the same wherever leader.h is included)
       LEADER_STATIC       everything static: a private copy in this file. Implies LEADER_IMPLEMENTATION.
       LEADER_API          linkage of the public functions, e.g. __declspec(dllexport). Default: extern.
       LEADER_WITH_...     include that backend.
   COMPILE OPTIONS, implementation only
       LEADER_NO_FILE      leave the file backend out.
       LEADER_NO_STDERR    write nothing to stderr, whatever on_log is.
       LEADER_RANDOM64()   your source of 64 random bits (nonces must differ). Default: the system's.
       LEADER_ASSERT(x)    default: assert(x).
   glibc before 2.34 wants -pthread at link time; armel, mips and powerpc want -latomic.

   ERRORS      Functions answer a leader_result; leader_strerror() names it, leader_error() says what
               exactly was wrong. A store that fails is retried for ever; nothing ever stops the ticks. */
#ifndef LEADER_H_INCLUDED
#define LEADER_H_INCLUDED

/* Plain -std=c99 hides POSIX names that the implementation needs. Asking for them works while no system
   header came before. */
#if defined(LEADER_IMPLEMENTATION) || defined(LEADER_STATIC)
#  if !defined(_GNU_SOURCE) && !defined(_DEFAULT_SOURCE)
#    define _DEFAULT_SOURCE 1
#  endif
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEADER_VERSION           "1.1.0"
#define LEADER_VERSION_NUM       10100      // major * 10000 + minor * 100 + patch
#define LEADER_IDENTITY_MAX      255        // bytes without the 0; longer is LEADER_E_CONFIG
#define LEADER_VALUE_MAX         255        // of config.value, likewise
#define LEADER_PATH_MAX          1023       // of the file backend, likewise
#define LEADER_FDS_MAX           16         // an election never watches more descriptors
#define LEADER_WAIT_MAX_MS       60000      // leader_tick never answers more
#define LEADER_ENTRY_VERSION_MAX 111
#define LEADER_NO_RETRIES        (-2)       // config.renew_retries: the first failed renewal ends the term

#if defined(LEADER_STATIC)
#  if !defined(LEADER_IMPLEMENTATION)
#    define LEADER_IMPLEMENTATION
#  endif
#  if defined(__GNUC__)
#    define LEADER_API static __attribute__((unused))
#  else
#    define LEADER_API static
#  endif
#elif !defined(LEADER_API)
#  define LEADER_API extern
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One list each, so that names, numbers and texts cannot drift apart. */
#define LEADER_RESULTS(X)                                                                       \
    X(LEADER_OK,           0, "ok")                                                             \
    X(LEADER_PENDING,      1, "request under way; from leader_wait: a signal came first")       \
    X(LEADER_HELD,         2, "another candidate has the lease")                                \
    X(LEADER_LOST,         3, "the store says that the lease is not ours")                      \
    X(LEADER_UNHEALTHY,    4, "is_healthy said false")                                          \
    X(LEADER_E_CONFIG,    -1, "wrong configuration")                                            \
    X(LEADER_E_IO,        -2, "the store could not be reached")                                 \
    X(LEADER_E_TIMEOUT,   -3, "no answer in time")                                              \
    X(LEADER_E_AUTH,      -4, "the store refused our credentials or rights")                    \
    X(LEADER_E_CORRUPT,   -5, "the record in the store cannot be understood")                   \
    X(LEADER_E_DUPLICATE, -6, "another process uses our identity")                              \
    X(LEADER_E_REENTRANT, -7, "called from inside a callback, or by two threads at once")       \
    X(LEADER_E_STATE,     -8, "not possible in this state")                                     \
    X(LEADER_E_STORE,     -9, "the store answered with an error")

#define LEADER_STATES(X)                                                                        \
    X(LEADER_STATE_NONE,        "none")         /* zeroed memory, failed init, closed */        \
    X(LEADER_STATE_FOLLOWER,    "follower")                                                     \
    X(LEADER_STATE_HOLDING_OFF, "holding off")  /* has the record, may not lead yet */          \
    X(LEADER_STATE_LEADER,      "leader")                                                       \
    X(LEADER_STATE_DRAINING,    "draining")     /* not leader; lease kept until is_drained */   \
    X(LEADER_STATE_RELEASING,   "releasing")                                                    \
    X(LEADER_STATE_STOPPED,     "stopped")

#define LEADER_RESULT_ENUM_(name, number, text) name = (number),
#define LEADER_STATE_ENUM_(name, text) name,
typedef enum leader_result {
    LEADER_RESULTS(LEADER_RESULT_ENUM_) LEADER_E_LAST_ = LEADER_E_STORE
} leader_result;
typedef enum leader_state {
    LEADER_STATES(LEADER_STATE_ENUM_) LEADER_STATE_LAST_ = LEADER_STATE_STOPPED
} leader_state;
typedef enum leader_level {
    LEADER_LOG_ERROR = 1,
    LEADER_LOG_WARN,
    LEADER_LOG_INFO,
    LEADER_LOG_DEBUG
} leader_level;

enum { LEADER_READ = 1, LEADER_WRITE = 2 };     // own bits; leader_poll_events() makes POLLIN, POLLOUT
typedef struct leader_fd {
    intptr_t fd;                                // Windows: always a SOCKET, never a HANDLE
    int      events;
} leader_fd;

struct leader_config;

/* ---- backend interface: for stores that decide themselves; users skip to leader_config ----------------

   Each operation is a poll. The first call with a new seq starts it; LEADER_PENDING means "call me again
   when a descriptor is ready or again_ms has passed"; anything else ends it. A backend over a plain
   blocking store answers at once. Its one duty: after a successful acquire or renew the store keeps
   others out for lease_ms, even if the holder and its connection vanish. A store that can compare and
   swap is easier: see leader_register below. */
typedef struct leader_request {     // valid during the call
    // rises with every request: never answer one with an older one's result. The record keeps that of the
    // acquire that began the term: acquire adopts and release frees only a record of this nonce whose number
    // is not above it
    uint64_t    seq;
    const char *identity;
    uint64_t    nonce;              // random per leader_init; owner = identity and nonce
    uint64_t    min_token;          // a new term's token is at least this
    int64_t     lease_ms;           // the store keeps others out this long even if the holder vanishes
    int64_t     timeout_ms;         // a blocking backend bounds itself by this
    int64_t     now_ms;             // the election's clock, read before the request
    bool        reclaim;            // config.reclaim_identity, until the store has answered once
    const char *value;              // acquire, renew: kept with the term; never NULL
    const char *heir;               // release: for this candidate first; "": for any; never NULL
} leader_request;

typedef struct leader_record {      // zeroed before each call; say what the store said
    uint64_t token;
    int64_t  expires_in_ms;         // nobody else may take it before; 0: it may be taken now; -1: unknown
    int64_t  hold_off_ms;           // acquire OK, but the store forgot a holder: renew, lead only after this
    int64_t  again_ms;              // PENDING: call by then. Error: not before. 0: the core decides
    int64_t  acquired_us, renewed_us;           // wall clock, for people; 0: unknown
    char     holder[LEADER_IDENTITY_MAX + 1];   // "": nobody
    char     value[LEADER_VALUE_MAX + 1];       // what the holder says about itself
} leader_record;

typedef struct leader_host {        // the core as a backend sees it; call only from inside a backend function
    void  *core;
    const struct leader_config *config;                             // of this election, defaults filled in
    // MUST be called with 0 BEFORE fd is closed
    void (*fd)(void *core, intptr_t fd, int events);
    void (*due)(void *core);                                        // shared connection: its answer has come
    void (*log)(void *core, leader_level level, const char *text);  // ERROR also becomes leader_error()
    int64_t (*now_ms)(void *core);                                  // the election's clock: when a reply came
    // becomes leader_error() without a line in the log: another election of the client says it
    void (*error)(void *core, const char *text);
} leader_host;

typedef struct leader_backend {     // acquire, renew and release are required
    void *self;                     // must outlive the election
    leader_result (*acquire)(void *self, const leader_request *, leader_record *seen);  // OK HELD PENDING E_*
    leader_result (*renew)(void *self, const leader_request *, leader_record *seen);    // OK LOST PENDING E_*
    leader_result (*release)(void *self, const leader_request *, leader_record *seen);  // OK LOST PENDING E_*
    leader_result (*observe)(void *self, const leader_request *, leader_record *seen);  // OK HELD PENDING E_*
    // every tick, request or not: read to EAGAIN; true: the store changed
    bool          (*poll)(void *self);
    void          (*cancel)(void *self);    // forget the request under way: its outcome is unknown
    // no I/O; what is wrong with the settings, or NULL
    const char   *(*open)(void *self, const leader_host *);
    void          (*close)(void *self);     // once for each open that answered NULL
    // descriptors that another election reports but this one may wait for: of a shared client; how many
    int           (*fds)(void *self, leader_fd out[], int cap);
    // of the election in logs and metrics: path, key, namespace/lease; may be NULL
    const char    *name;
} leader_backend;

/* ---- writing a store: two functions ------------------------------------------------------------

   A register keeps one record and changes it only by compare-and-swap. Write `read` and `write` for
   your store, and leader_register_backend() makes a backend of them. The engine in this header
   decides everything else: who owns the record, when it may be taken, which token a term gets, when
   to hold off, what to do after a conflict or an unknown outcome. examples/custom_backend.c is a
   complete one.

   Both functions are polls. The first call with a new call->id starts the request, and whatever ran
   before is forgotten; LEADER_PENDING means "call me again when a descriptor is ready or again_ms
   has passed"; any other answer ends it. A store that answers at once never says PENDING.

       read    LEADER_OK and *found. No record: leave found->version empty.
               LEADER_E_CORRUPT: there is one, and it cannot be understood. Set found->version if it
               may be overwritten once a full lease has passed, and found->lease_ms if it is known.
       write   Stores *next if the version in the store still is next->version ("": if there is no
               record). LEADER_OK: done; set stored->version. LEADER_LOST: the store has another
               version, nothing was written. Any error: it may or may not have been written. */

typedef struct leader_entry {       // numbers first: near the beginning they need less code
    /* Kept by the store. A store shared with other programs may lack some of it: zero, then. */
    uint64_t nonce;                             // of the holder's leader_init; 0: another program
    uint64_t seq;                               // request that began the term
    uint64_t token;                             // of the term, also after its release
    int64_t  lease_ms;                          // 0: the record does not say
    int64_t  hold_off_ms;                       // > 0: its holder is holding off, for that long
    uint64_t origin;                            // random, chosen when the record was created
    uint64_t renewal;                           // differs with every write of a holder
    int64_t  acquired_us, renewed_us;           // wall clock, for people; compared with no clock
    /* Said by read and write about the record. */
    uint64_t revision;                          // the store's own counter of changes; 0: has none
    int64_t  elapsed_ms;                        // this much of the lease is over, if the store knows
    int64_t  again_ms;                          // PENDING: call by then. Error: not before. OK: look
                                                // again by then. 0: the engine decides
    bool     dead;                              // the holder's process is known to be gone
    bool     alive;                             // the holder's process is known to run
    bool     locked;                            // not ours to take, whatever it says
    bool     forgot;                            // the store has lost its record: this is what is left
    char     version[LEADER_ENTRY_VERSION_MAX + 1]; // opaque; "": there is no record
    /* Kept by the store as well. */
    char     holder[LEADER_IDENTITY_MAX + 1];   // "": released
    char     value[LEADER_VALUE_MAX + 1];       // what the holder says about itself
    char     heir[LEADER_IDENTITY_MAX + 1];     // released to this candidate; "": to any
} leader_entry;

typedef struct leader_call {        // valid during the call
    uint64_t id;                    // rises; a new one starts a new request
    int64_t  now_ms;                // the election's clock, read before the request
    int64_t  timeout_ms;            // a blocking store bounds itself by this
    bool     begins;                // write: gives a term its token, must survive a power failure
    bool     competes;              // read: a write may follow, so an empty record may be created
} leader_call;

typedef enum leader_news {
    LEADER_NEWS_NONE,
    LEADER_NEWS_CHANGED,            // the record may have changed: read it
    LEADER_NEWS_RECORD,             // *found is the record as it now is
    LEADER_NEWS_LISTENING,          // from now on every change is reported; a sign of life
    LEADER_NEWS_DEAF                // no longer
} leader_news;

typedef struct leader_register {
    void *self;                     // must outlive the election
    leader_result (*read) (void *self, const leader_call *, leader_entry *found);
    leader_result (*write)(void *self, const leader_call *, const leader_entry *next, leader_entry *stored);
    /* Optional from here on. */
    leader_news   (*notice)(void *self, leader_entry *found);   // called until it says NONE
    void          (*cancel)(void *self);    // forget the request under way
    const char   *(*open)  (void *self, const leader_host *);   // as leader_backend.open
    void          (*close) (void *self);
    const char    *name;            // as leader_backend.name
} leader_register;

typedef struct leader_engine leader_engine;     // complete below: yours to place

/* ---- configuration.  C: leader_config config = {0};   C++: leader_config config = {}; ------------------

   leader_init copies it, strings too. 0 means the default written beside the field. All zero is a single
   node that needs no configuration. */
typedef struct leader_config {
    const char    *identity;        // unique, UTF-8, required with a backend: see leader_make_identity
    // zero: single node, always leader. With an identity that is logged as a warning, because a line may be
    // missing; leader_single_backend() is silent
    leader_backend backend;
    const char    *value;           // "": what others should know about this process while it leads, such as
                                    // its address; UTF-8
    int64_t lease_ms;               // 15000
    // lease_ms * 2/3: unrenewed leadership ends here, others start at lease_ms
    int64_t renew_deadline_ms;
    int64_t renew_ms;               // lease_ms / 3: a tick later than deadline - renew may cost the term
    int64_t renew_retry_ms;         // min(500, (renew_deadline_ms - renew_ms) / 10), doubled twice
    int     renew_retries;          // -1: until the deadline; n: then step down; LEADER_NO_RETRIES
    int64_t retry_ms;               // min(2000, renew_ms): between attempts of a standby
    int64_t retry_max_ms;           // 60000: ceiling of the back-off while the store answers with errors
    // (renew_deadline_ms - renew_ms) / 2; cut to what is left of the term, and for a standby in a silence
    int64_t request_timeout_ms;
    int64_t drain_timeout_ms;       // no limit; past it the lease is left to expire, not released
    int64_t defer_ms;               // 0: on a free lease, let other candidates go first for this long
    bool    keep_lease_on_stop;     // false: released on stop, once drained
    bool    observe_only;           // watch who leads, never compete
    bool    cautious_start;         // false; true: an empty store is trusted only after one lease
    bool    reclaim_identity;       // only where no second live process can have this identity

    /* Callbacks run only inside leader_tick, _wait and _close, on that thread. They must not block or throw,
       and may call everything except leader_tick, _sleep, _wait and _close. */
    bool  (*is_healthy)(void *user);            // before each renewal and attempt; false: hand over
    bool  (*is_drained)(void *user);            // NULL: the work is over when on_stopped_leading returns
    void  (*on_started_leading)(void *user, uint64_t token);
    // OK asked to, LOST, UNHEALTHY, E_TIMEOUT the deadline, E_* the error that used up the retries
    void  (*on_stopped_leading)(void *user, uint64_t token, leader_result why);
    void  (*on_new_leader)(void *user, const char *identity);       // "": none; includes self
    void  (*on_log)(void *user, leader_level level, const char *text);  // NULL: warnings and errors to stderr
    void   *user;
    // 0: unwatch now, it is closed next; the same number may return at once as another descriptor
    void  (*on_fd)(void *loop_user, intptr_t fd, int events);
    void  (*on_due)(void *loop_user);           // tick soon: leader_due_ms fell to 0 by itself
    void   *loop_user;                          // so that a loop adapter leaves `user` alone
    int64_t (*clock_ms)(void *clock_user);      // for tests; monotonic, asked from any thread
    void   *clock_user;
} leader_config;

/* ---- snapshots --------------------------------------------------------------------------------------- */
typedef struct leader_view {        // one consistent moment
    leader_state state;
    bool     leading;
    uint64_t token;                 // of the present leader, as last seen
    int64_t  remaining_ms;
    int64_t  age_ms;                // since the store last confirmed this; -1: never
    int64_t  since_ms;              // since this leader was first seen; -1: none
    int64_t  acquired_us, renewed_us;           // wall clock in the record, for people; 0: unknown
    char     leader[LEADER_IDENTITY_MAX + 1];
    char     value[LEADER_VALUE_MAX + 1];       // what that leader says about itself
} leader_view;

typedef struct leader_stats {
    uint64_t terms, acquires, renewals, releases, transitions;
    uint64_t failures, failures_io, failures_timeout, failures_auth, failures_corrupt, failures_duplicate;
    // -1: none yet
    int64_t  latency_ms_last, latency_ms_max, margin_ms_min, tick_late_ms_max, since_success_ms;
    leader_result last_error;
    char     last_error_text[240];
} leader_stats;

// both complete below: yours to place; do not read, copy or move them
typedef struct leader_t    leader_t;
typedef struct leader_file leader_file;

/* ---- set-up ------------------------------------------------------------------------------------------ */
// no I/O, no callback. On failure nothing is open and leader_error names the field. Again only after
// leader_close
static inline leader_result leader_init(leader_t *, const leader_config *);
// prefix-host-pid-random
LEADER_API const char    *leader_make_identity(char *buf, size_t cap, const char *prefix);
LEADER_API leader_backend leader_single_backend(void);                          // always leader, token 1
// copies the register
LEADER_API leader_backend leader_register_backend(leader_engine *, const leader_register *);
#if !defined(LEADER_NO_FILE)
LEADER_API leader_backend leader_file_backend(leader_file *, const char *path); // copies the path
LEADER_API void           leader_file_mode(leader_file *, int mode);            // 0600; 0660: for a group
// its lock tells others that this process lives, and so does a child that inherits it; -1: none
LEADER_API int            leader_file_lock_fd(const leader_file *);
#endif

/* ---- loop thread: one thread at a time --------------------------------------------------------------- */
// call again within the ms answered: 1..LEADER_WAIT_MAX_MS, never 0 or negative (100 when stopped or in a
// callback; at most 20 while a request is under way and on_fd is NULL, so that plain sleeping works)
LEADER_API int  leader_tick(leader_t *);
// how many; ask after every tick
LEADER_API int  leader_fds(const leader_t *, leader_fd out[LEADER_FDS_MAX]);
LEADER_API void leader_sleep(leader_t *, int max_ms);       // until due, store ready, signal or max_ms
// tick and sleep until leader: OK, PENDING (signal), E_TIMEOUT, E_STATE (stopped, observer). -1: no limit
LEADER_API leader_result leader_wait(leader_t *, int64_t timeout_ms);
// stop, tick and sleep to the end, free. E_TIMEOUT: closed all the same, lease left to expire. Repeatable
LEADER_API leader_result leader_close(leader_t *, int64_t timeout_ms);
// at once
LEADER_API leader_result leader_close_all(leader_t *const *elections, int count, int64_t timeout_ms);
LEADER_API const char *leader_error(const leader_t *);      // "" or text until the next call on it
// config.value from now on; while leading it is written at once. E_CONFIG: too long or not UTF-8
LEADER_API leader_result leader_set_value(leader_t *, const char *value);
// config.defer_ms from now on: by load, by rack, by what you know now. E_CONFIG: negative, no observe
LEADER_API leader_result leader_set_defer(leader_t *, int64_t defer_ms);
// hand over, to this candidate first: the others wait retry_ms
LEADER_API leader_result leader_resign_to(leader_t *, const char *identity, int64_t pause_ms);

/* ---- any thread, and signal handlers: acts in the next tick, so tick or wake your loop ---------------- */
LEADER_API void leader_stop(leader_t *);                    // repeatable; over when leader_is_stopped
// hand over, pause (0: lease_ms), compete again
LEADER_API void leader_resign(leader_t *, int64_t pause_ms);

/* ---- any thread; false, 0, "" for zeroed or closed memory and in a forked child ----------------------- */
LEADER_API bool         leader_is_leader(const leader_t *);         // may I START something now?
LEADER_API uint64_t     leader_token(const leader_t *);             // 0: not leader; same token: same term
// may I FINISH it? > 0 leading and draining
LEADER_API int64_t      leader_remaining_ms(const leader_t *);
LEADER_API int          leader_due_ms(const leader_t *);            // until leader_tick is due; 0: now
LEADER_API bool         leader_is_stopped(const leader_t *);        // nothing left to tick; true when zeroed
// false: tick or renewal overdue
LEADER_API bool         leader_is_healthy(const leader_t *, int64_t tolerance_ms);
// the store answered since then
LEADER_API bool         leader_is_in_touch(const leader_t *, int64_t silence_ms);
LEADER_API leader_state leader_get_state(const leader_t *);
LEADER_API int          leader_get_leader(const leader_t *, char *buf, size_t cap); // as snprintf
// of that leader, as snprintf
LEADER_API int          leader_get_value(const leader_t *, char *buf, size_t cap);
LEADER_API leader_view  leader_get_view(const leader_t *);
LEADER_API leader_stats leader_get_stats(const leader_t *);
// of the election: path, key, namespace/lease
LEADER_API const char  *leader_name(const leader_t *);
LEADER_API const char  *leader_strerror(leader_result);             // static text
LEADER_API const char  *leader_state_name(leader_state);
// LEADER_READ and _WRITE as POLLIN and POLLOUT
LEADER_API short        leader_poll_events(int events);
// as snprintf, quotes included
LEADER_API size_t       leader_json_quote(char *buf, size_t cap, const char *text);
// do not call
LEADER_API leader_result leader_init_(leader_t *, size_t, const leader_config *, size_t, int version);

/* =======================================================================================================
   Stop here if you only want the API. The structs are complete so that you can place them; their insides
   are private. The implementation, in this order:

       platform          clocks, processes, threads, atomics: everything that differs between systems
       text              UTF-8, JSON, times, the record as JSON
       published state   what other threads see, and the questions they ask
       logging           messages and errors
       host              the core as backends see it
       requests          one request at a time to the store
       terms             how a leadership begins and ends
       answers           what the store's answers mean
       state machine     one step, one tick
       waiting           sleep, wait, close
       single node       the backend that always says yes
       set-up            checks and leader_init
       register engine   decides for every store that can compare and swap
       file backend      a register in a directory
   ======================================================================================================= */

#if defined(__GNUC__)
#  define LEADER_ALIGNED_ __attribute__((aligned(8)))   // i386 aligns 64-bit words to 4: not atomic
#else
#  define LEADER_ALIGNED_
#endif

typedef struct leader_numbers_ {    // what any thread may see, always as a whole
    int64_t  state;
    uint64_t token;                 // of our own term; 0: not leading
    int64_t  until_ms;              // leading while the clock is below
    int64_t  lease_until_ms;        // the lease is ours while the clock is below: leading and draining
    uint64_t seen_token;            // of the present leader
    int64_t  confirmed_ms;          // when the store last said so; LEADER_NEVER_: it has not
    int64_t  since_ms;              // when this leader was first seen
    int64_t  acquired_us, renewed_us;
    int64_t  error_code;
} leader_numbers_;
typedef struct leader_shown_ {      // and the texts that go with it
    leader_numbers_ numbers;
    char     leader[LEADER_IDENTITY_MAX + 1];
    char     value[LEADER_VALUE_MAX + 1];
    char     error[240];
} leader_shown_;
enum { LEADER_NUMBERS_WORDS_ = sizeof(leader_numbers_) / sizeof(uint64_t) };
enum { LEADER_SHOWN_WORDS_ = sizeof(leader_shown_) / sizeof(uint64_t) };

typedef struct leader_counts_ {     // word for word the beginning of leader_stats
    uint64_t terms, acquires, renewals, releases, transitions, failures;
    uint64_t failures_by[5];        // from E_IO down to E_DUPLICATE
    int64_t  latency_ms_last, latency_ms_max, margin_ms_min, tick_late_ms_max, success_ms;
} leader_counts_;

typedef enum leader_claim_ {        // what we have in the store, as far as we know
    LEADER_CLAIM_NONE_,
    LEADER_CLAIM_MAYBE_,            // an acquire of ours had no answer: there may be a record
    LEADER_CLAIM_HELD_
} leader_claim_;

typedef struct leader_repeat_ {     // a line on stderr that may come again
    uint64_t hash;
    int64_t  said_ms;
    uint64_t unsaid;
} leader_repeat_;
enum { LEADER_REPEATS_ = 4 };

struct leader_t {
    // first in every version: leader_error works even where the sizes disagree
    const char    *init_error;
    uint32_t       life;            // equals leader_life_ while open in this process
    int32_t        pid;

    /* Words that other threads read or set. */
    int64_t        until_ms LEADER_ALIGNED_;        // the one word that leader_is_leader reads
    int64_t        due_ms LEADER_ALIGNED_;          // the next tick
    int64_t        wake LEADER_ALIGNED_;            // 1: tick now, whatever due_ms says
    int64_t        stop_asked LEADER_ALIGNED_;
    int64_t        resign_asked LEADER_ALIGNED_;    // pause + 1; 0: not asked
    int64_t        ticking LEADER_ALIGNED_;         // 1: inside leader_tick or leader_close
    int64_t        misused LEADER_ALIGNED_;         // 1: another thread called while `ticking`
    uint64_t       version LEADER_ALIGNED_;         // of what is shown: shown[version & 1]
    uint64_t       shown[2][LEADER_SHOWN_WORDS_] LEADER_ALIGNED_;
    leader_counts_ counts LEADER_ALIGNED_;

    /* From here on: the loop's thread only. */
    leader_config  cfg;
    leader_host    host;
    leader_state   state;
    int64_t        now_ms;          // the clock as this step read it
    int64_t        tick_ms;         // the clock when this tick began
    int64_t        late_ms;         // by how much this tick came late
    uintptr_t      thread;          // that ticks

    struct {                        // the request under way
        int        op;              // LEADER_OP_..._; NONE: none
        uint64_t   seq;
        int64_t    sent_ms;         // the clock before it was sent: validity runs from here
        int64_t    timeout_ms;
        int64_t    again_at_ms;     // the backend wants to be asked by then; LEADER_NEVER_: it does not say
        bool       said_error;      // the backend has explained what went wrong
    } request;

    struct {                        // the lease and its term
        leader_claim_ claim;
        uint64_t   token;
        uint64_t   highest_token;   // ever seen
        int64_t    until_ms;        // ours while the clock is below: sent_ms + renew_deadline_ms
        int64_t    hold_until_ms;   // no term starts before: the store forgot a holder
        int64_t    confirmed_ms;    // when the store last said who leads
        bool       store_answered;  // at least once
        bool       undrained;       // the work of our last term may go on
    } lease;

    struct {                        // when to ask next
        int64_t    next_ms;
        int        retries;         // of the renewal or release under way
        int        errors;          // answered in a row to a standby
        bool       silence;         // the last request had no answer in time
        int64_t    slowest_ms;      // that an answer ever took
        int64_t    free_since_ms;   // defer_ms counts from here; LEADER_NEVER_: not known to be free
        int64_t    window_ms;       // early attempts are counted from here
        int        early;
        bool       noticed;         // the store changed
        uint64_t   random;
    } plan;

    struct {                        // leaving, by order of the user
        bool       stopping;
        int64_t    pause_ms;        // after the release
        int64_t    pause_until_ms;
        int64_t    drain_until_ms;
        char       heir[LEADER_IDENTITY_MAX + 1];
    } leave;

    struct {                        // descriptors
        leader_fd  list[LEADER_FDS_MAX];
        int        count;
        int64_t    polled_ms;
        int        polls;           // within that millisecond
        bool       ready;           // leader_sleep saw one ready
        bool       unread;          // this tick did not read them: waiting for them would spin
    } fds;

    bool           error_is_current;    // leader_error() tells it
    bool           warn_single_node;    // by the first tick
    bool           warn_short_lease;
    bool           backs_off;           // retry_max_ms was set: an unreachable store is spared as well
    leader_repeat_ repeats[LEADER_REPEATS_];
    uint64_t       nonce;
    char           identity[LEADER_IDENTITY_MAX + 1];
    char           value[LEADER_VALUE_MAX + 1];
};

typedef struct leader_lineage_ {    // what a later record of the same store must not fall behind
    uint64_t origin, revision, renewal, token;
} leader_lineage_;

struct leader_engine {              // what is used most comes first
    /* the operation under way */
    int              op;            // LEADER_OP_..._; NONE: idle
    int              step;          // LEADER_STEP_..._
    int              conflicts;
    uint64_t         seq;           // of the core's request
    uint64_t         nonce;
    uint64_t         call_id;       // of our own to the register
    int64_t          call_ms;       // the clock before that

    /* what is known about the record */
    bool             is_known;      // the store has shown `known` since open
    bool             must_read;     // it may have changed since
    bool             corrupt;       // it cannot be understood; version and renewal are valid
    bool             doubt;         // decided at the look: the store has forgotten a holder
    bool             duplicate;     // another process writes under our identity
    bool             seen_any;      // a record was there at some time, held or released
    bool             listening;     // to notices
    bool             is_first;      // our record is the first of an empty store
    int64_t          seen_ms;       // when `known` was first seen in its present form
    int64_t          learnt_ms;     // when `known` was last shown, by an answer or a notice
    int64_t          read_ms;       // when the store last answered
    int64_t          heard_ms;      // when a notice last came
    int64_t          longest_ms;    // the longest lease seen
    uint64_t         highest_token; // ever seen, whatever the store forgot since
    int64_t          doubt_until_ms;
    leader_lineage_  last;

    /* our own term */
    uint64_t         term_token;
    uint64_t         drawn_again;   // the token that takes its place while holding off; 0: none yet
    int64_t          hold_until_ms; // our record says that its term has not begun until then

    leader_host      host;
    leader_register  store;
    leader_entry     known;
    leader_entry     next;          // what is being written
};

typedef struct leader_term_ {       // what the text of a record says
    uint64_t     nonce, draft;      // which text it is
    uint64_t     time_namespace, lock_device, lock_inode;
    char         boot_id[40];
    leader_entry entry;
} leader_term_;

struct leader_file {
    int           mode;             // of the files made: leader_file_mode
    const char   *wrong;            // found by the maker, told by open

    bool          ready;            // boot_id and time_namespace are known
    char          boot_id[40];
    uint64_t      time_namespace;
    leader_host   host;
    uint32_t      owner, group;     // of the directory

    /* our own writes */
    uint64_t      nonce, drafts;
    int           lock_fd;
    uint64_t      lock_device, lock_inode;
    int64_t       written_ms;
    uint64_t      synced_origin;    // of the records in a directory whose own name is on disk
    bool          sweep_due;
    bool          unsettled;        // a write failed half-way: it may have left something
    bool          holds;            // the record is ours, as far as we know

    /* the copy at the path */
    int           copy_dir;         // the directory, open until the copy is made; -1: none is due
    bool          said_copy;
    uint64_t      copy_inode;
    int64_t       copy_ns;

    /* notices */
    struct leader_file *next_listener;
    uintptr_t     thread;
    int           notify_fd;
    int           watch;            // of the holder's lock; -1: none
    uint64_t      watched;          // the holder's nonce
    int           closing;          // that lock file was closed: ask again soon, that many times
    bool          heard, woken, said_deaf;

    leader_entry  written;          // our last write that counted
    leader_term_  term;             // the text last read or written
    char          path[LEADER_PATH_MAX + 1], dir[LEADER_PATH_MAX + 3];
    leader_engine engine;
};

static inline leader_result leader_init(leader_t *l, const leader_config *cfg) {
    return leader_init_(l, sizeof *l, cfg, sizeof *cfg, LEADER_VERSION_NUM);
}

#ifdef __cplusplus
}
#endif
#endif /* LEADER_H_INCLUDED */

#if defined(LEADER_IMPLEMENTATION) && !defined(LEADER_IMPLEMENTATION_DONE)
#define LEADER_IMPLEMENTATION_DONE

/* ---- platform: everything that differs between systems ------------------------------------------------ */

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#if defined(_WIN32)
#  include <winsock2.h>
#  include <windows.h>
#else
#  include <fcntl.h>
#  include <poll.h>
#  include <pthread.h>
#  include <unistd.h>
#  if defined(__APPLE__)
#    include <mach/mach_time.h>
#    include <stdlib.h>
#  elif defined(__linux__)
#    include <sys/syscall.h>
#  endif
#endif

/* One clear message, and nothing after it: hence the #else around the rest. L_SET stands for what both
   glibc and musl show under _DEFAULT_SOURCE only. */
#if defined(_WIN32)
#  define LEADER_NAMES_MISSING_ 0
#elif !defined(AT_FDCWD) || !defined(CLOCK_MONOTONIC)
#  define LEADER_NAMES_MISSING_ 1
#elif defined(__linux__) && !defined(L_SET)
#  define LEADER_NAMES_MISSING_ 1
#else
#  define LEADER_NAMES_MISSING_ 0
#endif
#if LEADER_NAMES_MISSING_
#  error "leader.h: a system header came first: include leader.h before it, or define _DEFAULT_SOURCE"
#else

#ifndef LEADER_ASSERT
#  define LEADER_ASSERT(x) assert(x)
#endif
#if defined(__GNUC__)
#  define LEADER_UNUSED_ __attribute__((unused))
#  define LEADER_PRINTF_(at, first) __attribute__((format(printf, at, first)))
#else
#  define LEADER_UNUSED_
#  define LEADER_PRINTF_(at, first)
#endif

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) && !defined(__TINYC__)
#  define LEADER_LOAD_(p)     __atomic_load_n((p), __ATOMIC_ACQUIRE)
#  define LEADER_STORE_(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#  define LEADER_SWAP_(p, v)  __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#else                               // no atomics: queries from the loop's thread only
#  define LEADER_LOAD_(p)     (*(p))
#  define LEADER_STORE_(p, v) ((void)(*(p) = (v)))
#  define LEADER_SWAP_(p, v)  leader_swap_((p), (v))
static int64_t leader_swap_(int64_t *p, int64_t v) {
    int64_t old = *p;
    *p = v;
    return old;
}
#endif

#define LEADER_NEVER_ INT64_MIN                                 // a moment that no clock is below
#define LEADER_TIME_MAX_MS_ (INT64_C(1000) * 86400 * 3650)      // ten years: longer is a mistake
#define LEADER_LL_(x) ((long long)(x))

static int64_t leader_min_(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t leader_max_(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static uint64_t leader_max_u64_(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

typedef enum leader_nap_result_ {
    LEADER_NAP_OVER_,
    LEADER_NAP_READY_,
    LEADER_NAP_SIGNAL_
} leader_nap_result_;

#if defined(_WIN32)

#define LEADER_CLOCK_GRAIN_MS_ 16   // GetTickCount64 may lag this much: a term ends that much earlier

static int64_t leader_clock_ms_(void) {
    return (int64_t)GetTickCount64();
}

static int32_t leader_pid_(void) {
    return (int32_t)GetCurrentProcessId();
}

static uintptr_t leader_thread_(void) {
    return (uintptr_t)GetCurrentThreadId();
}

static bool leader_watch_forks_(void) {
    return true;
}

LEADER_UNUSED_ static int64_t leader_wall_us_(void) {
    FILETIME t;
    GetSystemTimeAsFileTime(&t);    // units of 100 ns since 1601
    uint64_t units = ((uint64_t)t.dwHighDateTime << 32) | t.dwLowDateTime;
    return (int64_t)(units / 10) - INT64_C(11644473600000000);
}

static void leader_host_name_(char *buf, size_t cap) {
    DWORD n = (DWORD)cap;
    if (!GetComputerNameA(buf, &n)) {
        buf[0] = 0;
    }
}

BOOLEAN NTAPI SystemFunction036(PVOID buf, ULONG len);      // RtlGenRandom, in advapi32

LEADER_UNUSED_ static bool leader_system_random_(uint64_t *out) {
    return SystemFunction036(out, (ULONG)sizeof *out) != 0;
}

/* Sockets become ready without waking Sleep, so naps are short when there are any. */
static leader_nap_result_ leader_nap_(const leader_fd *fds, int count, int ms) {
    (void)fds;
    if (count > 0 && ms > 10) {
        ms = 10;
    }
    Sleep((DWORD)ms);
    return LEADER_NAP_OVER_;
}

#else

#define LEADER_CLOCK_GRAIN_MS_ 0     // far below one: a tick of Apple's clock is 1 ns or 42 ns

/* Of a clock whose ticks are numer/denom nanoseconds, 125/3 on Apple's processors. What is lost is less than
   one tick, however long the machine has been up, and nothing overflows. */
LEADER_UNUSED_ static int64_t leader_ticks_ms_(uint64_t ticks, uint32_t numer, uint32_t denom) {
    uint64_t ns = ticks / denom * numer + ticks % denom * numer / denom;
    return (int64_t)(ns / 1000000);
}

/* A clock that goes on while the machine is suspended. */
static int64_t leader_clock_ms_(void) {
#if defined(__APPLE__)
    mach_timebase_info_data_t base; // asked for every time: two threads may be here
    mach_timebase_info(&base);
    return leader_ticks_ms_(mach_continuous_time(), base.numer, base.denom);
#else
    struct timespec t;
#  if defined(CLOCK_BOOTTIME)
    clock_gettime(CLOCK_BOOTTIME, &t);
#  else
    clock_gettime(CLOCK_MONOTONIC, &t);
#  endif
    return (int64_t)t.tv_sec * 1000 + (int64_t)t.tv_nsec / 1000000;
#endif
}

LEADER_UNUSED_ static int64_t leader_wall_us_(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + (int64_t)t.tv_nsec / 1000;
}

static int32_t leader_pid_(void) {
    return (int32_t)getpid();
}

static uintptr_t leader_thread_(void) {
    return (uintptr_t)&errno;       // every thread has its own
}

static void leader_host_name_(char *buf, size_t cap) {
    if (gethostname(buf, cap) != 0) {
        buf[0] = 0;
    }
    buf[cap - 1] = 0;
}

LEADER_UNUSED_ static bool leader_system_random_(uint64_t *out) {
#if defined(__APPLE__)
    arc4random_buf(out, sizeof *out);
    return true;
#else
#  if defined(SYS_getrandom)
    enum { NONBLOCK = 1 };
    if (syscall(SYS_getrandom, out, sizeof *out, NONBLOCK) == (long)sizeof *out) {
        return true;
    }
#  endif
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t got = read(fd, out, sizeof *out);
    close(fd);
    return got == (ssize_t)sizeof *out;
#endif
}

static leader_nap_result_ leader_nap_(const leader_fd *fds, int count, int ms) {
    struct pollfd wait[2 * LEADER_FDS_MAX];
    LEADER_ASSERT(count <= 2 * LEADER_FDS_MAX);
    for (int i = 0; i < count; i++) {
        wait[i].fd = (int)fds[i].fd;
        wait[i].events = leader_poll_events(fds[i].events);
        wait[i].revents = 0;
    }
    int ready = poll(wait, (nfds_t)count, ms);
    if (ready > 0) {
        return LEADER_NAP_READY_;
    }
    return ready < 0 && errno == EINTR ? LEADER_NAP_SIGNAL_ : LEADER_NAP_OVER_;
}

#endif

LEADER_API short leader_poll_events(int events) {
    int bits = 0;
    if (events & LEADER_READ) {
        bits |= POLLIN;
    }
    if (events & LEADER_WRITE) {
        bits |= POLLOUT;
    }
    return (short)bits;
}

/* A child of fork() lives a later life than every election that its parent opened, so one load tells them
   apart. (getpid() at every question would cost more than the clock.) _Fork, vfork and bare clone() run no
   handler: for them every request checks the pid as well. */
static uint32_t leader_life_ = 1;

#if !defined(_WIN32)
static void leader_forked_(void) {
    LEADER_STORE_(&leader_life_, leader_life_ + 1);
}

static bool leader_watch_forks_(void) {
    static uint32_t watching = 0;
    if (LEADER_LOAD_(&watching)) {
        return true;
    }
    if (pthread_atfork(NULL, NULL, leader_forked_) != 0) {
        return false;
    }
    LEADER_STORE_(&watching, 1u);
    return true;
}
#endif

static uint64_t leader_mix_(uint64_t x) {
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}

#ifndef LEADER_RANDOM64
#define LEADER_RANDOM64() leader_random64_()
static uint64_t leader_random64_(void) {
    static uint64_t calls = 0;
    uint64_t random = 0;
    if (leader_system_random_(&random)) {
        return random;
    }
    calls += 1;                     // no entropy: clock, process and place still tell processes apart
    uint64_t place = (uint64_t)(uintptr_t)&random + calls;
    return leader_mix_((uint64_t)leader_clock_ms_()
                       ^ leader_mix_((uint64_t)leader_pid_() ^ leader_mix_(place)));
}
#endif

/* ---- text: UTF-8, JSON read in place, times. Shared with backends/ ------------------------------- */

static bool leader_is_continuation_(char c) {
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* The length of the UTF-8 sequence at `at`, or 0 if it is none: overlong forms and surrogates are none. */
static size_t leader_utf8_(const char *at, size_t left) {
    static const struct { unsigned char first_min, first_max, second_min, second_max, length; } forms[] = {
        {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    const unsigned char *s = (const unsigned char *)at;
    size_t form = 0;
    while (form < sizeof forms / sizeof forms[0] && s[0] > forms[form].first_max) {
        form++;
    }
    if (form == sizeof forms / sizeof forms[0] || s[0] < forms[form].first_min) {
        return 0;
    }
    size_t length = forms[form].length;
    if (length > left) {
        return 0;
    }
    if (length > 1 && (s[1] < forms[form].second_min || s[1] > forms[form].second_max)) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if (!leader_is_continuation_(at[i])) {
            return 0;
        }
    }
    return length;
}

/* The first byte that is not UTF-8, or the length of the text. */
static size_t leader_utf8_end_(const char *text) {
    size_t len = strlen(text);
    size_t at = 0;
    while (at < len) {
        size_t width = leader_utf8_(text + at, len - at);
        if (width == 0) {
            return at;
        }
        at += width;
    }
    return len;
}

/* Copies as much as fits, cut at a whole character, and fills the rest with zeroes. */
static void leader_copy_text_(char *to, size_t cap, const char *from) {
    size_t n = strlen(from);
    if (n >= cap) {
        n = cap - 1;
        while (n > 0 && leader_is_continuation_(from[n])) {
            n--;
        }
    }
    memset(to, 0, cap);
    memcpy(to, from, n);
}

typedef struct leader_json_ {       // one value: a span of the text it stands in
    const char *at;
    size_t      len;
} leader_json_;
enum { LEADER_JSON_DEPTH_ = 32 };

static bool leader_is_space_(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool leader_is_digit_(char c) {
    return c >= '0' && c <= '9';
}

static const char *leader_json_space_(const char *p, const char *end) {
    while (p < end && leader_is_space_(*p)) {
        p++;
    }
    return p;
}

static bool leader_json_at_(const char *p, const char *end, char c) {
    return p < end && *p == c;
}

static int leader_hex_(char c) {
    if (leader_is_digit_(c)) {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

/* Four hexadecimal digits, or -1. */
static long leader_json_hex4_(const char *p, const char *end) {
    long value = 0;
    if (end - p < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        int digit = leader_hex_(p[i]);
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

/* The length of the escape or character at p inside a string, or 0 if it is wrong. */
static size_t leader_json_char_(const char *p, const char *end) {
    unsigned char c = (unsigned char)*p;
    if (c >= 0x20 && c < 0x80 && c != '\\') {
        return 1;
    }
    if (c != '\\') {
        return c < 0x20 ? 0 : leader_utf8_(p, (size_t)(end - p));
    }
    if (end - p < 2) {
        return 0;
    }
    if (p[1] == 'u') {
        return leader_json_hex4_(p + 2, end) < 0 ? 0 : 6;
    }
    return p[1] != 0 && strchr("\"\\/bfnrt", p[1]) ? 2 : 0;
}

/* Each skip function takes the text at a value and answers its end; a mistake answers false with *pp at the
   bad byte. */
static bool leader_json_skip_string_(const char **pp, const char *end) {
    const char *p = *pp + 1;
    while (p < end && *p != '"') {
        size_t width = leader_json_char_(p, end);
        if (width == 0) {
            break;
        }
        p += width;
    }
    bool closed = leader_json_at_(p, end, '"');
    *pp = closed ? p + 1 : p;
    return closed;
}

static bool leader_json_skip_digits_(const char **pp, const char *end) {
    const char *start = *pp;
    while (*pp < end && leader_is_digit_(**pp)) {
        ++*pp;
    }
    return *pp > start;
}

static bool leader_json_skip_exponent_(const char **pp, const char *end) {
    if (!leader_json_at_(*pp, end, 'e') && !leader_json_at_(*pp, end, 'E')) {
        return true;
    }
    ++*pp;
    if (leader_json_at_(*pp, end, '+') || leader_json_at_(*pp, end, '-')) {
        ++*pp;
    }
    return leader_json_skip_digits_(pp, end);
}

static bool leader_json_skip_number_(const char **pp, const char *end) {
    if (leader_json_at_(*pp, end, '-')) {
        ++*pp;
    }
    if (leader_json_at_(*pp, end, '0')) {
        ++*pp;
    } else if (!leader_json_skip_digits_(pp, end)) {
        return false;
    }
    if (leader_json_at_(*pp, end, '.')) {
        ++*pp;
        if (!leader_json_skip_digits_(pp, end)) {
            return false;
        }
    }
    return leader_json_skip_exponent_(pp, end);
}

static bool leader_json_skip_(const char **pp, const char *end, int depth);

/* "name": up to the value behind it. */
static bool leader_json_skip_name_(const char **pp, const char *end, leader_json_ *name) {
    name->at = *pp;
    if (!leader_json_at_(*pp, end, '"') || !leader_json_skip_string_(pp, end)) {
        return false;
    }
    name->len = (size_t)(*pp - name->at);
    *pp = leader_json_space_(*pp, end);
    if (!leader_json_at_(*pp, end, ':')) {
        return false;
    }
    *pp = leader_json_space_(*pp + 1, end);
    return true;
}

static bool leader_json_skip_items_(const char **pp, const char *end, int depth) {
    const bool object = **pp == '{';
    const char close = object ? '}' : ']';
    *pp = leader_json_space_(*pp + 1, end);
    if (leader_json_at_(*pp, end, close)) {
        ++*pp;
        return true;
    }
    for (;;) {
        leader_json_ name;
        if (object && !leader_json_skip_name_(pp, end, &name)) {
            return false;
        }
        if (!leader_json_skip_(pp, end, depth - 1)) {
            return false;
        }
        *pp = leader_json_space_(*pp, end);
        if (leader_json_at_(*pp, end, close)) {
            ++*pp;
            return true;
        }
        if (!leader_json_at_(*pp, end, ',')) {
            return false;
        }
        *pp = leader_json_space_(*pp + 1, end);
    }
}

static bool leader_json_skip_(const char **pp, const char *end, int depth) {
    static const char *const words[3] = {"true", "false", "null"};
    if (*pp >= end || depth == 0) {
        return false;
    }
    if (**pp == '"') {
        return leader_json_skip_string_(pp, end);
    }
    if (**pp == '{' || **pp == '[') {
        return leader_json_skip_items_(pp, end, depth);
    }
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(end - *pp) >= n && memcmp(*pp, words[i], n) == 0) {
            *pp += n;
            return true;
        }
    }
    return leader_json_skip_number_(pp, end);
}

/* Strict JSON in UTF-8, nothing but white space around it. On a mistake *bad_at is the first wrong byte. */
LEADER_UNUSED_ static bool leader_json_parse_(const char *text, size_t len, leader_json_ *root,
                                              size_t *bad_at) {
    const char *end = text + len;
    const char *start = leader_json_space_(text, end);
    const char *p = start;
    bool good = leader_json_skip_(&p, end, LEADER_JSON_DEPTH_);
    root->at = start;
    root->len = (size_t)(p - start);
    if (good) {
        p = leader_json_space_(p, end);
    }
    *bad_at = (size_t)(p - text);
    return good && p == end;
}

/* The code point of the \u escape at *pp, with its second half if it has one. -1: a lone surrogate or NUL. */
static long leader_json_code_point_(const char **pp, const char *end) {
    long code = leader_json_hex4_(*pp + 2, end);
    *pp += 6;
    bool high = code >= 0xd800 && code < 0xdc00;
    if (high && end - *pp >= 6 && (*pp)[0] == '\\' && (*pp)[1] == 'u') {
        long low = leader_json_hex4_(*pp + 2, end);
        if (low < 0xdc00 || low > 0xdfff) {
            return -1;
        }
        *pp += 6;
        return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code <= 0 || surrogate ? -1 : code;
}

static size_t leader_utf8_write_(char out[4], long code) {
    static const long limits[3] = {0x80, 0x800, 0x10000};
    static const int marks[4] = {0, 0xc0, 0xe0, 0xf0};
    size_t width = 1;
    while (width < 4 && code >= limits[width - 1]) {
        width++;
    }
    for (size_t i = width - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    out[0] = (char)(marks[width - 1] | code);
    return width;
}

/* One character of a string: its bytes, and *pp behind it. 0: it cannot be told. */
static size_t leader_json_decode_(const char **pp, const char *end, char out[4]) {
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    if (**pp != '\\') {
        out[0] = **pp;
        ++*pp;
        return 1;
    }
    if ((*pp)[1] != 'u') {
        out[0] = to[strchr(from, (*pp)[1]) - from];
        *pp += 2;
        return 1;
    }
    long code = leader_json_code_point_(pp, end);
    return code < 0 ? 0 : leader_utf8_write_(out, code);
}

/* Decodes a string value. False: not a string, too long for the buffer, a lone surrogate, or a NUL inside. */
static bool leader_json_string_(leader_json_ value, char *buf, size_t cap) {
    if (value.len < 2 || value.at[0] != '"' || cap == 0) {
        return false;
    }
    const char *p = value.at + 1;
    const char *end = value.at + value.len - 1;
    size_t n = 0;
    while (p < end) {
        char out[4];
        size_t width = leader_json_decode_(&p, end, out);
        if (width == 0 || n + width >= cap) {
            return false;
        }
        memcpy(buf + n, out, width);
        n += width;
    }
    buf[n] = 0;
    return true;
}

/* Is the value this very string? */
static bool leader_json_equals_(leader_json_ value, const char *text) {
    const char *p = value.at + 1;
    const char *end = value.at + value.len - 1;
    while (p < end) {
        char out[4];
        size_t width = leader_json_decode_(&p, end, out);
        if (width == 0 || strncmp(out, text, width) != 0) {
            return false;
        }
        text += width;
    }
    return *text == 0;
}

/* A member of an object that leader_json_parse_ accepted. False: not an object, no such member, or more than
   one: readers would disagree about which of them counts. (*value is the first then, else untouched.) */
LEADER_UNUSED_ static bool leader_json_member_(leader_json_ object, const char *name, leader_json_ *value) {
    if (object.len == 0 || object.at[0] != '{') {
        return false;
    }
    const char *end = object.at + object.len;
    const char *p = leader_json_space_(object.at + 1, end);
    bool found = false;
    while (leader_json_at_(p, end, '"')) {
        leader_json_ key;
        if (!leader_json_skip_name_(&p, end, &key)) {
            return false;
        }
        leader_json_ v = {p, 0};
        if (!leader_json_skip_(&p, end, LEADER_JSON_DEPTH_)) {
            return false;
        }
        v.len = (size_t)(p - v.at);
        if (leader_json_equals_(key, name)) {
            if (found) {
                return false;
            }
            found = true;
            *value = v;
        }
        p = leader_json_space_(p, end);
        if (leader_json_at_(p, end, ',')) {
            p = leader_json_space_(p + 1, end);
        }
    }
    return found;
}

/* Plain digits: no sign, fraction or exponent. */
LEADER_UNUSED_ static bool leader_json_u64_(leader_json_ value, uint64_t *out) {
    uint64_t number = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (!leader_is_digit_(value.at[i])) {
            return false;
        }
        uint64_t digit = (uint64_t)(value.at[i] - '0');
        if (number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    *out = number;
    return value.len > 0;
}

static size_t leader_json_escape_(char c, char out[8]) {
    if (c == '"' || c == '\\') {
        out[0] = '\\';
        out[1] = c;
        return 2;
    }
    if ((unsigned char)c >= 0x20) {
        out[0] = c;
        return 1;
    }
    return (size_t)snprintf(out, 8, "\\u%04x", (unsigned)(unsigned char)c);
}

/* Bytes that are not UTF-8 become U+FFFD: what comes out is always JSON. */
LEADER_API size_t leader_json_quote(char *buf, size_t cap, const char *text) {
    size_t left = strlen(text);
    size_t n = 1;
    if (cap > 1) {
        buf[0] = '"';
    }
    while (left > 0) {
        char out[8];
        size_t taken = leader_utf8_(text, left);
        size_t width = taken;
        if (taken == 0) {
            taken = 1;
            width = 3;
            memcpy(out, "\xef\xbf\xbd", 3);
        } else if (taken == 1) {
            width = leader_json_escape_(*text, out);
        } else {
            memcpy(out, text, taken);
        }
        if (n + width < cap) {
            memcpy(buf + n, out, width);
        }
        n += width;
        text += taken;
        left -= taken;
    }
    if (n + 1 < cap) {
        buf[n] = '"';
        buf[n + 1] = 0;
    } else if (cap > 0) {
        buf[cap - 1] = 0;
    }
    return n + 1;
}

static bool leader_is_leap_(uint32_t year) {
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* RFC 3339 in UTC, with six digits: "2026-11-16T01:28:19.182774Z". Not gmtime: it reads TZ, and allocates. */
LEADER_UNUSED_ static void leader_time_text_(char buf[28], int64_t unix_us) {
    static const uint32_t lengths[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unix_us = leader_max_(unix_us, 0);          // a clock that far off names no time
    uint32_t us = (uint32_t)(unix_us % 1000000);
    uint32_t second = (uint32_t)(unix_us / 1000000 % 86400);
    uint32_t day = (uint32_t)(unix_us / 1000000 / 86400);
    uint32_t year = 1970;
    while (day >= (leader_is_leap_(year) ? 366u : 365u)) {
        day -= leader_is_leap_(year) ? 366u : 365u;
        year++;
    }
    uint32_t month = 0;
    while (month < 11) {
        uint32_t length = lengths[month];
        if (month == 1 && leader_is_leap_(year)) {
            length++;
        }
        if (day < length) {
            break;
        }
        day -= length;
        month++;
    }
    char text[160];
    snprintf(text, sizeof text, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ", (unsigned)year, (unsigned)month + 1,
             (unsigned)day + 1, (unsigned)(second / 3600), (unsigned)(second / 60 % 60),
             (unsigned)(second % 60), (unsigned)us);
    memcpy(buf, text, 27);
    buf[27] = 0;
}

#define LEADER_TOKEN_MAX_ ((UINT64_C(1) << 53) - 1)     // what every reader of JSON can hold

/* ---- the record as JSON: one text for people and for every store that keeps text ------------------- */

typedef struct leader_unit_ {
    const char *name;
    int64_t     ns;
} leader_unit_;

static const leader_unit_ *leader_unit_find_(const char *text, size_t len) {
    static const leader_unit_ units[] = {{"h", INT64_C(3600000000000)}, {"m", INT64_C(60000000000)},
                                         {"s", 1000000000}, {"ms", 1000000}, {"us", 1000}, {"ns", 1}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strlen(units[i].name) == len && strncmp(text, units[i].name, len) == 0) {
            return &units[i];
        }
    }
    return NULL;
}

/* One part of a duration, such as "1.5h". False: not one, or longer than ten years. */
static bool leader_duration_part_(const char **text, int64_t *total_ns) {
    const char *p = *text;
    size_t whole_digits = strspn(p, "0123456789");
    if (whole_digits == 0 || whole_digits > 12) {
        return false;
    }
    int64_t whole = 0;
    for (size_t i = 0; i < whole_digits; i++) {
        whole = whole * 10 + (p[i] - '0');
    }
    p += whole_digits;
    const char *fraction = "";
    size_t fraction_digits = 0;
    if (*p == '.') {
        fraction = p + 1;
        fraction_digits = strspn(fraction, "0123456789");
        p = fraction + fraction_digits;
    }
    size_t letters = strspn(p, "hmsun");
    const leader_unit_ *unit = leader_unit_find_(p, letters);
    if (!unit || whole > LEADER_TIME_MAX_MS_ * 1000000 / unit->ns) {
        return false;
    }
    *total_ns += whole * unit->ns;
    int64_t digit_ns = unit->ns;
    for (size_t i = 0; i < fraction_digits; i++) {
        digit_ns /= 10;
        *total_ns += (fraction[i] - '0') * digit_ns;
    }
    *text = p + letters;
    return true;
}

/* "15s", "1500ms", "1m30s", "1.5h": what Go prints for a duration. Up to ten years. */
LEADER_UNUSED_ static bool leader_duration_parse_(const char *text, int64_t *out_ms) {
    int64_t total_ns = 0;
    while (*text) {
        if (!leader_duration_part_(&text, &total_ns) || total_ns > LEADER_TIME_MAX_MS_ * 1000000) {
            return false;
        }
    }
    *out_ms = (total_ns + 999999) / 1000000;    // a fraction of a millisecond counts as a whole one
    return total_ns > 0;
}

LEADER_UNUSED_ static bool leader_hex64_parse_(const char *text, uint64_t *out) {
    uint64_t value = 0;
    if (strlen(text) != 16) {
        return false;
    }
    for (int i = 0; i < 16; i++) {
        int digit = leader_hex_(text[i]);
        if (digit < 0) {
            return false;
        }
        value = value << 4 | (uint64_t)digit;
    }
    *out = value;
    return true;
}

/* Days since 1970-01-01. A year that starts in March ends with its leap day. */
static int64_t leader_days_(int64_t year, int month, int day) {
    if (month <= 2) {
        month += 12;
        year--;
    }
    return year * 365 + year / 4 - year / 100 + year / 400 + (153 * (month - 3) + 2) / 5 + day - 719469;
}

static bool leader_digits_(const char *text, int count, int *out) {
    int value = 0;
    for (int i = 0; i < count; i++) {
        if (!leader_is_digit_(text[i])) {
            return false;
        }
        value = value * 10 + (text[i] - '0');
    }
    *out = value;
    return true;
}

/* "Z" or "+02:00": seconds ahead of UTC. */
static bool leader_zone_parse_(const char *text, int64_t *out_s) {
    int hours = 0;
    int minutes = 0;
    *out_s = 0;
    if (strcmp(text, "Z") == 0) {
        return true;
    }
    bool shaped = strlen(text) == 6 && (text[0] == '+' || text[0] == '-') && text[3] == ':';
    if (!shaped || !leader_digits_(text + 1, 2, &hours) || !leader_digits_(text + 4, 2, &minutes)) {
        return false;
    }
    *out_s = (hours * 60 + minutes) * 60;
    if (text[0] == '-') {
        *out_s = -*out_s;
    }
    return hours < 24 && minutes < 60;
}

/* RFC 3339: "2026-11-16T01:28:19.182774Z", any number of fraction digits, any offset. */
LEADER_UNUSED_ static bool leader_time_parse_(const char *text, int64_t *out_us) {
    static const struct { int at, count, min, max; } parts[6] = {
        {0, 4, 1970, 9999}, {5, 2, 1, 12}, {8, 2, 1, 31}, {11, 2, 0, 23}, {14, 2, 0, 59}, {17, 2, 0, 60}};
    int value[6];
    bool shaped = strlen(text) >= 20 && text[4] == '-' && text[7] == '-' && text[10] == 'T';
    if (!shaped || text[13] != ':' || text[16] != ':') {
        return false;
    }
    for (int i = 0; i < 6; i++) {
        if (!leader_digits_(text + parts[i].at, parts[i].count, &value[i])) {
            return false;
        }
        if (value[i] < parts[i].min || value[i] > parts[i].max) {
            return false;
        }
    }
    int64_t fraction_us = 0;
    int64_t unit_us = 100000;
    text += 19;
    if (*text == '.') {
        for (text++; leader_is_digit_(*text); text++) {
            fraction_us += (*text - '0') * unit_us;
            unit_us /= 10;
        }
    }
    int64_t zone_s = 0;
    if (!leader_zone_parse_(text, &zone_s)) {
        return false;
    }
    int64_t days = leader_days_(value[0], value[1], value[2]);
    int64_t seconds = ((days * 24 + value[3]) * 60 + value[4]) * 60 + value[5] - zone_s;
    *out_us = seconds * 1000000 + fraction_us;
    return true;
}

static uint64_t leader_hash_(const char *text, size_t len) {        // FNV-1a
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

typedef enum leader_kind_ {
    LEADER_TEXT_,
    LEADER_TIME_,
    LEADER_DURATION_,
    LEADER_NUMBER_,
    LEADER_HEX_
} leader_kind_;
typedef struct leader_field_ {
    const char  *name;
    leader_kind_ kind;
    bool         required;
    size_t       at;
    const char  *want;
} leader_field_;

/* A record of another program needs the first three, and then keeps us out for as long as it says. */
static const leader_field_ leader_entry_fields_[] = {
    {"holder", LEADER_TEXT_, true, offsetof(leader_entry, holder), "a string of at most 255 bytes"},
    {"renewTime", LEADER_TIME_, true, offsetof(leader_entry, renewed_us),
     "a time such as \"2026-11-16T01:28:19Z\""},
    {"leaseDuration", LEADER_DURATION_, true, offsetof(leader_entry, lease_ms), "a duration such as \"15s\""},
    {"acquireTime", LEADER_TIME_, false, offsetof(leader_entry, acquired_us),
     "a time such as \"2026-11-16T01:28:19Z\""},
    {"token", LEADER_NUMBER_, false, offsetof(leader_entry, token), "a whole number below 2^53"},
    {"nonce", LEADER_HEX_, false, offsetof(leader_entry, nonce), "16 hexadecimal digits"},
    {"seq", LEADER_NUMBER_, false, offsetof(leader_entry, seq), "a whole number below 2^53"},
    {"origin", LEADER_HEX_, false, offsetof(leader_entry, origin), "16 hexadecimal digits"},
    {"renewal", LEADER_NUMBER_, false, offsetof(leader_entry, renewal), "a whole number below 2^53"},
    {"holdOffMs", LEADER_NUMBER_, false, offsetof(leader_entry, hold_off_ms), "a whole number below 2^53"},
    {"value", LEADER_TEXT_, false, offsetof(leader_entry, value), "a string of at most 255 bytes"},
    {"heir", LEADER_TEXT_, false, offsetof(leader_entry, heir), "a string of at most 255 bytes"}};

static bool leader_field_read_(const leader_field_ *field, leader_json_ json, leader_entry *out) {
    char text[LEADER_IDENTITY_MAX + 1];
    int64_t number = 0;
    uint64_t unsigned_number = 0;
    char *to = (char *)out + field->at;
    if (field->kind == LEADER_NUMBER_) {
        bool good = leader_json_u64_(json, &unsigned_number) && unsigned_number <= LEADER_TOKEN_MAX_;
        memcpy(to, &unsigned_number, sizeof unsigned_number);
        return good;
    }
    if (!leader_json_string_(json, text, sizeof text)) {
        return false;
    }
    switch (field->kind) {
    case LEADER_TEXT_:
        memcpy(to, text, strlen(text) + 1);
        return true;
    case LEADER_HEX_:
        if (!leader_hex64_parse_(text, &unsigned_number)) {
            return false;
        }
        memcpy(to, &unsigned_number, sizeof unsigned_number);
        return true;
    case LEADER_TIME_:
        if (!leader_time_parse_(text, &number)) {
            return false;
        }
        break;
    default:
        if (!leader_duration_parse_(text, &number)) {
            return false;
        }
        break;
    }
    memcpy(to, &number, sizeof number);
    return true;
}

/* Reads a record; *root is the whole object, for members that only one store knows. False: `why`
   says what is wrong with the text. Members that others added are ignored. */
LEADER_UNUSED_ static bool leader_entry_parse_(const char *text, size_t len, leader_entry *out,
                                               leader_json_ *root, char *why, size_t cap) {
    size_t bad_at = 0;
    memset(out, 0, sizeof *out);
    if (!leader_json_parse_(text, len, root, &bad_at)) {
        snprintf(why, cap, "not JSON at byte %lu", (unsigned long)bad_at);
        return false;
    }
    if (root->at[0] != '{') {
        snprintf(why, cap, "not a JSON object");
        return false;
    }
    for (size_t i = 0; i < sizeof leader_entry_fields_ / sizeof leader_entry_fields_[0]; i++) {
        const leader_field_ *field = &leader_entry_fields_[i];
        leader_json_ json = {NULL, 0};
        if (!leader_json_member_(*root, field->name, &json)) {
            if (field->required || json.at) {       // an optional one that is there twice is wrong too
                snprintf(why, cap, "%s is missing, or there twice", field->name);
                return false;
            }
            continue;
        }
        if (!leader_field_read_(field, json, out)) {
            snprintf(why, cap, "%s is not %s", field->name, field->want);
            return false;
        }
    }
    if (out->nonce == 0) {          // another program: its renewals show in its time stamp only
        out->renewal = leader_hash_(text, len) >> 12;
    }
    if (out->hold_off_ms > LEADER_TIME_MAX_MS_) {
        snprintf(why, cap, "holdOffMs is more than ten years");
        return false;
    }
    return true;
}

/* Writes a record; `more` is the text of further members, beginning with a comma, or "". Answers the
   length needed, as snprintf does. */
LEADER_UNUSED_ static size_t leader_entry_text_(const leader_entry *entry, const char *more, char *buf,
                                                size_t cap) {
    enum { QUOTED = 6 * LEADER_IDENTITY_MAX + 3 };
    char holder[QUOTED];
    char value[QUOTED];
    char heir[QUOTED];
    char renewed[28];
    char acquired[28];
    bool whole_seconds = entry->lease_ms % 1000 == 0;
    leader_json_quote(holder, sizeof holder, entry->holder);
    leader_json_quote(value, sizeof value, entry->value);
    leader_json_quote(heir, sizeof heir, entry->heir);
    leader_time_text_(renewed, entry->renewed_us);
    leader_time_text_(acquired, entry->acquired_us);
    int length = snprintf(buf, cap,
        "{\n  \"holder\": %s,\n  \"renewTime\": \"%s\",\n  \"leaseDuration\": \"%lld%s\",\n"
        "  \"acquireTime\": \"%s\",\n  \"token\": %llu,\n  \"value\": %s,\n  \"heir\": %s,\n"
        "  \"nonce\": \"%016llx\",\n  \"seq\": %llu,\n  \"origin\": \"%016llx\",\n  \"renewal\": %llu,\n"
        "  \"holdOffMs\": %lld%s\n}\n",
        holder, renewed, (long long)(whole_seconds ? entry->lease_ms / 1000 : entry->lease_ms),
        whole_seconds ? "s" : "ms", acquired, (unsigned long long)entry->token, value, heir,
        (unsigned long long)entry->nonce, (unsigned long long)entry->seq, (unsigned long long)entry->origin,
        (unsigned long long)entry->renewal, (long long)entry->hold_off_ms, more);
    return (size_t)length;
}

/* ---- published state: what other threads see ------------------------------------------------------------

   Two copies take turns: the loop fills the one that is not shown and then turns `version`. A reader never
   waits for a writer that was stopped half-way; it looks again only if the writer turned the version under
   it. Every word is stored with release and loaded with acquire order, so a reader that sees a word of a
   later writing also sees the version that came before it. */

static void leader_read_shown_(const leader_t *l, uint64_t *words, int count) {
    uint64_t version;
    do {
        version = LEADER_LOAD_(&l->version);
        for (int i = 0; i < count; i++) {
            words[i] = LEADER_LOAD_(&l->shown[version & 1][i]);
        }
    } while (LEADER_LOAD_(&l->version) != version);
}

static leader_shown_ leader_shown_now_(const leader_t *l) {
    uint64_t words[LEADER_SHOWN_WORDS_];
    leader_shown_ shown;
    leader_read_shown_(l, words, LEADER_SHOWN_WORDS_);
    memcpy(&shown, words, sizeof shown);
    return shown;
}

/* Most questions need no text. */
static leader_numbers_ leader_numbers_now_(const leader_t *l) {
    uint64_t words[LEADER_NUMBERS_WORDS_];
    leader_numbers_ numbers;
    leader_read_shown_(l, words, LEADER_NUMBERS_WORDS_);
    memcpy(&numbers, words, sizeof numbers);
    return numbers;
}

static void leader_show_(leader_t *l, const leader_shown_ *shown) {
    uint64_t words[LEADER_SHOWN_WORDS_];
    uint64_t *to = l->shown[(l->version + 1) & 1];
    memcpy(words, shown, sizeof words);
    for (int i = 0; i < LEADER_SHOWN_WORDS_; i++) {
        LEADER_STORE_(&to[i], words[i]);
    }
    LEADER_STORE_(&l->version, l->version + 1);
}

#define LEADER_COUNT_(l, field)   LEADER_STORE_(&(l)->counts.field, (l)->counts.field + 1)
#define LEADER_KEEP_(l, field, v) LEADER_STORE_(&(l)->counts.field, (v))

static int64_t leader_now_(const leader_t *l) {
    return l->cfg.clock_ms ? l->cfg.clock_ms(l->cfg.clock_user) : leader_clock_ms_();
}

static bool leader_is_open_here_(const leader_t *l) {
    return LEADER_LOAD_(&l->life) == LEADER_LOAD_(&leader_life_);
}

/* The deadline first, then the clock: a stall in between can only turn the answer to false. */
LEADER_API bool leader_is_leader(const leader_t *l) {
    int64_t until_ms = LEADER_LOAD_(&l->until_ms);
    return leader_is_open_here_(l) && leader_now_(l) < until_ms;
}

/* A term that expired without a tick is over: nobody leads. */
static leader_state leader_state_at_(const leader_numbers_ *numbers, int64_t now_ms) {
    bool expired = numbers->state == LEADER_STATE_LEADER && now_ms >= numbers->until_ms;
    return expired ? LEADER_STATE_DRAINING : (leader_state)numbers->state;
}

static int64_t leader_remaining_at_(const leader_numbers_ *numbers, int64_t now_ms) {
    return now_ms < numbers->lease_until_ms ? numbers->lease_until_ms - now_ms : 0;
}

LEADER_API leader_view leader_get_view(const leader_t *l) {
    leader_view view;
    memset(&view, 0, sizeof view);
    view.age_ms = -1;
    view.since_ms = -1;
    if (!leader_is_open_here_(l)) {
        return view;
    }
    leader_shown_ shown = leader_shown_now_(l);
    const leader_numbers_ *numbers = &shown.numbers;
    int64_t now_ms = leader_now_(l);
    view.leading = now_ms < numbers->until_ms;
    view.state = leader_state_at_(numbers, now_ms);
    view.remaining_ms = leader_remaining_at_(numbers, now_ms);
    if (numbers->confirmed_ms != LEADER_NEVER_) {
        view.age_ms = now_ms - numbers->confirmed_ms;
    }
    if (view.state != (leader_state)numbers->state) {
        return view;
    }
    view.token = numbers->seen_token;
    view.acquired_us = numbers->acquired_us;
    view.renewed_us = numbers->renewed_us;
    if (shown.leader[0]) {
        view.since_ms = now_ms - numbers->since_ms;
    }
    memcpy(view.leader, shown.leader, sizeof view.leader);
    memcpy(view.value, shown.value, sizeof view.value);
    return view;
}

LEADER_API uint64_t leader_token(const leader_t *l) {
    if (!leader_is_open_here_(l)) {
        return 0;
    }
    leader_numbers_ numbers = leader_numbers_now_(l);
    return leader_now_(l) < numbers.until_ms ? numbers.token : 0;
}

LEADER_API int64_t leader_remaining_ms(const leader_t *l) {
    if (!leader_is_open_here_(l)) {
        return 0;
    }
    leader_numbers_ numbers = leader_numbers_now_(l);
    return leader_remaining_at_(&numbers, leader_now_(l));
}

LEADER_API leader_state leader_get_state(const leader_t *l) {
    if (!leader_is_open_here_(l)) {
        return LEADER_STATE_NONE;
    }
    leader_numbers_ numbers = leader_numbers_now_(l);
    return leader_state_at_(&numbers, leader_now_(l));
}

LEADER_API int leader_get_leader(const leader_t *l, char *buf, size_t cap) {
    leader_view view = leader_get_view(l);
    return snprintf(buf, cap, "%s", view.leader);
}

LEADER_API int leader_get_value(const leader_t *l, char *buf, size_t cap) {
    leader_view view = leader_get_view(l);
    return snprintf(buf, cap, "%s", view.value);
}

LEADER_API bool leader_is_stopped(const leader_t *l) {
    leader_state state = leader_get_state(l);
    return state == LEADER_STATE_STOPPED || state == LEADER_STATE_NONE;
}

LEADER_API int leader_due_ms(const leader_t *l) {
    if (!leader_is_open_here_(l) || LEADER_LOAD_(&l->wake)) {
        return 0;
    }
    int64_t wait_ms = LEADER_LOAD_(&l->due_ms) - leader_now_(l);
    return (int)leader_max_(0, leader_min_(wait_ms, LEADER_WAIT_MAX_MS));
}

LEADER_API bool leader_is_healthy(const leader_t *l, int64_t tolerance_ms) {
    if (!leader_is_open_here_(l)) {
        return false;
    }
    leader_numbers_ numbers = leader_numbers_now_(l);
    int64_t due_ms = LEADER_LOAD_(&l->due_ms);
    int64_t now_ms = leader_now_(l);
    if (numbers.state == LEADER_STATE_STOPPED) {
        return true;
    }
    if (now_ms - due_ms > tolerance_ms) {
        return false;
    }
    if (numbers.state != LEADER_STATE_LEADER) {
        return true;
    }
    int64_t renewed_ms = numbers.until_ms - l->cfg.renew_deadline_ms;
    return now_ms - renewed_ms - l->cfg.renew_ms <= tolerance_ms;
}

LEADER_API bool leader_is_in_touch(const leader_t *l, int64_t silence_ms) {
    leader_stats stats = leader_get_stats(l);
    return stats.since_success_ms >= 0 && stats.since_success_ms <= silence_ms;
}

LEADER_API leader_stats leader_get_stats(const leader_t *l) {
    enum { WORDS = sizeof(leader_counts_) / sizeof(uint64_t) };
    leader_stats stats;
    memset(&stats, 0, sizeof stats);
    LEADER_ASSERT(sizeof(leader_counts_) == offsetof(leader_stats, last_error));
    stats.latency_ms_last = -1;
    stats.latency_ms_max = -1;
    stats.margin_ms_min = -1;
    stats.tick_late_ms_max = -1;
    stats.since_success_ms = -1;
    if (!leader_is_open_here_(l)) {
        return stats;
    }
    const uint64_t *from = (const uint64_t *)(const void *)&l->counts;
    uint64_t words[WORDS];
    for (int i = 0; i < WORDS; i++) {
        words[i] = LEADER_LOAD_(&from[i]);
    }
    memcpy(&stats, words, sizeof words);
    int64_t success_ms = stats.since_success_ms;
    stats.since_success_ms = success_ms == LEADER_NEVER_ ? -1 : leader_now_(l) - success_ms;
    leader_shown_ shown = leader_shown_now_(l);
    stats.last_error = (leader_result)shown.numbers.error_code;
    memcpy(stats.last_error_text, shown.error, sizeof stats.last_error_text);
    return stats;
}

LEADER_API const char *leader_name(const leader_t *l) {
    if (!leader_is_open_here_(l) || !l->cfg.backend.name) {
        return "";
    }
    return l->cfg.backend.name;
}

LEADER_API const char *leader_strerror(leader_result result) {
#define LEADER_RESULT_TEXT_(name, number, text) {name, text},
    static const struct {
        leader_result code;
        const char *text;
    } texts[] = {LEADER_RESULTS(LEADER_RESULT_TEXT_)};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].code == result) {
            return texts[i].text;
        }
    }
    return "unknown result";
}

LEADER_API const char *leader_state_name(leader_state state) {
#define LEADER_STATE_TEXT_(name, text) text,
    static const char *const texts[] = {LEADER_STATES(LEADER_STATE_TEXT_)};
    bool known = (unsigned)state < sizeof texts / sizeof texts[0];
    return known ? texts[state] : "unknown state";
}

/* From any thread and from signal handlers: the next tick obeys. */
LEADER_API void leader_stop(leader_t *l) {
    if (!leader_is_open_here_(l)) {
        return;
    }
    LEADER_STORE_(&l->stop_asked, 1);
    LEADER_STORE_(&l->wake, 1);
}

LEADER_API void leader_resign(leader_t *l, int64_t pause_ms) {
    if (!leader_is_open_here_(l)) {
        return;
    }
    if (pause_ms <= 0) {
        pause_ms = l->cfg.lease_ms;
    }
    LEADER_STORE_(&l->resign_asked, leader_min_(pause_ms, LEADER_TIME_MAX_MS_) + 1);
    LEADER_STORE_(&l->wake, 1);
}

/* ---- logging ------------------------------------------------------------------------------------------ */

#if !defined(LEADER_NO_STDERR)
static const char *leader_level_name_(leader_level level) {
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    return names[level];
}

/* The same line at most once per retry_max_ms, then with how often it was left out. False: not now. */
static bool leader_may_repeat_(leader_t *l, const char *text, uint64_t *unsaid) {
    uint64_t hash = leader_hash_(text, strlen(text));
    int64_t now_ms = leader_now_(l);
    leader_repeat_ *slot = &l->repeats[0];
    for (int i = 0; i < LEADER_REPEATS_; i++) {
        if (l->repeats[i].hash == hash) {
            slot = &l->repeats[i];
            break;
        }
        if (l->repeats[i].said_ms < slot->said_ms) {
            slot = &l->repeats[i];
        }
    }
    bool known = slot->hash == hash;
    if (known && now_ms - slot->said_ms < l->cfg.retry_max_ms) {
        slot->unsaid++;
        return false;
    }
    *unsaid = known ? slot->unsaid : 0;
    slot->hash = hash;
    slot->said_ms = now_ms;
    slot->unsaid = 0;
    return true;
}

static void leader_log_to_stderr_(leader_t *l, leader_level level, const char *text) {
    uint64_t unsaid = 0;
    if (level > LEADER_LOG_WARN || !leader_may_repeat_(l, text, &unsaid)) {
        return;
    }
    const char *name = leader_name(l);
    fprintf(stderr, "leader.h: %s%s%s: %s", name, name[0] ? " " : "", leader_level_name_(level), text);
    if (unsaid > 0) {
        fprintf(stderr, " (repeated %llu times)", (unsigned long long)unsaid);
    }
    fputc('\n', stderr);
}
#else
static void leader_log_to_stderr_(leader_t *l, leader_level level, const char *text) {
    (void)l;
    (void)level;
    (void)text;
}
#endif

static void leader_log_(leader_t *l, leader_level level, const char *format, ...) LEADER_PRINTF_(3, 4);
static void leader_log_(leader_t *l, leader_level level, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!l->cfg.on_log) {
        leader_log_to_stderr_(l, level, text);
        return;
    }
    const char *name = leader_name(l);
    char line[sizeof text + LEADER_PATH_MAX + 4];
    snprintf(line, sizeof line, "%s%s%s", name, name[0] ? ": " : "", text);
    l->cfg.on_log(l->cfg.user, level, line);
}

/* What leader_error() and the statistics tell. */
static void leader_set_error_(leader_t *l, leader_result code, const char *text) {
    leader_shown_ shown = leader_shown_now_(l);
    shown.numbers.error_code = code;
    leader_copy_text_(shown.error, sizeof shown.error, text);
    leader_show_(l, &shown);
    l->error_is_current = true;
}

/* The loop's thread may read it in place. */
static const char *leader_error_in_place_(const leader_t *l) {
    return (const char *)l->shown[l->version & 1] + offsetof(leader_shown_, error);
}

LEADER_API const char *leader_error(const leader_t *l) {
    if (l->init_error) {
        return l->init_error;
    }
    uint32_t life = LEADER_LOAD_(&l->life);
    if (life != 0 && life != LEADER_LOAD_(&leader_life_)) {
        return "this is a child of the process that called leader_init: it never leads with the parent's "
               "election";
    }
    return life != 0 && l->error_is_current ? leader_error_in_place_(l) : "";
}

enum { LEADER_OP_NONE_, LEADER_OP_ACQUIRE_, LEADER_OP_RENEW_, LEADER_OP_RELEASE_, LEADER_OP_OBSERVE_ };

static const char *leader_op_name_(int op) {
    static const char *const names[] = {"nothing", "acquire", "renew", "release", "observe"};
    return names[op];
}

static void leader_count_failure_(leader_t *l, leader_result code) {
    LEADER_COUNT_(l, failures);
    if (code == LEADER_E_STORE) {
        code = LEADER_E_IO;
    }
    if (code <= LEADER_E_IO && code >= LEADER_E_DUPLICATE) {
        LEADER_COUNT_(l, failures_by[LEADER_E_IO - code]);
    }
}

/* A request failed. What the backend said while it ran tells more than the code's own text. */
static void leader_fail_(leader_t *l, int op, leader_result code, const char *text) {
    leader_count_failure_(l, code);
    char line[sizeof((leader_stats *)0)->last_error_text];
    if (!text && l->request.said_error) {
        leader_copy_text_(line, sizeof line, leader_error_in_place_(l));
        leader_set_error_(l, code, line);
        return;
    }
    snprintf(line, sizeof line, "%s: %s", leader_op_name_(op), text ? text : leader_strerror(code));
    leader_set_error_(l, code, line);
    leader_log_(l, LEADER_LOG_WARN, "%s", line);
}

/* Shows the state, what follows from it, and who leads (NULL: as before) in one piece. Nobody reads true
   before the rest is shown, nor after it is taken back. True: another one leads than before. */
static bool leader_change_(leader_t *l, leader_state state, const leader_record *who) {
    bool leading = state == LEADER_STATE_LEADER;
    bool keeps_lease = leading || state == LEADER_STATE_DRAINING;
    if (!leading) {
        LEADER_STORE_(&l->until_ms, LEADER_NEVER_);
    }
    leader_shown_ shown = leader_shown_now_(l);
    leader_numbers_ *numbers = &shown.numbers;
    bool other = who && strcmp(shown.leader, who->holder) != 0;
    l->state = state;
    numbers->state = state;
    numbers->token = leading ? l->lease.token : 0;
    numbers->until_ms = leading ? l->lease.until_ms : LEADER_NEVER_;
    numbers->lease_until_ms = keeps_lease ? l->lease.until_ms : LEADER_NEVER_;
    numbers->confirmed_ms = l->lease.confirmed_ms;
    if (who) {
        if (other || numbers->seen_token != who->token) {
            numbers->since_ms = l->now_ms;
        }
        numbers->seen_token = who->token;
        numbers->acquired_us = who->acquired_us;
        numbers->renewed_us = who->renewed_us;
        memcpy(shown.leader, who->holder, sizeof shown.leader);
        memcpy(shown.value, who->value, sizeof shown.value);
    }
    leader_show_(l, &shown);
    if (leading) {
        LEADER_STORE_(&l->until_ms, l->lease.until_ms);
    }
    return other;
}

static const leader_record leader_nobody_ = {0, 0, 0, 0, 0, 0, "", ""};

static void leader_announce_(leader_t *l, const char *identity) {
    if (identity[0]) {
        LEADER_COUNT_(l, transitions);
    }
    if (l->cfg.on_new_leader) {
        l->cfg.on_new_leader(l->cfg.user, identity);
    }
}

static void leader_note_leader_(leader_t *l, const leader_record *who) {
    if (leader_change_(l, l->state, who)) {
        leader_announce_(l, who->holder);
    }
}

/* ---- host: the core as backends see it ----------------------------------------------------------- */

static int leader_find_fd_(const leader_t *l, intptr_t fd) {
    int i = 0;
    while (i < l->fds.count && l->fds.list[i].fd != fd) {
        i++;
    }
    return i;
}

static void leader_host_fd_(void *core, intptr_t fd, int events) {
    leader_t *l = (leader_t *)core;
    int i = leader_find_fd_(l, fd);
    bool known = i < l->fds.count;
    if (events == 0) {
        if (!known) {
            return;
        }
        l->fds.count--;
        l->fds.list[i] = l->fds.list[l->fds.count];
    } else {
        LEADER_ASSERT(i < LEADER_FDS_MAX);
        if (i == LEADER_FDS_MAX || (known && l->fds.list[i].events == events)) {
            return;
        }
        if (!known) {
            l->fds.count++;
        }
        l->fds.list[i].fd = fd;
        l->fds.list[i].events = events;
    }
    if (l->cfg.on_fd) {
        l->cfg.on_fd(l->cfg.loop_user, fd, events);
    }
}

static void leader_host_due_(void *core) {
    leader_t *l = (leader_t *)core;
    LEADER_STORE_(&l->wake, 1);
    if (!LEADER_LOAD_(&l->ticking) && l->cfg.on_due) {
        l->cfg.on_due(l->cfg.loop_user);
    }
}

static void leader_host_error_(void *core, const char *text) {
    leader_t *l = (leader_t *)core;
    leader_set_error_(l, LEADER_E_IO, text);
    l->request.said_error = true;
}

static void leader_host_log_(void *core, leader_level level, const char *text) {
    if (level == LEADER_LOG_ERROR) {
        leader_host_error_(core, text);
    }
    leader_log_((leader_t *)core, level, "%s", text);
}

static int64_t leader_host_now_(void *core) {
    return leader_now_((const leader_t *)core);
}

/* ---- requests ------------------------------------------------------------------------------------ */

static uint64_t leader_random_below_(leader_t *l, uint64_t bound) {
    uint64_t x = l->plan.random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    l->plan.random = x;
    return bound == 0 ? 0 : leader_mix_(x) % bound;
}

static void leader_cancel_(leader_t *l) {
    int op = l->request.op;
    if (op == LEADER_OP_NONE_) {
        return;
    }
    if (op == LEADER_OP_ACQUIRE_ && l->lease.claim == LEADER_CLAIM_NONE_) {
        l->lease.claim = LEADER_CLAIM_MAYBE_;
    }
    l->request.op = LEADER_OP_NONE_;
    if (l->cfg.backend.cancel) {
        l->cfg.backend.cancel(l->cfg.backend.self);
    }
}

#define LEADER_LIFE_DISOWNED_ UINT32_MAX

/* In a child that ran no fork handler nothing here is its own: no backend function may be called. True: so it
   is, and from now on the election is closed in this process. */
static bool leader_disown_in_child_(leader_t *l) {
    if (leader_pid_() == l->pid) {
        return false;
    }
    LEADER_STORE_(&l->until_ms, LEADER_NEVER_);
    LEADER_STORE_(&l->life, LEADER_LIFE_DISOWNED_);
    return true;
}

/* What was asked into a silence is still waited for when the store is back. So, without a lease to lose, a
   request after a time-out waits no longer than users should, or twice as long as the store ever took; one
   in 32 has its full time, for a store that has become slower than that. */
static int64_t leader_timeout_(leader_t *l) {
    enum { PATIENT_ONE_IN = 32 };
    bool has_lease = l->state != LEADER_STATE_FOLLOWER && l->state != LEADER_STATE_RELEASING;
    bool silent = l->plan.silence && l->lease.store_answered;
    if (has_lease || !silent || leader_random_below_(l, PATIENT_ONE_IN) == 0) {
        return l->cfg.request_timeout_ms;
    }
    int64_t hasty_ms = leader_max_(l->cfg.retry_ms * 5 / 8, 2 * l->plan.slowest_ms);
    return leader_min_(l->cfg.request_timeout_ms, hasty_ms);
}

/* Reads the clock, then sends: a validity that starts here can only be shorter than what the store grants. */
static void leader_start_request_(leader_t *l, int op) {
    LEADER_ASSERT(l->request.op == LEADER_OP_NONE_);
    l->request.op = op;
    l->request.seq += 1;
    l->request.sent_ms = leader_now_(l);
    l->request.again_at_ms = LEADER_NEVER_;
    l->request.timeout_ms = leader_timeout_(l);
    l->plan.noticed = false;
    if (l->state == LEADER_STATE_LEADER) {
        int64_t left_ms = l->lease.until_ms - l->request.sent_ms;
        l->request.timeout_ms = leader_min_(l->request.timeout_ms, left_ms);
    }
    l->request.timeout_ms = leader_max_(l->request.timeout_ms, 1);
    if (op == LEADER_OP_ACQUIRE_) {
        LEADER_COUNT_(l, acquires);
    }
}

static leader_result leader_ask_backend_(leader_t *l, leader_record *seen) {
    const leader_backend *b = &l->cfg.backend;
    leader_request request;
    memset(&request, 0, sizeof request);
    memset(seen, 0, sizeof *seen);
    request.seq = l->request.seq;
    request.identity = l->identity;
    request.nonce = l->nonce;
    request.min_token = l->lease.highest_token + 1;
    request.lease_ms = l->cfg.lease_ms;
    request.timeout_ms = l->request.timeout_ms;
    request.now_ms = l->request.sent_ms;
    request.reclaim = l->cfg.reclaim_identity && !l->lease.store_answered;
    request.value = l->value;
    request.heir = l->leave.heir;
    l->request.said_error = false;
    switch (l->request.op) {
    case LEADER_OP_ACQUIRE_:
        return b->acquire(b->self, &request, seen);
    case LEADER_OP_RENEW_:
        return b->renew(b->self, &request, seen);
    case LEADER_OP_RELEASE_:
        return b->release(b->self, &request, seen);
    default:
        return b->observe(b->self, &request, seen);
    }
}

static bool leader_fits_(int op, leader_result result) {
    bool asks = op == LEADER_OP_ACQUIRE_ || op == LEADER_OP_OBSERVE_;
    switch (result) {
    case LEADER_HELD:
        return asks;
    case LEADER_LOST:
        return !asks;
    case LEADER_UNHEALTHY:
        return false;
    default:
        return result <= LEADER_PENDING && result >= LEADER_E_LAST_;
    }
}

/* An answer that cannot be meant is an error, never a success. */
static leader_result leader_check_answer_(leader_t *l, leader_result result, leader_record *seen) {
    seen->holder[LEADER_IDENTITY_MAX] = 0;
    seen->value[LEADER_VALUE_MAX] = 0;
    if (!leader_fits_(l->request.op, result)) {
        leader_host_log_(l, LEADER_LOG_ERROR,
                         "the backend gave an answer that does not belong to the request");
        memset(seen, 0, sizeof *seen);
        return LEADER_E_STATE;
    }
    if (seen->token > INT64_MAX) {
        leader_host_log_(l, LEADER_LOG_ERROR,
                         "the store's token is larger than 2^63: repair the record by hand");
        memset(seen, 0, sizeof *seen);
        return LEADER_E_CORRUPT;
    }
    return result;
}

/* 0, 1, 2, ... -> renew_retry_ms times 1, 2, 4, 4, ... */
static int64_t leader_retry_delay_(const leader_config *cfg, int retry) {
    int doublings = retry < 2 ? retry : 2;
    return cfg->renew_retry_ms << doublings;
}

/* Within a pause nothing is planned for later than its end. */
static void leader_plan_(leader_t *l, int64_t wait_ms) {
    l->plan.next_ms = l->now_ms + wait_ms;
    if (l->now_ms < l->leave.pause_until_ms) {
        l->plan.next_ms = leader_min_(l->plan.next_ms, l->leave.pause_until_ms);
    }
}

/* Another one leads: try again when its lease can have run out, if the store could tell, but within retry_ms.
   Not a moment later: of those who come together, the store lets one win. */
static int64_t leader_wait_for_expiry_(const leader_t *l, leader_result result, const leader_record *seen) {
    const leader_config *cfg = &l->cfg;
    if (result != LEADER_HELD || seen->expires_in_ms < 0) {
        return cfg->retry_ms;
    }
    return leader_min_(cfg->retry_ms, seen->expires_in_ms);
}

/* An unreachable store is tried about every retry_ms, however long it has been away: one connection attempt
   costs little, and users wait for a store that is back. A time-out has waited already. */
static int64_t leader_wait_for_return_(leader_t *l, leader_result result) {
    int64_t retry_ms = l->cfg.retry_ms;
    uint64_t spread = (uint64_t)(retry_ms / 2 + 1);
    if (result == LEADER_E_TIMEOUT) {
        return 1 + (int64_t)leader_random_below_(l, spread / 2 + 1);
    }
    return retry_ms / 4 + (int64_t)leader_random_below_(l, spread);
}

/* Time alone does not heal these. (Rights may come back by themselves, when a server has just started.) */
static bool leader_is_lasting_(leader_result result) {
    switch (result) {
    case LEADER_E_IO:
    case LEADER_E_TIMEOUT:
    case LEADER_E_AUTH:
    case LEADER_E_STORE:
        return false;
    default:
        return true;
    }
}

/* A store that answers with errors is spared: later and later, up to retry_max_ms. */
static int64_t leader_wait_after_error_(leader_t *l, leader_result result, const leader_record *seen) {
    const leader_config *cfg = &l->cfg;
    int64_t wait_ms = cfg->retry_ms;
    int doublings = l->plan.errors;
    if (leader_is_lasting_(result)) {
        doublings += 2;
    }
    for (int i = 0; i < doublings && wait_ms < cfg->retry_max_ms; i++) {
        wait_ms *= 2;
    }
    if (l->plan.errors < 30) {
        l->plan.errors++;
    }
    wait_ms = leader_min_(wait_ms, cfg->retry_max_ms);
    if (seen->expires_in_ms > 0) {
        wait_ms = leader_min_(wait_ms, leader_max_(seen->expires_in_ms, cfg->retry_ms));
    }
    wait_ms += (int64_t)leader_random_below_(l, (uint64_t)(wait_ms / 4 + 1));
    return leader_min_(wait_ms, cfg->retry_max_ms);
}

static bool leader_is_unreachable_(leader_result result) {
    return result == LEADER_E_IO || result == LEADER_E_TIMEOUT;
}

static void leader_plan_attempt_(leader_t *l, leader_result result, const leader_record *seen) {
    int64_t asked_ms = leader_min_(seen->again_ms, l->cfg.retry_max_ms);
    if (result >= 0) {
        l->plan.errors = 0;
        leader_plan_(l, leader_wait_for_expiry_(l, result, seen));
        return;
    }
    if (leader_is_unreachable_(result) && !l->backs_off) {
        l->plan.errors = 0;
        leader_plan_(l, leader_max_(asked_ms, leader_wait_for_return_(l, result)));
        return;
    }
    leader_plan_(l, leader_max_(asked_ms, leader_wait_after_error_(l, result, seen)));
}

/* ---- terms --------------------------------------------------------------------------------------- */

static leader_record leader_self_(const leader_t *l) {
    leader_record self = leader_nobody_;
    memcpy(self.holder, l->identity, sizeof self.holder);
    memcpy(self.value, l->value, sizeof self.value);
    self.token = l->lease.token;
    self.renewed_us = leader_wall_us_();
    self.acquired_us = self.renewed_us;
    return self;
}

static void leader_start_term_(leader_t *l) {
    l->plan.retries = 0;
    LEADER_COUNT_(l, terms);
    leader_record self = leader_self_(l);
    bool other = leader_change_(l, LEADER_STATE_LEADER, &self);
    leader_log_(l, LEADER_LOG_INFO, "leading, token %llu", (unsigned long long)l->lease.token);
    if (l->cfg.on_started_leading) {
        l->cfg.on_started_leading(l->cfg.user, l->lease.token);
    }
    if (other) {
        leader_announce_(l, l->identity);
    }
}

static void leader_log_end_(leader_t *l, leader_result why, const char *cause) {
    if (why == LEADER_OK) {
        leader_log_(l, LEADER_LOG_INFO, "no longer leading: asked to hand over");
        return;
    }
    if (!cause) {
        cause = leader_strerror(why);
    }
    leader_log_(l, LEADER_LOG_WARN, "no longer leading: %s", cause);
    leader_set_error_(l, why, cause);
}

/* Ends the term for good: first nobody can read true any more, then the callback hears of it, and only then
   is there anything to say about the next leader. */
static void leader_end_term_(leader_t *l, leader_result why, const char *cause, const leader_record *next) {
    bool lost = why == LEADER_LOST || why == LEADER_E_DUPLICATE;
    uint64_t token = l->lease.token;
    leader_cancel_(l);
    leader_change_(l, lost ? LEADER_STATE_FOLLOWER : LEADER_STATE_DRAINING, &leader_nobody_);
    l->lease.undrained = true;
    l->lease.claim = lost ? LEADER_CLAIM_NONE_ : LEADER_CLAIM_HELD_;
    l->plan.next_ms = l->now_ms;
    l->plan.retries = 0;
    l->leave.drain_until_ms = INT64_MAX;
    if (l->cfg.drain_timeout_ms > 0) {
        l->leave.drain_until_ms = l->now_ms + l->cfg.drain_timeout_ms;
    }
    leader_log_end_(l, why, cause);
    if (l->cfg.on_stopped_leading) {
        l->cfg.on_stopped_leading(l->cfg.user, token, why);
    }
    if (lost && next->holder[0]) {
        leader_note_leader_(l, next);
    } else {
        leader_announce_(l, "");
    }
}

/* The deadline has passed. Was the store silent, or were we? */
static void leader_expire_term_(leader_t *l, bool asking) {
    char cause[96];
    int64_t slack_ms = l->cfg.renew_deadline_ms - l->cfg.renew_ms;
    int64_t held_up_ms = l->now_ms - l->tick_ms;
    if (l->late_ms > slack_ms / 2) {
        snprintf(cause, sizeof cause, "leader_tick came %lld ms late", LEADER_LL_(l->late_ms));
    } else if (held_up_ms > slack_ms / 2 && !asking) {
        snprintf(cause, sizeof cause, "leader_tick was held up for %lld ms", LEADER_LL_(held_up_ms));
    } else {
        snprintf(cause, sizeof cause, "no answer in time from the store");
    }
    leader_end_term_(l, LEADER_E_TIMEOUT, cause, &leader_nobody_);
}

/* Where an election goes when it has nothing in the store: back to the standbys, or to the end. */
static void leader_let_go_(leader_t *l) {
    l->lease.claim = LEADER_CLAIM_NONE_;
    l->plan.errors = 0;
    l->plan.free_since_ms = LEADER_NEVER_;
    memset(l->leave.heir, 0, sizeof l->leave.heir);
    leader_change_(l, l->leave.stopping ? LEADER_STATE_STOPPED : LEADER_STATE_FOLLOWER, NULL);
    if (l->leave.pause_ms > 0) {
        l->leave.pause_until_ms = l->now_ms + l->leave.pause_ms;
    }
    l->leave.pause_ms = 0;
    leader_plan_(l, l->cfg.retry_ms);
}

static void leader_start_release_(leader_t *l) {
    l->plan.retries = 0;
    l->plan.next_ms = l->now_ms;
    leader_change_(l, LEADER_STATE_RELEASING, NULL);
}

static bool leader_ask_healthy_(leader_t *l) {
    return !l->cfg.is_healthy || l->cfg.is_healthy(l->cfg.user);
}

static bool leader_ask_drained_(leader_t *l) {
    return !l->cfg.is_drained || l->cfg.is_drained(l->cfg.user);
}

static bool leader_ask_may_compete_(leader_t *l) {
    if (l->lease.undrained && leader_ask_drained_(l)) {
        l->lease.undrained = false;
    }
    if (l->cfg.observe_only || l->lease.undrained || l->now_ms < l->leave.pause_until_ms) {
        return false;
    }
    return leader_ask_healthy_(l);
}

/* ---- answers ------------------------------------------------------------------------------------- */

/* For how long the success of the present request is good. */
static int64_t leader_valid_until_(const leader_t *l) {
    int64_t grain_ms = l->cfg.clock_ms ? 0 : LEADER_CLOCK_GRAIN_MS_;
    return l->request.sent_ms + l->cfg.renew_deadline_ms - grain_ms;
}

static void leader_confirm_(leader_t *l) {
    l->lease.confirmed_ms = l->now_ms;
    LEADER_KEEP_(l, success_ms, l->now_ms);
    l->error_is_current = false;
}

/* The store had forgotten a holder, or we cannot know: lead only after a full lease. */
static void leader_note_hold_off_(leader_t *l, const leader_record *seen) {
    int64_t hold_off_ms = leader_min_(seen->hold_off_ms, LEADER_TIME_MAX_MS_);
    if (l->cfg.cautious_start && !l->lease.store_answered) {
        hold_off_ms = leader_max_(hold_off_ms, l->cfg.lease_ms);
    }
    if (hold_off_ms > 0) {
        l->lease.hold_until_ms = leader_max_(l->lease.hold_until_ms, l->now_ms + hold_off_ms);
    }
}

static void leader_acquire_useless_(leader_t *l, leader_result code, const char *text,
                                    const leader_record *seen) {
    leader_fail_(l, LEADER_OP_ACQUIRE_, code, text);
    leader_plan_attempt_(l, code, seen);
}

static void leader_acquired_(leader_t *l, const leader_record *seen) {
    leader_note_hold_off_(l, seen);
    l->lease.store_answered = true;
    l->lease.claim = LEADER_CLAIM_MAYBE_;
    if (seen->token <= l->lease.highest_token) {
        char text[120];
        snprintf(text, sizeof text, "the store gave token %llu, but %llu was seen before",
                 (unsigned long long)seen->token, (unsigned long long)l->lease.highest_token);
        leader_acquire_useless_(l, LEADER_E_CORRUPT, text, seen);
        return;
    }
    l->lease.token = seen->token;
    l->lease.highest_token = seen->token;
    l->lease.until_ms = leader_valid_until_(l);
    if (l->now_ms >= l->lease.until_ms) {       // the next attempt adopts the record
        leader_acquire_useless_(l, LEADER_E_TIMEOUT, "the answer came after the renew deadline", seen);
        return;
    }
    leader_confirm_(l);
    l->lease.claim = LEADER_CLAIM_HELD_;
    l->plan.errors = 0;
    l->plan.retries = 0;
    l->plan.next_ms = l->request.sent_ms + l->cfg.renew_ms;
    if (l->now_ms > l->lease.hold_until_ms) {
        leader_start_term_(l);
        return;
    }
    leader_change_(l, LEADER_STATE_HOLDING_OFF, NULL);
    leader_log_(l, LEADER_LOG_WARN, "the store had forgotten its holder: leading only after %lld ms",
                LEADER_LL_(l->lease.hold_until_ms - l->now_ms));
}

/* An answer to acquire or observe: another one has it, nobody has it, or the store failed. */
static void leader_looked_(leader_t *l, int op, leader_result result, const leader_record *seen) {
    bool acquiring = op == LEADER_OP_ACQUIRE_;
    bool tells = result >= 0 || result == LEADER_E_DUPLICATE;
    if (tells) {
        l->lease.confirmed_ms = l->now_ms;
        leader_change_(l, l->state, NULL);
    }
    if (acquiring && tells) {
        l->lease.claim = LEADER_CLAIM_NONE_;
    }
    if (acquiring ? tells : result == LEADER_HELD) {    // who watched a holder has seen the store's record
        l->lease.store_answered = true;
    }
    if (acquiring && !tells && result != LEADER_E_AUTH) {
        l->lease.claim = LEADER_CLAIM_MAYBE_;
    }
    if (result >= 0) {
        leader_confirm_(l);
    } else {
        leader_fail_(l, op, result, NULL);
    }
    leader_plan_attempt_(l, result, seen);
}

/* Who leads, by such an answer. Our own name in the record is not news: this process does not lead. */
static void leader_note_seen_(leader_t *l, leader_result result, const leader_record *seen) {
    bool ours =
        strcmp(seen->holder, l->identity) == 0 && result != LEADER_E_DUPLICATE && !l->cfg.observe_only;
    if (result == LEADER_OK) {
        leader_note_leader_(l, &leader_nobody_);
    } else if (seen->holder[0]) {
        leader_note_leader_(l, ours ? &leader_nobody_ : seen);
    }
}

/* Lets others go first on a free lease: we only look until it has been free for defer_ms. A lease that is
   held and may be taken now counts as free: it may be one that only an attempt to take it sets right. */
static void leader_note_free_(leader_t *l, leader_result result, const leader_record *seen) {
    bool takeable = result == LEADER_HELD && seen->expires_in_ms == 0;
    if (result != LEADER_OK && !takeable) {
        l->plan.free_since_ms = LEADER_NEVER_;
        return;
    }
    if (l->plan.free_since_ms == LEADER_NEVER_) {
        l->plan.free_since_ms = l->now_ms;
    }
    if (l->cfg.defer_ms > 0) {
        leader_plan_(l, l->cfg.retry_ms);
        l->plan.next_ms = leader_min_(l->plan.next_ms, l->plan.free_since_ms + l->cfg.defer_ms);
    }
}

static void leader_renewed_(leader_t *l, const leader_record *seen) {
    int64_t margin_ms = l->lease.until_ms - l->now_ms;
    bool tightest = l->counts.margin_ms_min < 0 || margin_ms < l->counts.margin_ms_min;
    if (l->state == LEADER_STATE_LEADER && tightest) {
        LEADER_KEEP_(l, margin_ms_min, margin_ms);
    }
    LEADER_COUNT_(l, renewals);
    leader_confirm_(l);
    l->plan.retries = 0;
    l->lease.until_ms = leader_valid_until_(l);
    l->plan.next_ms = l->request.sent_ms + l->cfg.renew_ms;
    if (l->state == LEADER_STATE_HOLDING_OFF) {     // its token may have been drawn again
        l->lease.token = leader_max_u64_(l->lease.token, seen->token);
    }
    if (l->state == LEADER_STATE_LEADER) {
        leader_record self = leader_self_(l);
        self.acquired_us = leader_numbers_now_(l).acquired_us;
        leader_change_(l, l->state, &self);
        return;
    }
    leader_change_(l, l->state, NULL);
}

/* Within the term: the next delay, or, where that would be too late, half of what is left, again and again: a
   store that comes back just before the deadline still saves the term. */
static int64_t leader_fit_retry_(const leader_t *l, int64_t wait_ms) {
    int64_t left_ms = l->lease.until_ms - l->now_ms;
    int64_t least_ms = leader_max_(1, l->cfg.renew_retry_ms / 50);
    if (wait_ms < left_ms) {
        return wait_ms;
    }
    return left_ms / 2 >= least_ms ? left_ms / 2 : left_ms;
}

/* A renewal failed, but the lease may well be ours: try again soon, within the deadline. */
static void leader_renew_failed_(leader_t *l, leader_result result, const leader_record *seen) {
    leader_fail_(l, LEADER_OP_RENEW_, result, NULL);
    int64_t asked_ms = leader_min_(seen->again_ms, l->cfg.retry_max_ms);
    int64_t wait_ms = leader_max_(leader_retry_delay_(&l->cfg, l->plan.retries), asked_ms);
    l->plan.retries++;
    if (l->state == LEADER_STATE_LEADER) {
        bool used_up = l->cfg.renew_retries >= 0 && l->plan.retries > l->cfg.renew_retries;
        if (used_up || l->cfg.renew_retries == LEADER_NO_RETRIES) {
            leader_end_term_(l, result, leader_error_in_place_(l), seen);
            return;
        }
        wait_ms = leader_fit_retry_(l, wait_ms);
    }
    if (l->state == LEADER_STATE_HOLDING_OFF && l->now_ms >= l->lease.until_ms) {
        l->lease.claim = LEADER_CLAIM_MAYBE_;   // it may have run out: ask for it afresh
        leader_change_(l, LEADER_STATE_FOLLOWER, NULL);
    }
    l->plan.next_ms = l->now_ms + wait_ms;
}

static void leader_renew_answered_(leader_t *l, leader_result result, const leader_record *seen) {
    if (result == LEADER_OK) {
        leader_renewed_(l, seen);
        return;
    }
    if (result != LEADER_LOST && result != LEADER_E_DUPLICATE) {
        leader_renew_failed_(l, result, seen);
        return;
    }
    if (result == LEADER_E_DUPLICATE) {
        leader_fail_(l, LEADER_OP_RENEW_, result, NULL);
    }
    if (l->state == LEADER_STATE_LEADER) {
        leader_end_term_(l, result, NULL, seen);
    } else {
        leader_let_go_(l);          // draining or holding off: nobody was told that it leads
    }
    leader_plan_attempt_(l, LEADER_HELD, seen);
    if (seen->holder[0] && strcmp(seen->holder, l->identity) != 0) {
        leader_note_leader_(l, seen);
    }
}

/* A term that ended because the store was away: nobody else can have the lease yet, and we would lead again
   as soon as the store is back. */
static bool leader_wants_it_back_(leader_t *l) {
    bool leaving = l->leave.stopping || l->leave.pause_ms > 0;
    return !leaving && leader_ask_may_compete_(l);
}

static void leader_release_answered_(leader_t *l, leader_result result) {
    enum { RETRIES_MAX = 3 };
    if (result == LEADER_OK) {
        LEADER_COUNT_(l, releases);
        leader_confirm_(l);
        leader_let_go_(l);
        return;
    }
    if (result == LEADER_LOST) {
        leader_let_go_(l);
        return;
    }
    leader_fail_(l, LEADER_OP_RELEASE_, result, NULL);
    bool held = l->lease.claim == LEADER_CLAIM_HELD_;
    if (leader_is_unreachable_(result) && leader_wants_it_back_(l)) {
        leader_let_go_(l);
        leader_plan_attempt_(l, result, &leader_nobody_);
        return;
    }
    if (held && l->plan.retries < RETRIES_MAX && l->cfg.renew_retries != LEADER_NO_RETRIES) {
        l->plan.next_ms = l->now_ms + leader_retry_delay_(&l->cfg, l->plan.retries);
        l->plan.retries++;
        return;
    }
    if (held) {
        leader_log_(l, LEADER_LOG_WARN, "the lease could not be released: it is left to expire");
    }
    leader_let_go_(l);
}

static void leader_take_answer_(leader_t *l, int op, leader_result result, const leader_record *seen) {
    if (op == LEADER_OP_ACQUIRE_ && result == LEADER_OK) {
        l->plan.free_since_ms = LEADER_NEVER_;
        leader_acquired_(l, seen);
        return;
    }
    l->lease.highest_token = leader_max_u64_(l->lease.highest_token, seen->token);
    switch (op) {
    case LEADER_OP_RENEW_:
        leader_renew_answered_(l, result, seen);
        break;
    case LEADER_OP_RELEASE_:
        leader_release_answered_(l, result);
        break;
    default:
        leader_looked_(l, op, result, seen);
        leader_note_free_(l, result, seen);
        leader_note_seen_(l, result, seen);
        break;
    }
}

/* No answer yet. True: and none is waited for any longer. */
static bool leader_give_up_waiting_(leader_t *l, const leader_record *seen, int64_t took_ms) {
    l->request.again_at_ms = LEADER_NEVER_;
    if (seen->again_ms > 0) {
        l->request.again_at_ms = l->now_ms + leader_min_(seen->again_ms, LEADER_WAIT_MAX_MS);
    }
    if (took_ms < l->request.timeout_ms) {
        return false;
    }
    int op = l->request.op;
    leader_cancel_(l);
    if (!l->request.said_error) {
        char text[64];
        snprintf(text, sizeof text, "%s: no answer within %lld ms", leader_op_name_(op), LEADER_LL_(took_ms));
        leader_host_log_(l, LEADER_LOG_ERROR, text);
    }
    return true;
}

/* Asks the backend for the outcome of the request under way. True: it ended. */
static bool leader_take_outcome_(leader_t *l) {
    leader_record seen;
    int op = l->request.op;
    if (leader_disown_in_child_(l)) {
        return false;
    }
    leader_result result = leader_ask_backend_(l, &seen);
    result = leader_check_answer_(l, result, &seen);
    l->now_ms = leader_now_(l);
    if (l->state == LEADER_STATE_LEADER && l->now_ms >= l->lease.until_ms) {
        if (result != LEADER_PENDING) {
            l->request.op = LEADER_OP_NONE_;
        }
        l->lease.highest_token = leader_max_u64_(l->lease.highest_token, seen.token);
        leader_expire_term_(l, true);           // over for good, whatever the answer is
        return true;
    }
    int64_t took_ms = l->now_ms - l->request.sent_ms;
    if (result == LEADER_PENDING) {
        if (!leader_give_up_waiting_(l, &seen, took_ms)) {
            return false;
        }
        seen.again_ms = 0;          // it said when to look again, not how long to leave the store alone
        result = LEADER_E_TIMEOUT;
    }
    l->request.op = LEADER_OP_NONE_;
    l->plan.silence = result == LEADER_E_TIMEOUT;
    if (!l->plan.silence) {
        l->plan.slowest_ms = leader_max_(l->plan.slowest_ms, took_ms);
    }
    LEADER_KEEP_(l, latency_ms_last, took_ms);
    LEADER_KEEP_(l, latency_ms_max, leader_max_(took_ms, l->counts.latency_ms_max));
    leader_take_answer_(l, op, result, &seen);
    return true;
}

/* ---- state machine ------------------------------------------------------------------------------- */

/* Leaves the competition: what may be ours in the store is given back first. Not while holding off: the
   holder that the store forgot may still lead, and a release would let the next one start beside it. */
static void leader_withdraw_(leader_t *l) {
    leader_cancel_(l);
    bool unsure = l->cfg.cautious_start && !l->lease.store_answered;
    bool in_doubt = unsure || l->now_ms <= l->lease.hold_until_ms;
    bool keeps = l->leave.stopping && l->cfg.keep_lease_on_stop;
    if (l->lease.claim != LEADER_CLAIM_NONE_ && !in_doubt && !keeps) {
        leader_start_release_(l);
    } else {
        leader_let_go_(l);
    }
}

/* leader_stop and leader_resign left a word: the first tick after it obeys. */
static void leader_obey_(leader_t *l) {
    bool stop = !l->leave.stopping && LEADER_LOAD_(&l->stop_asked);
    int64_t pause = LEADER_LOAD_(&l->resign_asked);
    if (pause != 0) {
        pause = LEADER_SWAP_(&l->resign_asked, 0);
        l->leave.pause_ms = pause - 1;
    }
    if (stop) {
        l->leave.stopping = true;
    }
    if (!stop && pause == 0) {
        return;
    }
    switch (l->state) {
    case LEADER_STATE_LEADER:
        leader_end_term_(l, LEADER_OK, NULL, &leader_nobody_);
        break;
    case LEADER_STATE_FOLLOWER:
    case LEADER_STATE_HOLDING_OFF:
        leader_withdraw_(l);
        break;
    default:
        break;
    }
}

/* Notices and planned expiries may make us ask early, but only so often in each retry_ms: a store that
   changes all the time must not turn standbys into a storm. False: wait. */
static bool leader_count_early_ask_(leader_t *l) {
    enum { EARLY_MAX = 8 };
    if (l->now_ms - l->plan.window_ms >= l->cfg.retry_ms) {
        l->plan.window_ms = l->now_ms;
        l->plan.early = 0;
    }
    if (l->plan.early > EARLY_MAX) {
        l->plan.next_ms = l->plan.window_ms + l->cfg.retry_ms;
        return false;
    }
    l->plan.early++;
    return true;
}

/* Once per retry_ms is enough for a leader. False: wait. */
static bool leader_count_early_renewal_(leader_t *l) {
    if (l->plan.early > 0 && l->now_ms - l->plan.window_ms < l->cfg.retry_ms) {
        return false;
    }
    l->plan.window_ms = l->now_ms;
    l->plan.early = 1;
    return true;
}

static bool leader_has_deferred_(const leader_t *l) {
    if (l->cfg.defer_ms == 0 || l->lease.claim == LEADER_CLAIM_MAYBE_) {
        return true;
    }
    bool known_free = l->plan.free_since_ms != LEADER_NEVER_;
    return known_free && l->now_ms >= l->plan.free_since_ms + l->cfg.defer_ms;
}

static bool leader_follow_(leader_t *l) {
    if (!l->plan.noticed && l->now_ms < l->plan.next_ms) {
        return false;
    }
    if (!leader_count_early_ask_(l)) {
        return false;
    }
    if (leader_ask_may_compete_(l) && leader_has_deferred_(l)) {
        leader_start_request_(l, LEADER_OP_ACQUIRE_);
        return true;
    }
    if (l->cfg.backend.observe) {
        leader_start_request_(l, LEADER_OP_OBSERVE_);
        return true;
    }
    l->plan.noticed = false;
    leader_plan_(l, l->cfg.retry_ms);
    return false;
}

static bool leader_hold_off_(leader_t *l) {
    if (l->now_ms > l->lease.hold_until_ms && l->now_ms < l->lease.until_ms) {
        bool healthy = leader_ask_healthy_(l);
        l->now_ms = leader_now_(l);             // is_healthy may have stalled: no term starts after its end
        if (!healthy) {
            leader_withdraw_(l);
        } else if (l->now_ms < l->lease.until_ms) {
            leader_start_term_(l);
        }
        return true;
    }
    if (l->now_ms < l->plan.next_ms) {
        return false;
    }
    leader_start_request_(l, LEADER_OP_RENEW_);
    return true;
}

/* A notice says that the record may not be ours any more: one renewal finds out. */
static bool leader_lead_(leader_t *l) {
    bool due = l->now_ms >= l->plan.next_ms;
    if (!due && !l->plan.noticed) {
        return false;
    }
    if (!due && !leader_count_early_renewal_(l)) {
        return false;
    }
    bool healthy = leader_ask_healthy_(l);
    l->now_ms = leader_now_(l);
    if (l->now_ms >= l->lease.until_ms) {
        return true;                // is_healthy took too long: the next step ends the term
    }
    if (!healthy) {
        leader_end_term_(l, LEADER_UNHEALTHY, NULL, &leader_nobody_);
        return true;
    }
    leader_start_request_(l, LEADER_OP_RENEW_);
    return true;
}

static bool leader_drain_(leader_t *l) {
    if (leader_ask_drained_(l)) {
        l->lease.undrained = false;
        if (l->leave.stopping && l->cfg.keep_lease_on_stop) {
            leader_let_go_(l);
        } else {
            leader_start_release_(l);
        }
        return true;
    }
    if (l->now_ms >= l->leave.drain_until_ms) {
        leader_log_(l, LEADER_LOG_WARN,
                    "the work was not over within drain_timeout_ms: the lease is left to expire");
        leader_let_go_(l);
        return true;
    }
    if (l->now_ms < l->plan.next_ms) {
        return false;
    }
    leader_start_request_(l, LEADER_OP_RENEW_);
    return true;
}

static bool leader_release_(leader_t *l) {
    if (l->now_ms < l->plan.next_ms) {
        return false;
    }
    leader_start_request_(l, LEADER_OP_RELEASE_);
    return true;
}

/* What must hold between any two steps. */
static void leader_check_(const leader_t *l) {
    bool leading = l->state == LEADER_STATE_LEADER;
    bool holding = l->lease.claim == LEADER_CLAIM_HELD_;
    int op = l->request.op;
    LEADER_ASSERT(l->state > LEADER_STATE_NONE && l->state <= LEADER_STATE_STOPPED);
    LEADER_ASSERT(op >= LEADER_OP_NONE_ && op <= LEADER_OP_OBSERVE_);
    LEADER_ASSERT(leading == (l->until_ms != LEADER_NEVER_));
    LEADER_ASSERT(!leading || l->until_ms == l->lease.until_ms);
    LEADER_ASSERT(!leading || holding);
    LEADER_ASSERT(!leading || l->lease.token != 0);
    LEADER_ASSERT(!leading || l->lease.until_ms <= l->request.sent_ms + l->cfg.renew_deadline_ms);
    LEADER_ASSERT(l->state != LEADER_STATE_HOLDING_OFF || holding);
    LEADER_ASSERT(l->state != LEADER_STATE_FOLLOWER || !holding);
    LEADER_ASSERT(l->state != LEADER_STATE_STOPPED || op == LEADER_OP_NONE_);
    LEADER_ASSERT(l->state != LEADER_STATE_STOPPED || l->leave.stopping);
    LEADER_ASSERT(op != LEADER_OP_ACQUIRE_ || l->state == LEADER_STATE_FOLLOWER);
    LEADER_ASSERT(op != LEADER_OP_OBSERVE_ || l->state == LEADER_STATE_FOLLOWER);
    LEADER_ASSERT(op != LEADER_OP_RELEASE_ || l->state == LEADER_STATE_RELEASING);
    LEADER_ASSERT(op != LEADER_OP_RENEW_ || (holding && l->state != LEADER_STATE_RELEASING));
    LEADER_ASSERT(l->lease.token <= l->lease.highest_token);
    LEADER_ASSERT(l->fds.count >= 0 && l->fds.count <= LEADER_FDS_MAX);
    (void)leading;
    (void)holding;
    (void)op;
}

/* Lets the backend read its descriptors: a few times in one millisecond, more after leader_sleep saw one
   ready. Without a limit, a loop with level-triggered descriptors could spin. */
static void leader_poll_backend_(leader_t *l) {
    enum { POLLS_MAX = 4, READY_POLLS_MAX = 16 };
    const int polls_max = l->fds.ready ? READY_POLLS_MAX : POLLS_MAX;
    l->fds.unread = false;
    if (!l->cfg.backend.poll) {
        return;
    }
    if (l->fds.polled_ms != l->now_ms) {
        l->fds.polled_ms = l->now_ms;
        l->fds.polls = 0;
    }
    bool idle = l->request.op == LEADER_OP_NONE_;
    if (idle && l->fds.polls >= polls_max) {
        l->fds.unread = true;
        return;
    }
    l->fds.ready = false;
    l->fds.polls++;
    if (leader_disown_in_child_(l)) {
        return;
    }
    if (l->cfg.backend.poll(l->cfg.backend.self)) {
        l->plan.noticed = true;
    }
}

/* News that came while a request was under way have waited for its answer, and no descriptor tells of them
   again. */
static void leader_hear_what_waited_(leader_t *l) {
    bool listens = leader_is_open_here_(l) && l->state == LEADER_STATE_FOLLOWER;
    bool answered = l->request.op == LEADER_OP_NONE_ && l->lease.claim == LEADER_CLAIM_NONE_;
    if (listens && answered) {
        leader_poll_backend_(l);
    }
}

/* One step; true: something happened, look again. The deadline comes before everything else. */
static bool leader_step_(leader_t *l) {
    if (!leader_is_open_here_(l)) {
        return false;
    }
    if (l->state == LEADER_STATE_LEADER && l->now_ms >= l->lease.until_ms) {
        leader_expire_term_(l, l->request.op != LEADER_OP_NONE_);
        return true;
    }
    leader_obey_(l);
    if (l->request.op != LEADER_OP_NONE_) {
        if (!leader_take_outcome_(l)) {
            return false;
        }
        leader_hear_what_waited_(l);
        return true;
    }
    switch (l->state) {
    case LEADER_STATE_FOLLOWER:
        return leader_follow_(l);
    case LEADER_STATE_HOLDING_OFF:
        return leader_hold_off_(l);
    case LEADER_STATE_LEADER:
        return leader_lead_(l);
    case LEADER_STATE_DRAINING:
        return leader_drain_(l);
    case LEADER_STATE_RELEASING:
        return leader_release_(l);
    case LEADER_STATE_STOPPED:
    case LEADER_STATE_NONE:
        break;
    }
    return false;
}

static int64_t leader_due_of_request_(const leader_t *l) {
    enum { NO_LOOP_MS = 20 };
    int64_t due_ms = l->request.sent_ms + l->request.timeout_ms;
    if (l->request.again_at_ms != LEADER_NEVER_) {
        due_ms = leader_min_(due_ms, l->request.again_at_ms);
    }
    if (!l->cfg.on_fd) {
        due_ms = leader_min_(due_ms, l->now_ms + NO_LOOP_MS);
    }
    return due_ms;
}

/* The moment of the next tick. */
static int64_t leader_due_(const leader_t *l) {
    enum { DRAIN_POLL_MS = 50, STOPPED_MS = 100 };
    int64_t due_ms = l->plan.next_ms;
    if (l->request.op != LEADER_OP_NONE_) {
        due_ms = leader_due_of_request_(l);
    }
    switch (l->state) {
    case LEADER_STATE_STOPPED:
        return l->now_ms + STOPPED_MS;
    case LEADER_STATE_LEADER:
        return leader_min_(due_ms, l->lease.until_ms);
    case LEADER_STATE_DRAINING:
        due_ms = leader_min_(due_ms, l->leave.drain_until_ms);
        return leader_min_(due_ms, l->now_ms + DRAIN_POLL_MS);
    case LEADER_STATE_HOLDING_OFF:
        if (l->now_ms <= l->lease.hold_until_ms) {
            due_ms = leader_min_(due_ms, l->lease.hold_until_ms + 1);
        }
        return due_ms;
    default:
        return due_ms;
    }
}

static void leader_warn_once_(leader_t *l) {
    if (l->warn_single_node) {
        l->warn_single_node = false;
        leader_log_(l, LEADER_LOG_WARN,
                    "config.backend is not set, so this process always leads: set it, for example "
                    "to leader_file_backend(), or to leader_single_backend() on purpose");
    }
    if (l->warn_short_lease) {
        l->warn_short_lease = false;
        leader_log_(l, LEADER_LOG_WARN,
                    "lease_ms is %lld ms: did you mean seconds? (set renew_deadline_ms as well to say so)",
                    LEADER_LL_(l->cfg.lease_ms));
    }
}

/* False: a callback of the running tick, or a second thread, called us. */
static bool leader_enter_(leader_t *l) {
    if (LEADER_SWAP_(&l->ticking, 1) == 0) {
        LEADER_STORE_(&l->thread, leader_thread_());
        return true;
    }
    if (LEADER_LOAD_(&l->thread) == leader_thread_()) {
        leader_set_error_(l, LEADER_E_REENTRANT,
                          "leader_tick, _sleep, _wait or _close was called from inside a callback: ignored");
    } else {
        LEADER_STORE_(&l->misused, 1);          // the thread that ticks says so
        LEADER_STORE_(&l->wake, 1);
    }
    return false;
}

static void leader_leave_(leader_t *l) {
    LEADER_STORE_(&l->ticking, 0);
}

/* An exception that escapes from a callback must leave the election usable. */
#if defined(__cplusplus)
struct leader_guard_ {
    leader_t *l;
    ~leader_guard_() { leader_leave_(l); }
};
#  define LEADER_GUARD_(l) leader_guard_ guard = {l}
#  define LEADER_UNGUARD_(l) (void)guard
#elif defined(__GNUC__) && !defined(__TINYC__)
static void leader_leave_guarded_(leader_t **l) {
    leader_leave_(*l);
}
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#  define LEADER_GUARD_(l) leader_t *guard __attribute__((cleanup(leader_leave_guarded_))) = (l)
#  define LEADER_UNGUARD_(l) (void)guard
#else
#  define LEADER_GUARD_(l) ((void)0)
#  define LEADER_UNGUARD_(l) leader_leave_(l)
#endif

static void leader_report_misuse_(leader_t *l) {
    if (!LEADER_LOAD_(&l->misused)) {
        return;
    }
    LEADER_STORE_(&l->misused, 0);
    leader_host_log_(l, LEADER_LOG_ERROR,
                     "two threads tick this election at once: leader_tick, _sleep, _wait and "
                     "_close belong to one thread at a time; the second call was ignored");
}

static void leader_note_lateness_(leader_t *l) {
    l->tick_ms = l->now_ms;
    l->late_ms = 0;
    bool first = l->counts.tick_late_ms_max < 0 && l->request.seq == 0;
    if (first) {
        return;                     // it was due since leader_init, and nothing depended on it
    }
    l->late_ms = leader_max_(0, l->now_ms - LEADER_LOAD_(&l->due_ms));
    LEADER_KEEP_(l, tick_late_ms_max, leader_max_(l->late_ms, l->counts.tick_late_ms_max));
}

enum { LEADER_IDLE_MS_ = 100 };

/* When a tick last asked for the process id, which costs more than all else that an idle tick does: once in
   a millisecond is enough where no backend function is called. */
static int64_t leader_pid_looked_ms_ LEADER_ALIGNED_ = LEADER_NEVER_;

/* Most ticks come before anything is due. */
static bool leader_has_nothing_to_do_(const leader_t *l) {
    bool asked = LEADER_LOAD_(&l->wake) || l->plan.noticed || l->request.op != LEADER_OP_NONE_;
    bool waits = l->state == LEADER_STATE_LEADER || l->state == LEADER_STATE_FOLLOWER;
    bool late = l->now_ms > LEADER_LOAD_(&l->due_ms);
    return !asked && waits && !late && l->now_ms < leader_due_(l);
}

/* False: the election was closed on the way. */
static bool leader_take_steps_(leader_t *l) {
    enum { STEPS_MAX = 12 };
    leader_note_lateness_(l);
    LEADER_STORE_(&l->wake, 0);                 // a word that comes while we step makes it due again
    LEADER_STORE_(&l->due_ms, l->now_ms + LEADER_IDLE_MS_);
    leader_warn_once_(l);
    leader_report_misuse_(l);
    for (int steps = 0; steps < STEPS_MAX && leader_step_(l); steps++) {
        leader_check_(l);
        l->now_ms = leader_now_(l);
    }
    if (!leader_is_open_here_(l)) {
        return false;
    }
    leader_check_(l);
    return true;
}

static int leader_tick_guarded_(leader_t *l) {
    l->now_ms = leader_now_(l);
    bool looked = LEADER_LOAD_(&leader_pid_looked_ms_) == l->now_ms && l->request.op == LEADER_OP_NONE_;
    if (!looked && leader_disown_in_child_(l)) {
        return LEADER_IDLE_MS_;
    }
    LEADER_STORE_(&leader_pid_looked_ms_, l->now_ms);
    leader_poll_backend_(l);
    if (!leader_has_nothing_to_do_(l) && !leader_take_steps_(l)) {
        return LEADER_IDLE_MS_;
    }
    int64_t wait_ms = leader_due_(l) - l->now_ms;
    if (l->fds.unread) {
        wait_ms = 1;
    }
    wait_ms = leader_max_(1, leader_min_(wait_ms, LEADER_WAIT_MAX_MS));
    LEADER_STORE_(&l->due_ms, l->now_ms + wait_ms);
    return LEADER_LOAD_(&l->wake) ? 1 : (int)wait_ms;
}

LEADER_API int leader_tick(leader_t *l) {
    if (!leader_is_open_here_(l) || !leader_enter_(l)) {
        return LEADER_IDLE_MS_;
    }
    LEADER_GUARD_(l);
    int wait_ms = leader_tick_guarded_(l);
    LEADER_UNGUARD_(l);
    return wait_ms;
}

/* None in the millisecond in which they are not read: a loop that waited for them would spin. */
LEADER_API int leader_fds(const leader_t *l, leader_fd out[LEADER_FDS_MAX]) {
    if (!leader_is_open_here_(l) || l->fds.unread) {
        return 0;
    }
    memcpy(out, l->fds.list, sizeof(leader_fd) * (size_t)l->fds.count);
    return l->fds.count;
}

LEADER_API leader_result leader_set_value(leader_t *l, const char *value) {
    if (!leader_is_open_here_(l)) {
        return LEADER_E_STATE;
    }
    size_t len = strlen(value);
    if (len > LEADER_VALUE_MAX || leader_utf8_end_(value) != len) {
        leader_set_error_(l, LEADER_E_CONFIG, "value is longer than 255 bytes, or not UTF-8");
        return LEADER_E_CONFIG;
    }
    leader_copy_text_(l->value, sizeof l->value, value);
    if (l->state == LEADER_STATE_LEADER) {
        l->plan.next_ms = leader_min_(l->plan.next_ms, leader_now_(l));
        LEADER_STORE_(&l->wake, 1);
    }
    return LEADER_OK;
}

/* On a lease that is known to be free, the new wait counts from when that was found out. */
LEADER_API leader_result leader_set_defer(leader_t *l, int64_t defer_ms) {
    if (!leader_is_open_here_(l)) {
        return LEADER_E_STATE;
    }
    bool in_range = defer_ms >= 0 && defer_ms <= LEADER_TIME_MAX_MS_;
    bool can_look = defer_ms == 0 || l->cfg.backend.observe;
    if (!in_range || !can_look) {
        leader_set_error_(l, LEADER_E_CONFIG,
                          "defer_ms is negative or more than ten years, or backend.observe is missing");
        return LEADER_E_CONFIG;
    }
    if (defer_ms == l->cfg.defer_ms) {
        return LEADER_OK;
    }
    l->cfg.defer_ms = defer_ms;
    if (l->state == LEADER_STATE_FOLLOWER && l->plan.free_since_ms != LEADER_NEVER_) {
        l->plan.next_ms = leader_min_(l->plan.next_ms, l->plan.free_since_ms + defer_ms);
        LEADER_STORE_(&l->wake, 1);
    }
    return LEADER_OK;
}

LEADER_API leader_result leader_resign_to(leader_t *l, const char *identity, int64_t pause_ms) {
    if (!leader_is_open_here_(l)) {
        return LEADER_E_STATE;
    }
    if (strlen(identity) > LEADER_IDENTITY_MAX) {
        leader_set_error_(l, LEADER_E_CONFIG, "leader_resign_to: identity is longer than 255 bytes");
        return LEADER_E_CONFIG;
    }
    leader_copy_text_(l->leave.heir, sizeof l->leave.heir, identity);
    leader_resign(l, pause_ms);
    return LEADER_OK;
}

/* ---- waiting ------------------------------------------------------------------------------------- */

/* Descriptors to wait for: our own, and those of a shared client that another election reports. */
static int leader_waitable_(leader_t *l, leader_fd out[2 * LEADER_FDS_MAX]) {
    if (!leader_is_open_here_(l) || l->fds.unread) {
        return 0;
    }
    int count = leader_fds(l, out);
    if (l->cfg.backend.fds) {
        int shared = l->cfg.backend.fds(l->cfg.backend.self, out + count, LEADER_FDS_MAX);
        count += (int)leader_max_(0, leader_min_(shared, LEADER_FDS_MAX));
    }
    return count;
}

/* Sleeps in slices, so that leader_stop from another thread is noticed. True: a signal came first. */
static bool leader_doze_(leader_t *l, int64_t max_ms) {
    enum { SLICE_MS = 50 };
    leader_fd fds[2 * LEADER_FDS_MAX];
    int count = leader_waitable_(l, fds);
    bool open = leader_is_open_here_(l);
    int64_t left_ms = max_ms;
    if (open) {
        left_ms = leader_min_(max_ms, leader_due_ms(l));
    }
    while (left_ms > 0) {
        int64_t slice_ms = leader_min_(left_ms, SLICE_MS);
        leader_nap_result_ nap = leader_nap_(fds, count, (int)slice_ms);
        if (nap == LEADER_NAP_SIGNAL_) {
            return true;
        }
        if (nap == LEADER_NAP_READY_) {
            l->fds.ready = true;
            return false;
        }
        if (open && LEADER_LOAD_(&l->wake)) {
            return false;
        }
        left_ms -= slice_ms;
    }
    return false;
}

LEADER_API void leader_sleep(leader_t *l, int max_ms) {
    if (leader_is_open_here_(l)) {
        if (!leader_enter_(l)) {
            return;
        }
        leader_leave_(l);
    }
    leader_doze_(l, max_ms);
}

static int64_t leader_time_left_(const leader_t *l, int64_t start_ms, int64_t timeout_ms) {
    if (timeout_ms < 0) {
        return LEADER_WAIT_MAX_MS;
    }
    return timeout_ms - (leader_now_(l) - start_ms);
}

LEADER_API leader_result leader_wait(leader_t *l, int64_t timeout_ms) {
    if (!leader_is_open_here_(l)) {
        return LEADER_E_STATE;
    }
    if (!leader_enter_(l)) {
        return LEADER_E_REENTRANT;
    }
    leader_leave_(l);
    int64_t start_ms = leader_now_(l);
    for (;;) {
        leader_tick(l);
        if (leader_is_leader(l)) {
            return LEADER_OK;
        }
        if (leader_is_stopped(l) || l->leave.stopping || l->cfg.observe_only) {
            return LEADER_E_STATE;
        }
        int64_t left_ms = leader_time_left_(l, start_ms, timeout_ms);
        if (left_ms <= 0) {
            return LEADER_E_TIMEOUT;
        }
        if (leader_doze_(l, left_ms)) {
            return LEADER_PENDING;
        }
    }
}

static void leader_free_(leader_t *l) {
    if (!leader_is_open_here_(l) || !leader_enter_(l)) {
        return;
    }
    LEADER_GUARD_(l);
    leader_cancel_(l);
    LEADER_STORE_(&l->until_ms, LEADER_NEVER_);
    if (l->cfg.backend.close) {
        l->cfg.backend.close(l->cfg.backend.self);
    }
    LEADER_STORE_(&l->life, 0u);
    LEADER_UNGUARD_(l);
}

/* The one that is due first. NULL: all are stopped. */
static leader_t *leader_first_due_(leader_t *const *elections, int count) {
    leader_t *first = NULL;
    for (int i = 0; i < count; i++) {
        if (leader_is_stopped(elections[i])) {
            continue;
        }
        if (!first || leader_due_ms(elections[i]) < leader_due_ms(first)) {
            first = elections[i];
        }
    }
    return first;
}

LEADER_API leader_result leader_close_all(leader_t *const *elections, int count, int64_t timeout_ms) {
    enum { SEVERAL_MS = 2 };        // descriptors of the others may be ready
    leader_result result = LEADER_OK;
    int64_t start_ms = 0;
    for (int i = 0; i < count; i++) {
        leader_t *l = elections[i];
        if (leader_is_open_here_(l) && !leader_disown_in_child_(l)) {
            if (!leader_enter_(l)) {
                return LEADER_E_REENTRANT;
            }
            leader_leave_(l);
        }
        leader_stop(l);
    }
    for (int round = 0;; round++) {
        for (int i = 0; i < count; i++) {
            leader_tick(elections[i]);
        }
        leader_t *next = leader_first_due_(elections, count);
        if (!next) {
            break;
        }
        if (round == 0) {
            start_ms = leader_now_(next);
        }
        int64_t left_ms = leader_time_left_(next, start_ms, timeout_ms);
        if (left_ms <= 0) {
            result = LEADER_E_TIMEOUT;
            break;
        }
        leader_doze_(next, count == 1 ? left_ms : leader_min_(left_ms, SEVERAL_MS));
    }
    for (int i = 0; i < count; i++) {
        leader_free_(elections[i]);
    }
    return result;
}

LEADER_API leader_result leader_close(leader_t *l, int64_t timeout_ms) {
    return leader_close_all(&l, 1, timeout_ms);
}

/* ---- single node --------------------------------------------------------------------------------- */

static leader_result leader_single_ok_(void *self, const leader_request *request, leader_record *seen) {
    (void)self;
    (void)request;
    (void)seen;
    return LEADER_OK;
}

static leader_result leader_single_acquire_(void *self, const leader_request *request, leader_record *seen) {
    (void)self;
    seen->token = request->min_token;
    return LEADER_OK;
}

LEADER_API leader_backend leader_single_backend(void) {
    leader_backend backend;
    memset(&backend, 0, sizeof backend);
    backend.acquire = leader_single_acquire_;
    backend.renew = leader_single_ok_;
    backend.release = leader_single_ok_;
    backend.observe = leader_single_ok_;
    backend.name = "single node";
    return backend;
}

/* ---- set-up -------------------------------------------------------------------------------------- */

LEADER_API const char *leader_make_identity(char *buf, size_t cap, const char *prefix) {
    char head[LEADER_IDENTITY_MAX + 1];
    char tail[48];
    char host[128];
    if (cap == 0) {
        return buf;
    }
    cap = (size_t)leader_min_((int64_t)cap, LEADER_IDENTITY_MAX + 1);
    leader_host_name_(host, sizeof host);
    if (!prefix) {
        prefix = "";
    }
    snprintf(head, sizeof head, "%s%s%s", prefix, prefix[0] ? "-" : "", host[0] ? host : "host");
    unsigned long chance = (unsigned long)(LEADER_RANDOM64() & 0xffffffffu);
    size_t tail_len = (size_t)snprintf(tail, sizeof tail, "-%ld-%08lx", (long)leader_pid_(), chance);
    if (cap <= tail_len) {
        snprintf(buf, cap, "%s", tail + tail_len + 1 - cap);
        return buf;
    }
    leader_copy_text_(buf, cap - tail_len, head);       // what makes it unique stands at the end
    snprintf(buf + strlen(buf), cap - strlen(buf), "%s", tail);
    return buf;
}

/* A check that fails says why; leader_init passes it on. */
typedef struct leader_refusal_ {
    char text[200];
} leader_refusal_;

static bool leader_refuse_(leader_refusal_ *why, const char *format, ...) LEADER_PRINTF_(2, 3);
static bool leader_refuse_(leader_refusal_ *why, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return false;
}

static bool leader_check_text_(const char *name, const char *text, size_t max, leader_refusal_ *why) {
    size_t len = 0;
    while (len <= max && text[len]) {
        len++;
    }
    if (len > max) {
        return leader_refuse_(why, "%s is longer than %d bytes", name, (int)max);
    }
    size_t good = leader_utf8_end_(text);
    if (good != len) {
        return leader_refuse_(why, "%s is not UTF-8 at byte %d", name, (int)good);
    }
    return true;
}

static bool leader_backend_is_empty_(const leader_backend *b) {
    leader_backend zero;
    memset(&zero, 0, sizeof zero);
    return b->self == zero.self && b->acquire == zero.acquire && b->renew == zero.renew
        && b->release == zero.release && b->open == zero.open && b->close == zero.close;
}

static bool leader_check_backend_(leader_t *l, leader_refusal_ *why) {
    const leader_backend *b = &l->cfg.backend;
    if (leader_backend_is_empty_(b)) {
        l->cfg.backend = leader_single_backend();
        l->warn_single_node = l->cfg.identity != NULL;
        return true;
    }
    if (!b->acquire) {
        return leader_refuse_(why, "backend.acquire is missing");
    }
    if (!b->renew) {
        return leader_refuse_(why, "backend.renew is missing");
    }
    if (!b->release) {
        return leader_refuse_(why, "backend.release is missing");
    }
    if (l->cfg.observe_only && !b->observe) {
        return leader_refuse_(why, "backend.observe is missing, and observe_only needs it");
    }
    if (l->cfg.defer_ms > 0 && !b->observe) {
        return leader_refuse_(why, "backend.observe is missing, and defer_ms needs it");
    }
    return true;
}

static bool leader_check_identity_(leader_t *l, bool single_node, leader_refusal_ *why) {
    const char *identity = l->cfg.identity;
    if (!identity && single_node) {
        leader_make_identity(l->identity, sizeof l->identity, NULL);
        return true;
    }
    if (!identity || !identity[0]) {
        return leader_refuse_(why, "identity is missing: every candidate needs a name of its own");
    }
    if (!leader_check_text_("identity", identity, LEADER_IDENTITY_MAX, why)) {
        return false;
    }
    leader_copy_text_(l->identity, sizeof l->identity, identity);
    return true;
}

static bool leader_check_value_(leader_t *l, leader_refusal_ *why) {
    if (!l->cfg.value) {
        return true;
    }
    if (!leader_check_text_("value", l->cfg.value, LEADER_VALUE_MAX, why)) {
        return false;
    }
    leader_copy_text_(l->value, sizeof l->value, l->cfg.value);
    return true;
}

static bool leader_check_ranges_(const leader_config *c, leader_refusal_ *why) {
    const struct { const char *name; int64_t ms; } times[] = {
        {"lease_ms", c->lease_ms}, {"renew_deadline_ms", c->renew_deadline_ms}, {"renew_ms", c->renew_ms},
        {"renew_retry_ms", c->renew_retry_ms}, {"retry_ms", c->retry_ms}, {"retry_max_ms", c->retry_max_ms},
        {"request_timeout_ms", c->request_timeout_ms}, {"drain_timeout_ms", c->drain_timeout_ms},
        {"defer_ms", c->defer_ms}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if (times[i].ms < 0) {
            return leader_refuse_(why, "%s (%lld) is negative", times[i].name, LEADER_LL_(times[i].ms));
        }
        if (times[i].ms > LEADER_TIME_MAX_MS_) {
            return leader_refuse_(why, "%s (%lld) is more than ten years", times[i].name,
                                  LEADER_LL_(times[i].ms));
        }
    }
    if (c->renew_retries < LEADER_NO_RETRIES || c->renew_retries > 1000) {
        return leader_refuse_(why, "renew_retries (%d) is not within -2..1000", c->renew_retries);
    }
    if (c->lease_ms != 0 && c->lease_ms < 30) {
        return leader_refuse_(why,
                              "lease_ms (%lld) is too short: renewal, retries and deadline need at least 30",
                              LEADER_LL_(c->lease_ms));
    }
    return true;
}

static void leader_default_(int64_t *field, int64_t value) {
    if (*field == 0) {
        *field = value;
    }
}

static void leader_fill_defaults_(leader_config *c) {
    leader_default_(&c->lease_ms, 15000);
    leader_default_(&c->renew_deadline_ms, c->lease_ms * 2 / 3);
    leader_default_(&c->renew_ms, c->lease_ms / 3);
    int64_t slack_ms = c->renew_deadline_ms - c->renew_ms;
    leader_default_(&c->renew_retry_ms, leader_max_(1, leader_min_(500, slack_ms / 10)));
    leader_default_(&c->retry_ms, leader_max_(1, leader_min_(2000, c->renew_ms)));
    leader_default_(&c->retry_max_ms, leader_max_(60000, c->retry_ms));
    leader_default_(&c->request_timeout_ms, leader_max_(1, slack_ms / 2));
    if (c->renew_retries == 0) {
        c->renew_retries = -1;
    }
}

/* The times must fit each other: every message names the fields and their values. */
static bool leader_check_times_(const leader_config *c, leader_refusal_ *why) {
    int64_t slack_ms = c->renew_deadline_ms - c->renew_ms;
    if (c->renew_deadline_ms >= c->lease_ms) {
        return leader_refuse_(why, "renew_deadline_ms (%lld) must be less than lease_ms (%lld)",
                              LEADER_LL_(c->renew_deadline_ms), LEADER_LL_(c->lease_ms));
    }
    if (slack_ms <= 0) {
        return leader_refuse_(why, "renew_ms (%lld) must be less than renew_deadline_ms (%lld)",
                              LEADER_LL_(c->renew_ms), LEADER_LL_(c->renew_deadline_ms));
    }
    if (slack_ms <= LEADER_CLOCK_GRAIN_MS_ + 1) {
        return leader_refuse_(why,
                              "renew_ms (%lld) leaves no time for a request before renew_deadline_ms (%lld)",
                              LEADER_LL_(c->renew_ms), LEADER_LL_(c->renew_deadline_ms));
    }
    if (c->retry_max_ms < c->retry_ms) {
        return leader_refuse_(why, "retry_max_ms (%lld) must not be less than retry_ms (%lld)",
                              LEADER_LL_(c->retry_max_ms), LEADER_LL_(c->retry_ms));
    }
    if (c->request_timeout_ms > slack_ms) {
        return leader_refuse_(why, "request_timeout_ms (%lld) does not fit between renew_ms (%lld) and "
                              "renew_deadline_ms (%lld)", LEADER_LL_(c->request_timeout_ms),
                              LEADER_LL_(c->renew_ms), LEADER_LL_(c->renew_deadline_ms));
    }
    int64_t need_ms = 0;
    for (int i = 0; i < c->renew_retries && need_ms <= slack_ms; i++) {
        need_ms += leader_retry_delay_(c, i);
    }
    if (need_ms >= slack_ms) {
        return leader_refuse_(why,
                              "renew_retries (%d) starting at renew_retry_ms (%lld) do not fit between "
                              "renew_ms (%lld) and renew_deadline_ms (%lld)",
                              c->renew_retries, LEADER_LL_(c->renew_retry_ms), LEADER_LL_(c->renew_ms),
                              LEADER_LL_(c->renew_deadline_ms));
    }
    return true;
}

static bool leader_check_config_(leader_t *l, leader_refusal_ *why) {
    leader_config *c = &l->cfg;
    bool single_node = leader_backend_is_empty_(&c->backend);
    if (!leader_check_identity_(l, single_node, why) || !leader_check_value_(l, why)) {
        return false;
    }
    if (!leader_check_backend_(l, why) || !leader_check_ranges_(c, why)) {
        return false;
    }
    l->backs_off = c->retry_max_ms != 0;
    l->warn_short_lease = c->lease_ms != 0 && c->lease_ms < 1000 && c->renew_deadline_ms == 0;
    leader_fill_defaults_(c);
    c->identity = l->identity;
    c->value = l->value;
    if (!leader_check_times_(c, why)) {
        return false;
    }
    if (!leader_watch_forks_()) {
        return leader_refuse_(why, "pthread_atfork failed: out of memory");
    }
    return true;
}

static leader_result leader_init_failed_(leader_t *l, const char *why) {
    leader_shown_ shown;
    memset(&shown, 0, sizeof shown);
    leader_show_(l, &shown);
    leader_set_error_(l, LEADER_E_CONFIG, why);
    l->init_error = leader_error_in_place_(l);
    LEADER_STORE_(&l->life, 0u);
    return LEADER_E_CONFIG;
}

/* A follower that knows nothing yet. */
static void leader_reset_(leader_t *l) {
    int64_t now_ms = leader_now_(l);
    l->pid = leader_pid_();
    l->nonce = LEADER_RANDOM64() | 1;           // never 0, so that 0 can mean "none" in a record
    l->plan.random = leader_mix_(l->nonce) | 1;
    l->state = LEADER_STATE_FOLLOWER;
    l->until_ms = LEADER_NEVER_;
    l->due_ms = now_ms;
    l->lease.hold_until_ms = LEADER_NEVER_;
    l->lease.confirmed_ms = LEADER_NEVER_;
    l->leave.pause_until_ms = LEADER_NEVER_;
    l->fds.polled_ms = LEADER_NEVER_;
    l->plan.free_since_ms = LEADER_NEVER_;
    l->plan.window_ms = now_ms;
    l->plan.next_ms = now_ms;
    l->counts.latency_ms_last = -1;
    l->counts.latency_ms_max = -1;
    l->counts.margin_ms_min = -1;
    l->counts.tick_late_ms_max = -1;
    l->counts.success_ms = LEADER_NEVER_;
    leader_shown_ shown;
    memset(&shown, 0, sizeof shown);
    shown.numbers.state = LEADER_STATE_FOLLOWER;
    shown.numbers.until_ms = LEADER_NEVER_;
    shown.numbers.lease_until_ms = LEADER_NEVER_;
    shown.numbers.confirmed_ms = LEADER_NEVER_;
    leader_show_(l, &shown);
}

LEADER_API leader_result leader_init_(leader_t *l, size_t l_size, const leader_config *cfg, size_t cfg_size,
                                      int version) {
    if (!l) {
        return LEADER_E_CONFIG;
    }
    if (l_size != sizeof *l || cfg_size != sizeof *cfg || version != LEADER_VERSION_NUM) {
        memset(l, 0, l_size < sizeof *l ? l_size : sizeof *l);      // not a byte more than the caller has
        l->init_error =
            "leader.h differs between the caller and the implementation: compile both with the same version";
        return LEADER_E_CONFIG;
    }
    memset(l, 0, sizeof *l);
    if (!cfg) {
        return leader_init_failed_(l, "config is NULL");
    }
    l->cfg = *cfg;
    leader_refusal_ why;
    if (!leader_check_config_(l, &why)) {
        return leader_init_failed_(l, why.text);
    }
    leader_reset_(l);
    leader_host host = {l, &l->cfg, leader_host_fd_, leader_host_due_, leader_host_log_, leader_host_now_,
                        leader_host_error_};
    l->host = host;
    l->life = LEADER_LOAD_(&leader_life_);
    const char *wrong = NULL;
    if (l->cfg.backend.open) {
        wrong = l->cfg.backend.open(l->cfg.backend.self, &l->host);
    }
    return wrong ? leader_init_failed_(l, wrong) : LEADER_OK;
}

/* ---- register engine -----------------------------------------------------------------------------

   Every store that can compare and swap is decided here. An operation reads the record if it must,
   decides, and writes if there is something to write. A write names the version it replaces, so what
   was decided holds for exactly the record it was decided about: a candidate that stalls in between
   fails by construction.

   A store that forgot. Anything that the store loses, a whole record or its latest writes, shows in
   one of four ways: no record although one was seen, another origin, a lower revision, a lower token.
   Its holder may still lead and cannot be asked. So the candidate that sees it is in doubt for a full
   lease, and a record it takes meanwhile says "holding off": its own term begins a full lease after
   that write, and an heir that takes over sooner starts to wait again. */

enum { LEADER_STEP_READ_, LEADER_STEP_DECIDE_, LEADER_STEP_WRITE_ };
enum { LEADER_CONFLICTS_MAX_ = 4, LEADER_WATCH_TRUST_MS_ = 20000 };

static int64_t leader_engine_now_(const leader_engine *e) {
    return e->host.now_ms(e->host.core);
}

static bool leader_engine_absent_(const leader_engine *e) {
    return e->known.version[0] == 0;
}

static bool leader_engine_held_(const leader_engine *e) {
    return e->corrupt || e->known.holder[0] != 0;
}

/* The longest time for which a holder that the store forgot can believe in its lease. */
static int64_t leader_engine_full_lease_(const leader_engine *e) {
    return leader_max_(e->longest_ms, e->host.config->lease_ms);
}

/* For how long a record keeps others out, counted from its write. */
static int64_t leader_entry_claim_(const leader_entry *entry, int64_t full_lease_ms) {
    int64_t lease_ms = entry->lease_ms;
    if (lease_ms <= 0) {
        lease_ms = full_lease_ms;
    }
    return leader_max_(lease_ms, entry->hold_off_ms);
}

/* For how long nobody may take the record: its claim, on our own clock, since it was first seen in
   this form. A store that knows more may shorten it. */
static int64_t leader_engine_rest_(const leader_engine *e, int64_t now_ms) {
    if (!leader_engine_held_(e) || e->known.dead) {
        return 0;
    }
    int64_t full_ms = leader_engine_full_lease_(e);
    int64_t claim_ms = e->corrupt ? full_ms : leader_entry_claim_(&e->known, full_ms);
    int64_t observed_ms = now_ms - e->seen_ms;
    int64_t told_ms = e->known.elapsed_ms + (now_ms - e->learnt_ms);
    return leader_max_(0, claim_ms + 1 - leader_max_(observed_ms, told_ms));
}

static bool leader_engine_is_named_(const leader_engine *e, const leader_request *request) {
    return !e->corrupt && e->known.holder[0] && strcmp(e->known.holder, request->identity) == 0;
}

/* Identity and nonce. A number above the request's own would be a record from the future. */
static bool leader_engine_is_mine_(const leader_engine *e, const leader_request *request) {
    bool same_process = e->known.nonce != 0 && e->known.nonce == request->nonce;
    return leader_engine_is_named_(e, request) && same_process && e->known.seq <= request->seq;
}

/* -- learning what the store says -- */

/* Owner and lease fields make the form; labels, values and versions do not. A store that lost a write
   lets its holder use the number once more: then the time of the write, which is compared with no
   clock, tells the two apart. */
static bool leader_entry_same_form_(const leader_entry *a, const leader_entry *b) {
    bool same_owner = a->nonce == b->nonce && a->seq == b->seq && strcmp(a->holder, b->holder) == 0;
    bool same_lease = a->lease_ms == b->lease_ms && a->hold_off_ms == b->hold_off_ms;
    bool same_write = a->origin == b->origin && a->renewal == b->renewal && a->token == b->token;
    return same_owner && same_lease && same_write && a->renewed_us == b->renewed_us;
}

static bool leader_engine_went_back_(const leader_lineage_ *last, const leader_entry *found) {
    if (found->origin != last->origin) {
        return true;
    }
    if (found->token != 0 && found->token < last->token) {
        return true;
    }
    if (found->revision != 0) {
        return found->revision < last->revision;
    }
    return found->renewal < last->renewal;
}

static void leader_engine_remember_(leader_engine *e) {
    e->seen_any = true;
    e->last.origin = e->known.origin;
    e->last.revision = e->known.revision;
    e->last.renewal = e->known.renewal;
    if (e->known.token != 0) {
        e->last.token = e->known.token;
    }
}

/* Kept whatever the store forgets. What cannot be read, and what is left of a record that is gone, may still
   say for how long it counts. */
static void leader_engine_note_highest_(leader_engine *e, const leader_entry *entry) {
    int64_t claim_ms = leader_max_(entry->lease_ms, entry->hold_off_ms);
    e->longest_ms = leader_max_(e->longest_ms, claim_ms);
    if (entry->token <= LEADER_TOKEN_MAX_) {
        e->highest_token = leader_max_u64_(e->highest_token, entry->token);
    }
}

/* The doubt is decided here, at the look, and carried into the write. What was found out about the
   store holds for this version of the record only: a candidate in doubt always looks again. */
static void leader_engine_judge_(leader_engine *e, const leader_entry *found, int64_t now_ms) {
    bool absent = found->version[0] == 0;
    bool forgot = e->seen_any && (absent || leader_engine_went_back_(&e->last, found));
    if (found->forgot) {
        e->seen_any = true;
        leader_engine_note_highest_(e, found);      // it is the lost record that says so
        forgot = true;
    }
    if (absent && e->corrupt) {     // what could not be read is gone
        forgot = true;
    }
    if (forgot) {                   // the term after ours may be what was lost: ask for the record afresh
        e->term_token = 0;
        e->drawn_again = 0;
    }
    if (forgot || (absent && e->host.config->cautious_start)) {
        e->doubt_until_ms = leader_max_(e->doubt_until_ms, now_ms + leader_engine_full_lease_(e));
    }
    e->doubt = now_ms <= e->doubt_until_ms;
}

/* The first sight of our name with another nonce may be a dead predecessor; a later write cannot be. */
static void leader_engine_spot_duplicate_(leader_engine *e, const leader_entry *found) {
    bool named = found->holder[0] && strcmp(found->holder, e->host.config->identity) == 0;
    bool ours = found->nonce == e->nonce;
    bool runs = found->alive || e->is_known;
    e->duplicate = named && !ours && runs;
}

static void leader_engine_learn_(leader_engine *e, const leader_entry *found, bool corrupt) {
    int64_t now_ms = leader_engine_now_(e);
    bool same = e->is_known && corrupt == e->corrupt && leader_entry_same_form_(&e->known, found);
    bool absent = found->version[0] == 0;
    if (!corrupt || found->forgot) {
        leader_engine_judge_(e, found, now_ms);
    }
    leader_engine_note_highest_(e, found);
    if (!same || absent) {
        e->seen_ms = now_ms;
        leader_engine_spot_duplicate_(e, found);
    }
    e->known = *found;
    e->corrupt = corrupt;
    e->is_known = true;
    e->must_read = false;
    e->learnt_ms = now_ms;
    e->read_ms = now_ms;
    if (!absent && !corrupt) {
        leader_engine_remember_(e);
    }
}

/* What the core hears about the record. */
static void leader_engine_tell_(const leader_engine *e, leader_record *seen) {
    int64_t rest_ms = leader_engine_rest_(e, leader_engine_now_(e));
    memcpy(seen->holder, e->known.holder, sizeof seen->holder);
    memcpy(seen->value, e->known.value, sizeof seen->value);
    seen->token = e->known.token;
    seen->acquired_us = e->known.acquired_us;
    seen->renewed_us = e->known.renewed_us;
    seen->expires_in_ms = rest_ms;
    if (e->known.again_ms > 0 && e->known.again_ms < rest_ms) {
        seen->expires_in_ms = e->known.again_ms;
    }
    if (e->known.locked) {
        seen->expires_in_ms = -1;
    }
}

/* -- deciding -- */

static uint64_t leader_wall_token_(void) {
    return (uint64_t)leader_max_(1, leader_wall_us_() / 1000);
}

/* A term's token is above all earlier ones. Where nothing is left to be above of, the store's own
   counter or the wall clock keeps tokens rising; both where there is no record, because a store that
   was rebuilt counts from the beginning, and where our first record may have come late, see below. */
static uint64_t leader_engine_next_token_(const leader_engine *e, const leader_request *request) {
    uint64_t token = leader_max_u64_(request->min_token, e->known.token + 1);
    token = leader_max_u64_(token, e->highest_token + 1);
    bool counts = e->known.revision != 0;
    bool blank = e->doubt || e->corrupt || e->known.token == 0;
    bool late = e->doubt && e->is_first && leader_engine_is_mine_(e, request);
    if (counts) {
        token = leader_max_u64_(token, e->known.revision + 1);
    }
    if (leader_engine_absent_(e) || late || (blank && !counts)) {
        token = leader_max_u64_(token, leader_wall_token_());
    }
    return token;
}

/* Taking a record before its claim has run out inherits its hold-off. */
static int64_t leader_engine_hold_off_(const leader_engine *e) {
    int64_t now_ms = leader_engine_now_(e);
    int64_t claim_ms = leader_entry_claim_(&e->known, leader_engine_full_lease_(e));
    bool run_out = now_ms > e->seen_ms + claim_ms;
    bool inherits = e->known.hold_off_ms > 0 && !run_out;
    return e->doubt || inherits ? leader_engine_full_lease_(e) : 0;
}

static leader_result leader_engine_take_(leader_engine *e, const leader_request *request) {
    leader_entry *next = &e->next;
    memset(next, 0, sizeof *next);
    leader_copy_text_(next->holder, sizeof next->holder, request->identity);
    memcpy(next->version, e->known.version, sizeof next->version);
    leader_copy_text_(next->value, sizeof next->value, request->value);
    next->nonce = request->nonce;
    next->seq = request->seq;
    next->token = leader_engine_next_token_(e, request);
    next->lease_ms = request->lease_ms;
    next->hold_off_ms = leader_engine_hold_off_(e);
    next->origin = e->corrupt ? e->last.origin : e->known.origin;
    next->renewal = 1 + (e->corrupt ? e->last.renewal : e->known.renewal);
    if (leader_engine_absent_(e) || next->origin == 0) {
        next->origin = LEADER_RANDOM64() | 1;
    }
    next->acquired_us = leader_wall_us_();
    next->renewed_us = next->acquired_us;
    if (next->token > LEADER_TOKEN_MAX_) {
        e->host.log(e->host.core, LEADER_LOG_ERROR, "no token is left below 2^53: repair the record by hand");
        return LEADER_E_CORRUPT;
    }
    e->is_first = leader_engine_absent_(e) || e->known.forgot;
    e->drawn_again = 0;
    e->step = LEADER_STEP_WRITE_;
    return LEADER_PENDING;
}

/* A release for a named heir gives it retry_ms before the others may come. */
static int64_t leader_engine_heir_rest_(const leader_engine *e, const leader_request *request) {
    const char *heir = e->known.heir;
    if (heir[0] == 0 || strcmp(heir, request->identity) == 0) {
        return 0;
    }
    return leader_max_(0, e->seen_ms + e->host.config->retry_ms + 1 - leader_engine_now_(e));
}

static bool leader_engine_may_take_(const leader_engine *e, const leader_request *request) {
    if (e->known.locked) {
        return false;
    }
    if (!leader_engine_held_(e)) {
        return leader_engine_heir_rest_(e, request) == 0;
    }
    if (leader_engine_is_mine_(e, request)) {
        return true;
    }
    if (request->reclaim && leader_engine_is_named_(e, request)) {
        return true;
    }
    return leader_engine_rest_(e, leader_engine_now_(e)) == 0;
}

static leader_result leader_engine_duplicate_(leader_engine *e) {
    char text[LEADER_IDENTITY_MAX + 120];
    snprintf(text, sizeof text, "another process uses our identity \"%s\": give every candidate its own name",
             e->host.config->identity);
    e->host.log(e->host.core, LEADER_LOG_ERROR, text);
    return LEADER_E_DUPLICATE;
}

static leader_result leader_engine_decide_acquire_(leader_engine *e, const leader_request *request,
                                                   leader_record *seen) {
    if (leader_engine_may_take_(e, request)) {
        return leader_engine_take_(e, request);
    }
    leader_engine_tell_(e, seen);
    if (e->corrupt) {
        return LEADER_E_CORRUPT;
    }
    if (!leader_engine_held_(e) && !e->known.locked) {
        seen->expires_in_ms = leader_engine_heir_rest_(e, request);
    }
    if (e->duplicate) {
        return leader_engine_duplicate_(e);
    }
    return LEADER_HELD;
}

/* What a renewal and a release have in common: our record once more. */
static void leader_engine_draft_own_(leader_engine *e) {
    int64_t now_ms = leader_engine_now_(e);
    e->next = e->known;
    e->next.renewal = e->known.renewal + 1;
    e->next.renewed_us = leader_wall_us_();
    e->next.hold_off_ms = 0;
    if (e->hold_until_ms > now_ms) {
        e->next.hold_off_ms = e->hold_until_ms - now_ms;
    }
    e->step = LEADER_STEP_WRITE_;
}

/* A first record names no version: a late one may stand in a store that was wiped once more, with a token
   below that of a term in between. A renewal does name one, and nobody was told a token yet. */
static bool leader_engine_draws_again_(const leader_engine *e) {
    return e->op == LEADER_OP_RENEW_ && e->is_first && e->next.hold_off_ms > 0;
}

static void leader_engine_draw_again_(leader_engine *e) {
    if (e->drawn_again == 0) {
        e->drawn_again = leader_max_u64_(e->known.token, leader_wall_token_());
    }
    e->next.token = e->drawn_again;
}

static bool leader_engine_is_our_term_(const leader_engine *e, const leader_request *request) {
    bool same_token = e->known.token == e->term_token || e->known.token == e->drawn_again;
    return same_token && leader_engine_is_mine_(e, request);
}

static leader_result leader_engine_decide_renew_(leader_engine *e, const leader_request *request,
                                                 leader_record *seen) {
    if (e->corrupt) {
        return LEADER_E_CORRUPT;
    }
    if (leader_engine_is_our_term_(e, request) && !e->known.locked) {
        leader_engine_draft_own_(e);
        if (leader_engine_draws_again_(e)) {
            leader_engine_draw_again_(e);
        }
        e->next.lease_ms = request->lease_ms;
        leader_copy_text_(e->next.value, sizeof e->next.value, request->value);
        return LEADER_PENDING;
    }
    leader_engine_tell_(e, seen);
    if (e->duplicate) {
        return leader_engine_duplicate_(e);
    }
    return LEADER_LOST;
}

/* A record written while holding off is never released: its successor could start beside the holder
   that the store forgot. */
static bool leader_engine_must_expire_(const leader_engine *e) {
    if (e->doubt) {
        return true;
    }
    bool served = e->hold_until_ms != LEADER_NEVER_ && leader_engine_now_(e) > e->hold_until_ms;
    return e->known.hold_off_ms > 0 && !served;
}

static leader_result leader_engine_decide_release_(leader_engine *e, const leader_request *request) {
    if (e->corrupt) {
        return LEADER_E_CORRUPT;
    }
    if (!leader_engine_is_mine_(e, request) || leader_engine_must_expire_(e)) {
        return LEADER_LOST;
    }
    leader_engine_draft_own_(e);
    memset(e->next.holder, 0, sizeof e->next.holder);
    memset(e->next.value, 0, sizeof e->next.value);
    leader_copy_text_(e->next.heir, sizeof e->next.heir, request->heir);
    return LEADER_PENDING;
}

static leader_result leader_engine_decide_(leader_engine *e, const leader_request *request,
                                           leader_record *seen) {
    switch (e->op) {
    case LEADER_OP_ACQUIRE_:
        return leader_engine_decide_acquire_(e, request, seen);
    case LEADER_OP_RENEW_:
        return leader_engine_decide_renew_(e, request, seen);
    case LEADER_OP_RELEASE_:
        return leader_engine_decide_release_(e, request);
    default:
        leader_engine_tell_(e, seen);
        return seen->expires_in_ms != 0 && leader_engine_held_(e) ? LEADER_HELD : LEADER_OK;
    }
}

/* -- one operation -- */

/* May an answer come from what the notices told, without asking? Only while they keep coming: a
   holder that renews makes one every third of its lease. Now and then the store is asked anyway. */
static bool leader_engine_trusts_news_(const leader_engine *e) {
    int64_t now_ms = leader_engine_now_(e);
    int64_t claim_ms = leader_entry_claim_(&e->known, leader_engine_full_lease_(e));
    bool talks = e->listening && now_ms - e->heard_ms < claim_ms / 3 + 1000;
    return talks && now_ms - e->read_ms < LEADER_WATCH_TRUST_MS_;
}

/* A write needs no reading before it: it succeeds only if the record is as we know it. To answer
   "held" takes fresh news. */
static bool leader_engine_needs_read_(const leader_engine *e, const leader_request *request) {
    if (!e->is_known || e->must_read || e->doubt || e->corrupt) {
        return true;
    }
    if (e->op == LEADER_OP_RENEW_ || e->op == LEADER_OP_RELEASE_) {
        return false;
    }
    if (e->op == LEADER_OP_ACQUIRE_ && !leader_engine_absent_(e) && leader_engine_may_take_(e, request)) {
        return false;
    }
    return !leader_engine_trusts_news_(e);
}

static void leader_engine_begin_(leader_engine *e, int op, const leader_request *request) {
    e->op = op;
    e->seq = request->seq;
    e->nonce = request->nonce;
    e->conflicts = 0;
    e->step = leader_engine_needs_read_(e, request) ? LEADER_STEP_READ_ : LEADER_STEP_DECIDE_;
    e->call_id++;
    e->call_ms = request->now_ms;
}

static leader_call leader_engine_call_(const leader_engine *e, const leader_request *request) {
    leader_call call;
    memset(&call, 0, sizeof call);
    call.id = e->call_id;
    call.now_ms = e->call_ms;
    call.timeout_ms = request->timeout_ms;
    bool gives_token = e->op == LEADER_OP_ACQUIRE_ || leader_engine_draws_again_(e);
    call.begins = e->step == LEADER_STEP_WRITE_ && gives_token;
    call.competes = e->step == LEADER_STEP_READ_ && e->op == LEADER_OP_ACQUIRE_;
    return call;
}

static int64_t leader_clamp_time_(int64_t ms) {
    return leader_max_(0, leader_min_(ms, LEADER_TIME_MAX_MS_));
}

/* What a store says is bounded before anybody reckons with it. */
static void leader_entry_bound_(leader_entry *entry) {
    entry->holder[sizeof entry->holder - 1] = 0;
    entry->value[sizeof entry->value - 1] = 0;
    entry->heir[sizeof entry->heir - 1] = 0;
    entry->version[sizeof entry->version - 1] = 0;
    entry->lease_ms = leader_clamp_time_(entry->lease_ms);
    entry->hold_off_ms = leader_clamp_time_(entry->hold_off_ms);
    entry->elapsed_ms = leader_clamp_time_(entry->elapsed_ms);
    entry->again_ms = leader_clamp_time_(entry->again_ms);
    if (entry->version[0] == 0) {
        entry->holder[0] = 0;
    }
}

static leader_result leader_engine_read_(leader_engine *e, const leader_request *request,
                                         leader_record *seen) {
    leader_entry found;
    memset(&found, 0, sizeof found);
    leader_call call = leader_engine_call_(e, request);
    leader_result result = e->store.read(e->store.self, &call, &found);
    leader_entry_bound_(&found);
    bool readable = result == LEADER_OK;
    bool replaceable = result == LEADER_E_CORRUPT && found.version[0] != 0;
    if (!readable && !replaceable) {
        seen->again_ms = found.again_ms;
        return result;
    }
    leader_engine_learn_(e, &found, replaceable);
    e->step = LEADER_STEP_DECIDE_;
    return LEADER_OK;
}

/* Our write is in the store: the record is ours, or released. */
static void leader_engine_wrote_(leader_engine *e, const leader_entry *stored, leader_record *seen) {
    int64_t now_ms = leader_engine_now_(e);
    e->known = *stored;
    e->known.dead = false;
    e->known.elapsed_ms = 0;
    e->corrupt = false;
    e->doubt = false;
    e->duplicate = false;
    e->must_read = false;
    e->seen_ms = now_ms;
    e->learnt_ms = now_ms;
    e->read_ms = now_ms;
    leader_engine_remember_(e);
    leader_engine_note_highest_(e, stored);
    if (e->op == LEADER_OP_ACQUIRE_) {
        e->hold_until_ms = e->next.hold_off_ms > 0 ? now_ms + e->next.hold_off_ms : LEADER_NEVER_;
        seen->hold_off_ms = e->next.hold_off_ms;
    }
    e->term_token = e->op == LEADER_OP_RELEASE_ ? 0 : stored->token;
    leader_engine_tell_(e, seen);
}

/* Somebody else wrote first. Look again; after many conflicts leave the field to the others. */
static leader_result leader_engine_conflict_(leader_engine *e, leader_record *seen) {
    e->must_read = true;
    e->conflicts++;
    if (e->conflicts <= LEADER_CONFLICTS_MAX_) {
        e->step = LEADER_STEP_READ_;
        e->call_id++;
        e->call_ms = leader_engine_now_(e);
        return LEADER_PENDING;
    }
    if (e->op == LEADER_OP_ACQUIRE_) {
        seen->expires_in_ms = -1;
        return LEADER_HELD;
    }
    e->host.log(e->host.core, LEADER_LOG_ERROR, "the record changes too fast to be written");
    return LEADER_E_IO;
}

static leader_result leader_engine_write_(leader_engine *e, const leader_request *request,
                                          leader_record *seen) {
    leader_entry stored = e->next;
    stored.again_ms = 0;
    leader_call call = leader_engine_call_(e, request);
    leader_result result = e->store.write(e->store.self, &call, &e->next, &stored);
    leader_entry_bound_(&stored);
    if (result == LEADER_OK && stored.version[0] == 0) {
        e->host.log(e->host.core, LEADER_LOG_ERROR, "leader_register.write answered OK without a version");
        result = LEADER_E_STATE;
    }
    switch (result) {
    case LEADER_OK:
        leader_engine_wrote_(e, &stored, seen);
        return LEADER_OK;
    case LEADER_PENDING:
        seen->again_ms = stored.again_ms;
        return LEADER_PENDING;
    case LEADER_LOST:
        return leader_engine_conflict_(e, seen);
    default:
        e->must_read = true;        // it may have been written: the next look finds out
        seen->again_ms = stored.again_ms;
        return result;
    }
}

static leader_result leader_engine_step_(leader_engine *e, const leader_request *request,
                                         leader_record *seen) {
    if (e->step == LEADER_STEP_READ_) {
        leader_result result = leader_engine_read_(e, request, seen);
        if (result != LEADER_OK) {
            return result;
        }
    }
    if (e->step == LEADER_STEP_DECIDE_) {
        leader_result result = leader_engine_decide_(e, request, seen);
        if (result != LEADER_PENDING) {
            return result;
        }
        e->call_id++;
    }
    return leader_engine_write_(e, request, seen);
}

static void leader_engine_check_(const leader_engine *e) {
    LEADER_ASSERT(e->op >= LEADER_OP_NONE_ && e->op <= LEADER_OP_OBSERVE_);
    LEADER_ASSERT(e->step >= LEADER_STEP_READ_ && e->step <= LEADER_STEP_WRITE_);
    LEADER_ASSERT(e->conflicts <= LEADER_CONFLICTS_MAX_ + 1);
    LEADER_ASSERT(!e->seen_any || e->is_known);
    LEADER_ASSERT(!e->corrupt || e->known.version[0] != 0);
    LEADER_ASSERT(e->known.version[0] != 0 || e->known.holder[0] == 0);
    LEADER_ASSERT(e->longest_ms >= 0 && e->longest_ms <= LEADER_TIME_MAX_MS_);
    LEADER_ASSERT(e->term_token <= LEADER_TOKEN_MAX_);
    LEADER_ASSERT(e->op == LEADER_OP_NONE_ || e->seq != 0);
    (void)e;
}

static leader_result leader_engine_run_(leader_engine *e, int op, const leader_request *request,
                                        leader_record *seen) {
    if (e->op != op || e->seq != request->seq) {
        leader_engine_begin_(e, op, request);
    }
    leader_result result = LEADER_PENDING;
    uint64_t asked_id = 0;
    while (result == LEADER_PENDING && e->call_id != asked_id) {
        asked_id = e->call_id;
        result = leader_engine_step_(e, request, seen);
    }
    if (result != LEADER_PENDING) {
        e->op = LEADER_OP_NONE_;
    }
    leader_engine_check_(e);
    return result;
}

static leader_result leader_engine_acquire_(void *self, const leader_request *request, leader_record *seen) {
    return leader_engine_run_((leader_engine *)self, LEADER_OP_ACQUIRE_, request, seen);
}

static leader_result leader_engine_renew_(void *self, const leader_request *request, leader_record *seen) {
    return leader_engine_run_((leader_engine *)self, LEADER_OP_RENEW_, request, seen);
}

static leader_result leader_engine_release_(void *self, const leader_request *request, leader_record *seen) {
    return leader_engine_run_((leader_engine *)self, LEADER_OP_RELEASE_, request, seen);
}

static leader_result leader_engine_observe_(void *self, const leader_request *request, leader_record *seen) {
    return leader_engine_run_((leader_engine *)self, LEADER_OP_OBSERVE_, request, seen);
}

/* -- notices -- */

/* A record that came by itself. True: an attempt is worth its while now. An older one than we know
   tells nothing; one of another origin is not believed without asking. */
static bool leader_engine_hear_(leader_engine *e, const leader_entry *found) {
    e->heard_ms = leader_engine_now_(e);
    if (!e->is_known || e->corrupt || found->version[0] == 0 || found->origin != e->last.origin) {
        e->must_read = true;
        return true;
    }
    if (leader_engine_went_back_(&e->last, found)) {
        return false;
    }
    bool ours_before = e->known.nonce == e->nonce && e->known.holder[0] != 0;
    bool changed = strcmp(found->holder, e->known.holder) != 0 || found->nonce != e->known.nonce;
    bool must_read = e->must_read;
    int64_t read_ms = e->read_ms;
    leader_engine_learn_(e, found, false);
    e->must_read = must_read;       // hearing is not asking
    e->read_ms = read_ms;
    return found->holder[0] == 0 || changed || (ours_before && found->nonce != e->nonce);
}

static bool leader_engine_take_news_(leader_engine *e, leader_news news, const leader_entry *found) {
    switch (news) {
    case LEADER_NEWS_CHANGED:
        e->must_read = true;
        return true;
    case LEADER_NEWS_RECORD:
        return leader_engine_hear_(e, found);
    case LEADER_NEWS_LISTENING:
        e->listening = true;
        e->heard_ms = leader_engine_now_(e);
        return false;
    case LEADER_NEWS_DEAF:
        e->listening = false;
        return false;
    case LEADER_NEWS_NONE:
        break;
    }
    return false;
}

/* News wait while a request is under way: its answer was decided about the record as it was. */
static bool leader_engine_poll_(void *self) {
    enum { NEWS_MAX = 64 };
    leader_engine *e = (leader_engine *)self;
    bool worth = false;
    for (int i = 0; i < NEWS_MAX && e->op == LEADER_OP_NONE_; i++) {
        leader_entry found;
        memset(&found, 0, sizeof found);
        leader_news news = e->store.notice(e->store.self, &found);
        if (news == LEADER_NEWS_NONE) {
            break;
        }
        leader_entry_bound_(&found);
        if (leader_engine_take_news_(e, news, &found)) {
            worth = true;
        }
    }
    leader_engine_check_(e);
    return worth;
}

/* -- open and close -- */

static void leader_engine_cancel_(void *self) {
    leader_engine *e = (leader_engine *)self;
    if (e->step == LEADER_STEP_WRITE_) {
        e->must_read = true;
    }
    e->op = LEADER_OP_NONE_;
    if (e->store.cancel) {
        e->store.cancel(e->store.self);
    }
}

static const char *leader_engine_open_(void *self, const leader_host *host) {
    leader_engine *e = (leader_engine *)self;
    leader_register store = e->store;
    memset(e, 0, sizeof *e);
    e->store = store;
    e->host = *host;
    e->doubt_until_ms = LEADER_NEVER_;
    e->hold_until_ms = LEADER_NEVER_;
    if (!store.read) {
        return "leader_register.read is missing";
    }
    if (!store.write) {
        return "leader_register.write is missing";
    }
    return store.open ? store.open(store.self, host) : NULL;
}

static void leader_engine_close_(void *self) {
    leader_engine *e = (leader_engine *)self;
    if (e->store.close) {
        e->store.close(e->store.self);
    }
}

LEADER_API leader_backend leader_register_backend(leader_engine *e, const leader_register *store) {
    leader_backend backend;
    memset(&backend, 0, sizeof backend);
    memset(e, 0, sizeof *e);
    e->store = *store;
    backend.self = e;
    backend.acquire = leader_engine_acquire_;
    backend.renew = leader_engine_renew_;
    backend.release = leader_engine_release_;
    backend.observe = leader_engine_observe_;
    backend.poll = store->notice ? leader_engine_poll_ : NULL;
    backend.cancel = leader_engine_cancel_;
    backend.open = leader_engine_open_;
    backend.close = leader_engine_close_;
    backend.name = store->name;
    return backend;
}

/* ---- file backend ------------------------------------------------------------------------------

   Beside "job.lease" stands the directory "job.lease.d". In it:

       record/               one empty file: its name is the record, and no name ever returns
       term.<nonce>.<n>      what the name leaves out: who holds it, and on which kernel
       lock.<nonce>          locked by the process with that nonce for as long as it lives

   A write renames the file in record/. The old name is the comparison, the new name the swap: of all
   that write upon one record, one succeeds, and a writer that was stopped on the way, for however
   long, finds that its old name is gone. Where there is no record, a directory that already holds
   the first one is renamed to record/, which the system refuses unless nothing is there. The write
   counts if the directory still stands at its path afterwards. No listing decides anything.

   A renewal is that rename and nothing else. When a term begins, the text, then both directories are
   synced before the write counts, and so is the name of "job.lease.d" itself, which a standby has
   done beforehand; token and lease are part of the name, so they survive whatever else a power failure
   takes away. Should the text be lost, the record belongs to an unknown for that lease.

   A free lock of the very inode that the text names, on this kernel and a local file system, means
   that the holder is dead. A lock can only shorten a lease, never lengthen it.

   "job.lease" itself is a copy for people and other programs, written one tick later. While there is
   a record, it decides nothing. Where the record is gone, a copy shows that the store was wiped: the
   next leader holds off for a lease, and tokens go on above the copy's. The record of another
   program, which needs no more than holder, renewTime and leaseDuration, keeps everyone out for its
   lease before that.

   A tick writes to a disk and may take as long as the disk does. It needs about 20 KB of stack.

   On Windows all is the same, except: paths are UTF-8; rights are inherited from the directory
   (leader_file_mode does nothing); there are no notices, so standbys poll; a lease is always observed. */

#if !defined(LEADER_NO_FILE)

LEADER_API void leader_file_mode(leader_file *f, int mode) {
    f->mode = mode;
}

LEADER_API int leader_file_lock_fd(const leader_file *f) {
    return f->lock_inode ? f->lock_fd : -1;
}

#if !defined(_WIN32)
#  include <sys/stat.h>
#endif
#if defined(__linux__)
#  include <sys/inotify.h>
#  include <sys/vfs.h>
#  ifndef F_OFD_GETLK
#    define F_OFD_GETLK 36          // glibc shows them only under _GNU_SOURCE; the numbers never change
#    define F_OFD_SETLK 37
#  endif
#elif !defined(_WIN32)
#  include <dirent.h>
#endif

enum { LEADER_FILE_TEXT_MAX_ = 8192, LEADER_FILE_NAME_MAX_ = 48, LEADER_FILE_TRIES_ = 16 };
static const char leader_file_record_[] = "record";
static const char leader_file_released_[] = ".released";   // the end of a record's name

/* -- errors -- */

static leader_result leader_file_fail_(leader_file *f, leader_result code, const char *format, ...)
    LEADER_PRINTF_(3, 4);
static leader_result leader_file_fail_(leader_file *f, leader_result code, const char *format, ...) {
    char text[LEADER_PATH_MAX + 160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    f->host.log(f->host.core, LEADER_LOG_ERROR, text);
    return code;
}

/* Of a long path its end, so that what is wrong with it still fits into leader_error(). */
static const char *leader_file_tail_(const char *path) {
    enum { SHOWN = 80 };
    size_t n = strlen(path);
    return n > SHOWN ? path + n - SHOWN : path;
}

static leader_result leader_file_errno_(leader_file *f, const char *what, const char *name) {
    int e = errno;
    bool refused = e == EACCES || e == EPERM;
    leader_result code = refused ? LEADER_E_AUTH : LEADER_E_IO;
    return leader_file_fail_(f, code, "%s %s: %s", what, leader_file_tail_(name), strerror(e));
}

/* -- the system: what the rest of the file backend asks of it. Errors are told in errno -- */

typedef enum leader_open_ {
    LEADER_OPEN_DIR_,
    LEADER_OPEN_OWN_DIR_,           // one that we made, to be renamed
    LEADER_OPEN_READ_,
    LEADER_OPEN_NEW_                // to write and to lock; EEXIST: there is one
} leader_open_;

typedef struct leader_stat_ {
    uint64_t device, inode;
    int64_t  changed_ns;
    bool     regular;
} leader_stat_;

typedef void leader_file_each_(void *to, int dir, const char *name);

#if defined(_WIN32)

/* A handle has 32 bits that matter, so it is kept as an int; INVALID_HANDLE_VALUE is -1. */
#define LEADER_HERE_ (-2)           // the directory of a path
enum { LEADER_WIDE_MAX_ = LEADER_PATH_MAX + LEADER_ENTRY_VERSION_MAX + 80 };

typedef struct leader_wide_ { wchar_t text[LEADER_WIDE_MAX_]; } leader_wide_;

static HANDLE leader_fs_handle_(int fd) {
    return (HANDLE)(intptr_t)fd;
}

/* Answers false, so that it can be returned. */
static bool leader_fs_failed_(void) {
    static const struct { DWORD code; int as; } known[] = {
        {ERROR_FILE_NOT_FOUND, ENOENT}, {ERROR_PATH_NOT_FOUND, ENOENT}, {ERROR_BAD_NETPATH, ENOENT},
        {ERROR_ALREADY_EXISTS, EEXIST}, {ERROR_FILE_EXISTS, EEXIST}, {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
        {ERROR_ACCESS_DENIED, EACCES}, {ERROR_WRITE_PROTECT, EACCES}, {ERROR_SHARING_VIOLATION, EBUSY},
        {ERROR_LOCK_VIOLATION, EBUSY}, {ERROR_DIRECTORY, ENOTDIR}, {ERROR_DISK_FULL, ENOSPC},
        {ERROR_TOO_MANY_OPEN_FILES, EMFILE}, {ERROR_NOT_ENOUGH_MEMORY, ENOMEM}};
    DWORD code = GetLastError();
    errno = EIO;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].code == code) {
            errno = known[i].as;
        }
    }
    return false;
}

/* The full name, in the form that may be longer than 260 characters. */
static bool leader_fs_path_(int dir, const char *name, leader_wide_ *path) {
    const wchar_t *const prefix = L"\\\\?\\";
    size_t at = 0;
    bool has_drive = name[0] && name[1] == ':';
    if (dir != LEADER_HERE_) {
        at = GetFinalPathNameByHandleW(leader_fs_handle_(dir), path->text, LEADER_WIDE_MAX_ - 2, 0);
        if (at == 0 || at >= LEADER_WIDE_MAX_ - 2) {
            return leader_fs_failed_();
        }
        path->text[at++] = L'\\';
    } else if (has_drive) {
        at = wcslen(prefix);
        memcpy(path->text, prefix, at * sizeof prefix[0]);
    }
    int room = (int)(LEADER_WIDE_MAX_ - at);
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, name, -1, path->text + at, room) == 0) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (wchar_t *slash = wcschr(path->text + at, L'/'); slash; slash = wcschr(slash, L'/')) {
        *slash = L'\\';            // in this form the other one is part of a name
    }
    return true;
}

static HANDLE leader_fs_create_(int dir, const char *name, DWORD access, DWORD share, DWORD creation) {
    leader_wide_ path;
    if (!leader_fs_path_(dir, name, &path)) {
        return INVALID_HANDLE_VALUE;
    }
    // directories too; no link is followed
    const DWORD flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
    HANDLE handle = CreateFileW(path.text, access, share, NULL, creation, flags, NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        leader_fs_failed_();
    }
    return handle;
}

/* Waits a little for others that have it open. */
static HANDLE leader_fs_create_patiently_(int dir, const char *name, DWORD access, DWORD share,
                                          DWORD creation) {
    HANDLE handle = INVALID_HANDLE_VALUE;
    for (int tries = 0; tries < LEADER_FILE_TRIES_; tries++) {
        handle = leader_fs_create_(dir, name, access, share, creation);
        bool busy = handle == INVALID_HANDLE_VALUE && errno == EBUSY;
        if (!busy) {
            break;
        }
        Sleep(1);
    }
    return handle;
}

static void leader_fs_close_(int fd) {
    CloseHandle(leader_fs_handle_(fd));
}

static int leader_fs_open_(int dir, const char *name, leader_open_ how, int mode) {
    static const DWORD access[] = {GENERIC_READ, GENERIC_READ | DELETE, GENERIC_READ,
                                   GENERIC_READ | GENERIC_WRITE | DELETE};
    static const DWORD creation[] = {OPEN_EXISTING, OPEN_EXISTING, OPEN_EXISTING, CREATE_NEW};
    const DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    BY_HANDLE_FILE_INFORMATION info;
    (void)mode;                     // what is made inherits the rights of its directory
    HANDLE handle = leader_fs_create_patiently_(dir, name, access[how], share, creation[how]);
    if (handle == INVALID_HANDLE_VALUE) {
        return -1;
    }
    int wrong = 0;
    if (!GetFileInformationByHandle(handle, &info)) {
        wrong = EIO;
    } else if (info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) {
        wrong = ELOOP;
    } else if (how <= LEADER_OPEN_OWN_DIR_ && !(info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY)) {
        wrong = ENOTDIR;
    }
    if (wrong == 0) {
        return (int)(intptr_t)handle;
    }
    CloseHandle(handle);
    errno = wrong;
    return -1;
}

static int64_t leader_fs_read_(int fd, char *buf, size_t cap) {
    DWORD got = 0;
    if (!ReadFile(leader_fs_handle_(fd), buf, (DWORD)cap, &got, NULL)) {
        leader_fs_failed_();
        return -1;
    }
    return (int64_t)got;
}

static int64_t leader_fs_write_(int fd, const char *buf, size_t len) {
    DWORD put = 0;
    if (!WriteFile(leader_fs_handle_(fd), buf, (DWORD)len, &put, NULL)) {
        leader_fs_failed_();
        return -1;
    }
    return (int64_t)put;
}

static bool leader_fs_stat_(int fd, leader_stat_ *out) {
    const DWORD special = FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT;
    BY_HANDLE_FILE_INFORMATION info;
    FILE_BASIC_INFO times;
    HANDLE handle = leader_fs_handle_(fd);
    if (!GetFileInformationByHandle(handle, &info)) {
        return leader_fs_failed_();
    }
    if (!GetFileInformationByHandleEx(handle, FileBasicInfo, &times, (DWORD)sizeof times)) {
        return leader_fs_failed_();
    }
    out->device = info.dwVolumeSerialNumber;
    out->inode = ((uint64_t)info.nFileIndexHigh << 32) | info.nFileIndexLow;
    out->changed_ns = (int64_t)times.ChangeTime.QuadPart;
    out->regular = !(info.dwFileAttributes & special) && GetFileType(handle) == FILE_TYPE_DISK;
    return true;
}

static bool leader_fs_stat_at_(int dir, const char *name, leader_stat_ *out) {
    const DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    HANDLE handle = leader_fs_create_(dir, name, FILE_READ_ATTRIBUTES, share, OPEN_EXISTING);
    if (handle == INVALID_HANDLE_VALUE) {
        return false;
    }
    bool good = leader_fs_stat_((int)(intptr_t)handle, out);
    CloseHandle(handle);
    return good;
}

static bool leader_fs_remove_(int dir, const char *name) {
    leader_wide_ path;
    if (!leader_fs_path_(dir, name, &path)) {
        return false;
    }
    return DeleteFileW(path.text) || leader_fs_failed_();
}

static bool leader_fs_remove_dir_(int dir, const char *name) {
    leader_wide_ path;
    if (!leader_fs_path_(dir, name, &path)) {
        return false;
    }
    return RemoveDirectoryW(path.text) || leader_fs_failed_();
}

static bool leader_fs_make_dir_(int dir, const char *name, int mode) {
    leader_wide_ path;
    (void)mode;
    if (!leader_fs_path_(dir, name, &path)) {
        return false;
    }
    return CreateDirectoryW(path.text, NULL) || leader_fs_failed_();
}

static bool leader_fs_move_(int from_dir, const char *from, int to_dir, const char *to, DWORD flags) {
    leader_wide_ old_path, new_path;
    if (!leader_fs_path_(from_dir, from, &old_path) || !leader_fs_path_(to_dir, to, &new_path)) {
        return false;
    }
    return MoveFileExW(old_path.text, new_path.text, flags) || leader_fs_failed_();
}

/* In place of what has the new name, once nobody reads that. Only for what is ours alone. */
static bool leader_fs_rename_(int from_dir, const char *from, int to_dir, const char *to) {
    bool good = false;
    errno = EACCES;
    for (int tries = 0; tries < LEADER_FILE_TRIES_ && !good && errno == EACCES; tries++) {
        if (tries > 0) {
            Sleep(1);
        }
        good = leader_fs_move_(from_dir, from, to_dir, to, MOVEFILE_REPLACE_EXISTING);
    }
    return good;
}

/* Windows renames the file that is open, whatever its name is by then: MoveFile opens the old name and
   shares it, so two of them could both succeed, one after the other. Opened for us alone, it has the old
   name until we rename it. A process that is suspended between the two calls keeps the others out until
   it goes on or dies; it costs no safety. */
static HANDLE leader_fs_open_alone_(int dir, const char *name) {
    return leader_fs_create_patiently_(dir, name, DELETE | SYNCHRONIZE, 0, OPEN_EXISTING);
}

/* Renames what is open. */
static bool leader_fs_give_name_(HANDLE handle, int dir, const char *to, bool replaces) {
    union { FILE_RENAME_INFO info; char space[sizeof(FILE_RENAME_INFO) + sizeof(leader_wide_)]; } move;
    leader_wide_ path;
    if (!leader_fs_path_(dir, to, &path)) {
        return false;
    }
    size_t bytes = wcslen(path.text) * sizeof path.text[0];
    memset(&move, 0, sizeof move);
    move.info.ReplaceIfExists = replaces;
    move.info.FileNameLength = (DWORD)bytes;
    memcpy(move.space + offsetof(FILE_RENAME_INFO, FileName), path.text, bytes);
    return SetFileInformationByHandle(handle, FileRenameInfo, &move, (DWORD)sizeof move)
        || leader_fs_failed_();
}

/* The same for a file of ours that is open. */
static bool leader_fs_rename_open_(int fd, int dir, const char *from, const char *to) {
    (void)from;
    return leader_fs_give_name_(leader_fs_handle_(fd), dir, to, true);
}

/* The comparison and the swap: of all that rename it from this name, one succeeds. ENOENT: another did. */
static bool leader_fs_swap_(int dir, const char *from, const char *to) {
    HANDLE handle = leader_fs_open_alone_(dir, from);
    if (handle == INVALID_HANDLE_VALUE) {
        return false;
    }
    bool good = leader_fs_give_name_(handle, dir, to, false);
    CloseHandle(handle);
    return good;
}

/* A directory in place of nothing, or of an empty one. ENOTEMPTY, EEXIST: there is one. made: it, open. */
static bool leader_fs_put_dir_(int dir, int made, const char *from, const char *to) {
    (void)from;
    if (leader_fs_give_name_(leader_fs_handle_(made), dir, to, false)) {
        return true;
    }
    return leader_fs_remove_dir_(dir, to) && leader_fs_give_name_(leader_fs_handle_(made), dir, to, false);
}

/* In place of nothing; otherwise it stays where it is. */
static void leader_fs_put_back_(const char *from, const char *to) {
    leader_fs_move_(LEADER_HERE_, from, LEADER_HERE_, to, 0);
}

static bool leader_fs_sync_(int fd) {
    return FlushFileBuffers(leader_fs_handle_(fd)) || leader_fs_failed_();
}

/* NTFS has one log for all names. The text of a term is flushed after its record was renamed, and takes
   the log up to there with it. */
static bool leader_fs_sync_dir_(int dir) {
    (void)dir;
    return true;
}

static bool leader_fs_separates_(char c) {
    return c == '/' || c == '\\';
}

static bool leader_fs_sync_parent_(int dir) {
    (void)dir;
    return true;
}

static bool leader_fs_names_(int dir, leader_file_each_ *each, void *to) {
    leader_wide_ pattern;
    WIN32_FIND_DATAW found;
    char name[sizeof found.cFileName * 2];
    if (!leader_fs_path_(dir, "*", &pattern)) {
        return false;
    }
    HANDLE listing = FindFirstFileW(pattern.text, &found);
    if (listing == INVALID_HANDLE_VALUE) {
        return leader_fs_failed_();
    }
    bool more = true;
    while (more) {
        if (WideCharToMultiByte(CP_UTF8, 0, found.cFileName, -1, name, (int)sizeof name, NULL, NULL) > 0) {
            each(to, dir, name);
        }
        more = FindNextFileW(listing, &found) != 0;
    }
    bool whole = GetLastError() == ERROR_NO_MORE_FILES || leader_fs_failed_();
    FindClose(listing);
    return whole;
}

/* Locks mean something where this kernel alone manages the volume: a server forgets the locks of a client
   that it cannot reach. */
static bool leader_file_local_(int dir) {
    enum { DRIVE_AT = 4 };          // after the \\?\ of a full name
    static const wchar_t *const known[] = {L"NTFS", L"ReFS"};
    leader_wide_ path;
    wchar_t kind[MAX_PATH + 1];
    bool named = leader_fs_path_(dir, "", &path) && path.text[DRIVE_AT + 1] == L':';
    if (!named || !GetVolumeInformationByHandleW(leader_fs_handle_(dir), NULL, 0, NULL, NULL, NULL, kind,
                                                 MAX_PATH)) {
        return false;
    }
    const wchar_t root[] = {path.text[DRIVE_AT], L':', L'\\', 0};
    bool known_kind = wcscmp(kind, known[0]) == 0 || wcscmp(kind, known[1]) == 0;
    return known_kind && GetDriveTypeW(root) == DRIVE_FIXED;
}

/* The lock belongs to the handle and goes with the process. */
static bool leader_fs_take_lock_(int fd) {
    OVERLAPPED at;
    memset(&at, 0, sizeof at);
    const DWORD flags = LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY;
    return LockFileEx(leader_fs_handle_(fd), flags, 0, 1, 0, &at) || leader_fs_failed_();
}

/* May a record name a lock in here? Not one that a server keeps for us: seen from there it is a local one. */
static bool leader_fs_lock_counts_(int dir) {
    return leader_file_local_(dir);
}

/* Shared, so that those who ask do not see one another. */
static bool leader_fs_lock_is_free_(int fd) {
    OVERLAPPED at;
    memset(&at, 0, sizeof at);
    if (!LockFileEx(leader_fs_handle_(fd), LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)) {
        return false;
    }
    UnlockFileEx(leader_fs_handle_(fd), 0, 1, 0, &at);
    return true;
}

/* A later change of directory must not move the lease. */
static const char *leader_file_make_absolute_(leader_file *f) {
    leader_wide_ path, full;
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, f->path, -1, path.text, LEADER_WIDE_MAX_) == 0) {
        return "leader_file_backend: path is not UTF-8";
    }
    DWORD n = GetFullPathNameW(path.text, LEADER_WIDE_MAX_, full.text, NULL);
    bool fits = n > 0 && n < LEADER_WIDE_MAX_;
    if (!fits || !WideCharToMultiByte(CP_UTF8, 0, full.text, -1, f->path, (int)sizeof f->path, NULL, NULL)) {
        return "leader_file_backend: path is longer than LEADER_PATH_MAX with the working directory before "
               "it";
    }
    return NULL;
}

/* One clock for every process of this machine, but no name for the time since it started: a lease is
   observed. */
static void leader_file_learn_(leader_file *f) {
    snprintf(f->boot_id, sizeof f->boot_id, "windows");
    f->ready = true;
}

/* Who may write into the directory is for its access control list to say. */
static leader_result leader_file_check_dir_(leader_file *f, int dir) {
    (void)f;
    (void)dir;
    return LEADER_OK;
}
static bool leader_file_dress_(const leader_file *f, int fd, int mode) {
    (void)f;
    (void)fd;
    (void)mode;
    return true;
}
static bool leader_file_dress_like_parent_(leader_file *f, int dir) {
    (void)f;
    (void)dir;
    return true;
}

#else

#define LEADER_HERE_ AT_FDCWD       // the directory of a path

/* No symbolic link is ever followed, and nothing is inherited by a program that is started. */
static int leader_fs_open_(int dir, const char *name, leader_open_ how, int mode) {
    static const int flags[] = {O_RDONLY | O_DIRECTORY, O_RDONLY | O_DIRECTORY, O_RDONLY | O_NONBLOCK,
                                O_WRONLY | O_CREAT | O_EXCL};
    return openat(dir, name, flags[how] | O_NOFOLLOW | O_CLOEXEC, (mode_t)mode);
}

static void leader_fs_close_(int fd) {
    close(fd);
}

static int64_t leader_fs_read_(int fd, char *buf, size_t cap) {
    return (int64_t)read(fd, buf, cap);
}

static int64_t leader_fs_write_(int fd, const char *buf, size_t len) {
    return (int64_t)write(fd, buf, len);
}

static void leader_fs_say_stat_(const struct stat *st, leader_stat_ *out) {
    out->device = (uint64_t)st->st_dev;
    out->inode = (uint64_t)st->st_ino;
    out->regular = S_ISREG(st->st_mode);
#if defined(__linux__)
    out->changed_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + (int64_t)st->st_ctim.tv_nsec;
#else
    out->changed_ns = (int64_t)st->st_ctime * 1000000000;
#endif
}

static bool leader_fs_stat_(int fd, leader_stat_ *out) {
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return false;
    }
    leader_fs_say_stat_(&st, out);
    return true;
}

static bool leader_fs_stat_at_(int dir, const char *name, leader_stat_ *out) {
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return false;
    }
    leader_fs_say_stat_(&st, out);
    return true;
}

static bool leader_fs_remove_(int dir, const char *name) {
    return unlinkat(dir, name, 0) == 0;
}

static bool leader_fs_remove_dir_(int dir, const char *name) {
    return unlinkat(dir, name, AT_REMOVEDIR) == 0;
}

static bool leader_fs_make_dir_(int dir, const char *name, int mode) {
    return mkdirat(dir, name, (mode_t)mode) == 0;
}

/* In place of what has the new name. */
static bool leader_fs_rename_(int from_dir, const char *from, int to_dir, const char *to) {
    return renameat(from_dir, from, to_dir, to) == 0;
}

/* The same for a file of ours that is open. */
static bool leader_fs_rename_open_(int fd, int dir, const char *from, const char *to) {
    (void)fd;
    return renameat(dir, from, dir, to) == 0;
}

/* The comparison and the swap: of all that rename it from this name, one succeeds. ENOENT: another did. */
static bool leader_fs_swap_(int dir, const char *from, const char *to) {
    return renameat(dir, from, dir, to) == 0;
}

/* A directory in place of nothing, or of an empty one. ENOTEMPTY, EEXIST: there is one. */
static bool leader_fs_put_dir_(int dir, int made, const char *from, const char *to) {
    (void)made;
    return renameat(dir, from, dir, to) == 0;
}

/* In place of nothing; otherwise it stays where it is. */
static void leader_fs_put_back_(const char *from, const char *to) {
    if (link(from, to) == 0) {
        unlink(from);
    }
}

static bool leader_fs_sync_(int fd) {
    return fsync(fd) == 0;
}

static bool leader_fs_sync_dir_(int dir) {
    return fsync(dir) == 0;
}

static bool leader_fs_separates_(char c) {
    return c == '/';
}

static bool leader_fs_sync_parent_(int dir) {
    int parent = leader_fs_open_(dir, "..", LEADER_OPEN_DIR_, 0);
    bool good = parent >= 0 && fsync(parent) == 0;
    if (parent >= 0) {
        close(parent);
    }
    return good;
}

/* Calls `each` for every name in the directory. No opendir on Linux: it would allocate. */
static bool leader_fs_names_(int dir, leader_file_each_ *each, void *to) {
#if defined(__linux__)
    enum { LENGTH_AT = 16, NAME_AT = 19 };      // u64 inode, u64 offset, u16 length, u8 type, name
    union { uint64_t align; char bytes[4096]; } buf;
    if (lseek(dir, 0, SEEK_SET) < 0) {
        return false;
    }
    for (;;) {
        long got = syscall(SYS_getdents64, dir, buf.bytes, sizeof buf.bytes);
        if (got <= 0) {
            return got == 0;
        }
        for (long at = 0; at < got;) {
            uint16_t length;
            memcpy(&length, buf.bytes + at + LENGTH_AT, sizeof length);
            each(to, dir, buf.bytes + at + NAME_AT);
            at += length;
        }
    }
#else
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = copy < 0 ? NULL : fdopendir(copy);
    if (!names) {
        if (copy >= 0) {
            close(copy);
        }
        return false;
    }
    for (struct dirent *entry = readdir(names); entry; entry = readdir(names)) {
        each(to, dir, entry->d_name);
    }
    closedir(names);
    return true;
#endif
}

#endif

static void leader_file_shut_(int *fd) {
    if (*fd >= 0) {
        leader_fs_close_(*fd);
    }
    *fd = -1;
}

/* -- names -- */

typedef struct leader_name_ {       // a record, as its name says it
    uint64_t token;
    uint64_t nonce, draft;          // of the text
    uint64_t renewal;
    uint64_t stamp_ms;              // the writer's clock
    uint64_t lease_ms, hold_off_ms;
    bool     released;
} leader_name_;

static void leader_name_text_(const leader_name_ *name, char *buf, size_t cap) {
    snprintf(buf, cap, "%llu.%016llx-%llx.%llx.%llx.%llx.%llx%s", (unsigned long long)name->token,
             (unsigned long long)name->nonce, (unsigned long long)name->draft,
             (unsigned long long)name->renewal, (unsigned long long)name->stamp_ms,
             (unsigned long long)name->lease_ms, (unsigned long long)name->hold_off_ms,
             name->released ? leader_file_released_ : "");
}

/* One number of a name; answers where it ends, or NULL: it is more than `most`, or would not be written like
   this: in lower case, and no zero in front unless it is filled up to `width` digits. */
static const char *leader_name_number_(const char *text, unsigned base, size_t width, uint64_t most,
                                       uint64_t *out) {
    static const char digits[] = "0123456789abcdef";
    size_t length = strspn(text, digits);
    uint64_t number = 0;
    for (size_t i = 0; i < length; i++) {
        uint64_t digit = (uint64_t)(strchr(digits, text[i]) - digits);
        if (digit >= base || number > (most - digit) / base) {
            return NULL;
        }
        number = number * base + digit;
    }
    *out = number;
    bool filled = width > 0 && length == width;
    bool shortest = width == 0 && (length == 1 || (length > 1 && text[0] != '0'));
    return filled || shortest ? text + length : NULL;
}

/* A name has one spelling: one that would not be written like this is no record. */
static bool leader_name_parse_(const char *text, leader_name_ *name) {
    static const struct { size_t at; unsigned base, width; uint64_t most; char end; } fields[] = {
        {offsetof(leader_name_, token), 10, 0, LEADER_TOKEN_MAX_, '.'},
        {offsetof(leader_name_, nonce), 16, 16, UINT64_MAX, '-'},
        {offsetof(leader_name_, draft), 16, 0, UINT32_MAX, '.'},
        {offsetof(leader_name_, renewal), 16, 0, (UINT64_C(1) << 56) - 1, '.'},
        {offsetof(leader_name_, stamp_ms), 16, 0, (UINT64_C(1) << 56) - 1, '.'},
        {offsetof(leader_name_, lease_ms), 16, 0, (uint64_t)LEADER_TIME_MAX_MS_, '.'},
        {offsetof(leader_name_, hold_off_ms), 16, 0, (uint64_t)LEADER_TIME_MAX_MS_, 0}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        uint64_t *to = (uint64_t *)(void *)((char *)name + fields[i].at);
        text = leader_name_number_(text, fields[i].base, fields[i].width, fields[i].most, to);
        bool last = fields[i].end == 0;
        bool ended = text && (last || *text == fields[i].end);
        if (!ended) {
            return false;
        }
        text += last ? 0 : 1;
    }
    name->released = *text != 0;
    bool ends = !name->released || strcmp(text, leader_file_released_) == 0;
    return ends && name->token > 0 && name->lease_ms > 0;
}

/* What a process has one of: "lock.", "copy.", "new." */
static void leader_file_own_name_(char name[LEADER_FILE_NAME_MAX_], const char *kind, uint64_t nonce) {
    snprintf(name, LEADER_FILE_NAME_MAX_, "%.8s%016llx", kind, (unsigned long long)nonce);
}

static void leader_file_term_name_(char name[LEADER_FILE_NAME_MAX_], uint64_t nonce, uint64_t draft) {
    snprintf(name, LEADER_FILE_NAME_MAX_, "term.%016llx.%llx", (unsigned long long)nonce,
             (unsigned long long)draft);
}

/* -- the directory -- */

/* Does the name stand for the very file that is open as fd? OK, LOST, or E_IO: see errno. */
static leader_result leader_file_is_(int dir, const char *name, int fd) {
    leader_stat_ open_one;
    leader_stat_ named;
    if (!leader_fs_stat_(fd, &open_one)) {
        return LEADER_E_IO;
    }
    if (!leader_fs_stat_at_(dir, name, &named)) {
        return errno == ENOENT ? LEADER_LOST : LEADER_E_IO;
    }
    bool same = open_one.device == named.device && open_one.inode == named.inode;
    return same ? LEADER_OK : LEADER_LOST;
}

static int leader_file_dir_mode_(const leader_file *f) {
    return f->mode | (f->mode & 0444) >> 2;   // who may read may enter
}

#if !defined(_WIN32)

static bool leader_file_in_group_(gid_t group) {
    enum { GROUPS_MAX = 256 };
    gid_t groups[GROUPS_MAX];
    if (group == getegid()) {
        return true;
    }
    int count = getgroups(GROUPS_MAX, groups);
    for (int i = 0; i < count; i++) {
        if (groups[i] == group) {
            return true;
        }
    }
    return false;
}

/* May the owner of the directory say who leads? We, root, and the owner of what it stands in, who
   could replace it; others only if we share it with our group on purpose. */
static bool leader_file_trusts_(const leader_file *f, int dir, const struct stat *st) {
    struct stat parent;
    if (st->st_uid == geteuid() || st->st_uid == 0) {
        return true;
    }
    if (fstatat(dir, "..", &parent, 0) == 0 && parent.st_uid == st->st_uid) {
        return true;
    }
    bool shared = (f->mode & 020) && (st->st_mode & S_IWGRP);
    return shared && leader_file_in_group_(st->st_gid);
}

static leader_result leader_file_check_dir_(leader_file *f, int dir) {
    struct stat st;
    const char *shown = leader_file_tail_(f->dir);
    if (fstat(dir, &st) != 0) {
        return leader_file_errno_(f, "cannot look at", f->dir);
    }
    if (st.st_mode & S_IWOTH) {
        return leader_file_fail_(f, LEADER_E_AUTH, "everybody may write into %s: chmod -R o-w '%s'", shown,
                                 shown);
    }
    if (!leader_file_trusts_(f, dir, &st)) {
        return leader_file_fail_(f, LEADER_E_AUTH,
                                 "%s belongs to user %lu, who could make anybody leader: chown -R %lu '%s'",
                                 shown, (unsigned long)st.st_uid, (unsigned long)geteuid(), shown);
    }
    f->owner = st.st_uid;
    f->group = st.st_gid;
    return LEADER_OK;
}

/* Gives what we made the mode asked for, whatever the umask. A run as root leaves it to the owner of the
   directory, and what a group shares goes to the group of the directory. The bit that hands a group
   down is kept. */
static bool leader_file_dress_(const leader_file *f, int fd, int mode) {
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return false;
    }
    bool differs = st.st_uid != f->owner || st.st_gid != f->group;
    bool gives = differs && geteuid() == 0;
    bool shares = (mode & 070) && st.st_gid != f->group && leader_file_in_group_(f->group);
    uid_t owner = gives ? (uid_t)f->owner : (uid_t)-1;
    if ((gives || shares) && fchown(fd, owner, f->group) != 0) {
        return false;
    }
    mode_t wanted = (mode_t)mode | (st.st_mode & S_ISGID);
    return (st.st_mode & 07777) == wanted || fchmod(fd, wanted) == 0;
}

/* A directory that we made belongs to the owner of the one around it. */
static bool leader_file_dress_like_parent_(leader_file *f, int dir) {
    struct stat parent;
    if (fstatat(dir, "..", &parent, 0) != 0) {
        return false;
    }
    f->owner = parent.st_uid;
    f->group = parent.st_gid;
    return leader_file_dress_(f, dir, leader_file_dir_mode_(f));
}

#endif

/* The first thing that goes wrong for a new user, so it says what to do. */
static leader_result leader_file_no_dir_(leader_file *f) {
    const char *shown = leader_file_tail_(f->dir);
    switch (errno) {
    case EACCES:
    case EPERM:
    case EROFS:
        return leader_file_fail_(f, LEADER_E_AUTH,
                                 "cannot make %s: %s: choose a path in a directory that this user may "
                                 "write to",
                                 shown, strerror(errno));
    case ENOENT:
        return leader_file_fail_(f, LEADER_E_IO, "cannot make %s: %s: make the directory around it first",
                                 shown, strerror(errno));
    default:
        return leader_file_errno_(f, "cannot make", f->dir);
    }
}

/* Is the directory around ours missing as well? Then nothing is known about the record: the store is away,
   as what is mounted can be, and comes back with it. */
static bool leader_file_is_away_(const leader_file *f) {
    char around[sizeof f->dir];
    size_t len = 0;
    for (size_t i = 1; f->dir[i]; i++) {
        if (leader_fs_separates_(f->dir[i])) {
            len = i;
        }
    }
    memcpy(around, f->dir, sizeof around);
    around[len] = 0;
    int dir = len > 0 ? leader_fs_open_(LEADER_HERE_, around, LEADER_OPEN_DIR_, 0) : -1;
    bool away = len > 0 && dir < 0 && errno == ENOENT;
    leader_file_shut_(&dir);
    return away;
}

/* Opens the directory. OK, LOST (there is none), or what is wrong with it. */
static leader_result leader_file_enter_(leader_file *f, int *dir) {
    *dir = leader_fs_open_(LEADER_HERE_, f->dir, LEADER_OPEN_DIR_, 0);
    if (*dir < 0 && errno == ENOENT) {
        if (!leader_file_is_away_(f)) {
            return LEADER_LOST;
        }
        errno = ENOENT;
        return leader_file_no_dir_(f);
    }
    if (*dir < 0 && (errno == ELOOP || errno == ENOTDIR)) {
        return leader_file_fail_(f, LEADER_E_CONFIG,
                                 "%s is in the way: it must be a directory, not a file or a link",
                                 leader_file_tail_(f->dir));
    }
    if (*dir < 0) {
        return leader_file_errno_(f, "cannot open", f->dir);
    }
    leader_result result = leader_file_check_dir_(f, *dir);
    if (result != LEADER_OK) {
        leader_file_shut_(dir);
    }
    return result;
}

static leader_result leader_file_make_dir_(leader_file *f) {
    if (!leader_fs_make_dir_(LEADER_HERE_, f->dir, leader_file_dir_mode_(f))) {
        return errno == EEXIST ? LEADER_OK : leader_file_no_dir_(f);
    }
    int dir = leader_fs_open_(LEADER_HERE_, f->dir, LEADER_OPEN_DIR_, 0);
    bool good = dir >= 0 && leader_file_dress_like_parent_(f, dir);
    leader_result result = good ? LEADER_OK : leader_file_errno_(f, "cannot set the mode of", f->dir);
    leader_file_shut_(&dir);
    return result;
}

/* Syncs the name of the directory, once for the records in it: their maker may have died before it did. A
   directory that somebody made in place of this one holds records of another origin. */
static bool leader_file_sync_name_(leader_file *f, int dir, uint64_t origin) {
    if (f->synced_origin != origin && leader_fs_sync_parent_(dir)) {
        f->synced_origin = origin;
    }
    return f->synced_origin == origin;
}

/* -- reading -- */

typedef struct leader_listing_ {
    int  records, others;
    char record[LEADER_ENTRY_VERSION_MAX + 1];
    char other[LEADER_FILE_NAME_MAX_];
} leader_listing_;

static void leader_file_list_name_(void *to, int dir, const char *name) {
    leader_listing_ *listing = (leader_listing_ *)to;
    leader_name_ parsed;
    (void)dir;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return;
    }
    if (leader_name_parse_(name, &parsed)) {
        listing->records++;
        snprintf(listing->record, sizeof listing->record, "%s", name);
    } else {
        listing->others++;
        snprintf(listing->other, sizeof listing->other, "%.40s", name);
    }
}

/* The name that is the record. OK, LOST (there is none), E_*. Two names are what a listing in parts
   sees while a record is renamed; if they stay, somebody made the second by hand. */
static leader_result leader_file_find_(leader_file *f, int dir, char record[LEADER_ENTRY_VERSION_MAX + 1]) {
    leader_listing_ listing;
    for (int tries = 0; tries < LEADER_FILE_TRIES_; tries++) {
        memset(&listing, 0, sizeof listing);
        int records = leader_fs_open_(dir, leader_file_record_, LEADER_OPEN_DIR_, 0);
        if (records < 0 && errno == ENOENT) {
            return LEADER_LOST;
        }
        bool listed = records >= 0 && leader_fs_names_(records, leader_file_list_name_, &listing);
        leader_result result = listed ? LEADER_OK : leader_file_errno_(f, "cannot list record/ in", f->dir);
        leader_file_shut_(&records);
        if (result != LEADER_OK) {
            return result;
        }
        if (listing.records == 1) {
            memcpy(record, listing.record, sizeof listing.record);
            return LEADER_OK;
        }
        if (listing.records == 0 && listing.others == 0 && tries > 0) {
            return LEADER_LOST;     // nothing, twice
        }
    }
    return leader_file_fail_(f, LEADER_E_CORRUPT,
                             "%s/record holds %d records and %d other names (%s): there must be one",
                             leader_file_tail_(f->dir), listing.records, listing.others,
                             listing.others ? listing.other : listing.record);
}

/* Reads a whole file. Answers its length, or -1 with errno: EFBIG: too long; EINVAL: not a file. */
static int64_t leader_file_bytes_(int dir, const char *name, char *text, size_t cap) {
    leader_stat_ st;
    int fd = leader_fs_open_(dir, name, LEADER_OPEN_READ_, 0);
    if (fd < 0) {
        return -1;
    }
    size_t len = 0;
    int64_t got = -1;
    if (leader_fs_stat_(fd, &st) && st.regular) {
        do {
            got = leader_fs_read_(fd, text + len, cap - len);
            len += got > 0 ? (size_t)got : 0;
        } while ((got > 0 && len < cap) || (got < 0 && errno == EINTR));
    } else {
        errno = EINVAL;
    }
    int e = len == cap ? EFBIG : errno;
    leader_fs_close_(fd);
    errno = e;
    return got < 0 || len == cap ? -1 : (int64_t)len;
}

/* The members that only files have. */
static bool leader_term_parse_(leader_json_ root, leader_term_ *term, char *why, size_t cap) {
    const struct { const char *name; uint64_t *to; } numbers[] = {{"timeNamespace", &term->time_namespace},
                                                                  {"lockDevice", &term->lock_device},
                                                                  {"lockInode", &term->lock_inode}};
    leader_json_ json;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        bool there = leader_json_member_(root, numbers[i].name, &json);
        if (there && !leader_json_u64_(json, numbers[i].to)) {
            snprintf(why, cap, "%s is not a whole number", numbers[i].name);
            return false;
        }
    }
    bool there = leader_json_member_(root, "bootId", &json);
    if (there && !leader_json_string_(json, term->boot_id, sizeof term->boot_id)) {
        snprintf(why, cap, "bootId is not a string of at most 39 bytes");
        return false;
    }
    return true;
}

/* Reads a record's text, or that of the copy. OK; LOST: no such file; E_CORRUPT: `why` and *form tell;
   E_CONFIG: a link or no file at all; E_*. Says nothing itself. */
static leader_result leader_file_load_(int dir, const char *name, leader_term_ *term, uint64_t *form,
                                       char *why, size_t cap) {
    char text[LEADER_FILE_TEXT_MAX_ + 1];
    leader_json_ root;
    memset(term, 0, sizeof *term);
    *form = 0;
    int64_t len = leader_file_bytes_(dir, name, text, sizeof text);
    if (len < 0) {
        switch (errno) {
        case ENOENT:
            return LEADER_LOST;
        case EFBIG:
            *form = leader_hash_(text, sizeof text);
            snprintf(why, cap, "more than %d bytes", LEADER_FILE_TEXT_MAX_);
            return LEADER_E_CORRUPT;
        case ELOOP:
            snprintf(why, cap, "it is a symbolic link");
            return LEADER_E_CONFIG;
        case EINVAL:
            snprintf(why, cap, "it is not a regular file");
            return LEADER_E_CONFIG;
        default:
            snprintf(why, cap, "%s", strerror(errno));
            return errno == EACCES || errno == EPERM ? LEADER_E_AUTH : LEADER_E_IO;
        }
    }
    *form = leader_hash_(text, (size_t)len);
    bool good = leader_entry_parse_(text, (size_t)len, &term->entry, &root, why, cap);
    return good && leader_term_parse_(root, term, why, cap) ? LEADER_OK : LEADER_E_CORRUPT;
}

/* Makes a new file of that text and answers it open, or -1. */
static int leader_file_draft_(const leader_file *f, int dir, const char *name, const char *text, size_t len) {
    size_t done = 0;
    int fd = leader_fs_open_(dir, name, LEADER_OPEN_NEW_, f->mode);
    if (fd < 0 && errno == EEXIST && leader_fs_remove_(dir, name)) {
        fd = leader_fs_open_(dir, name, LEADER_OPEN_NEW_, f->mode);
    }
    if (fd < 0) {
        return -1;
    }
    bool good = leader_file_dress_(f, fd, f->mode);
    while (good && done < len) {
        int64_t n = leader_fs_write_(fd, text + done, len - done);
        done += n > 0 ? (size_t)n : 0;
        good = n > 0 || (n < 0 && errno == EINTR);
    }
    if (good) {
        return fd;
    }
    int e = errno;
    leader_fs_close_(fd);
    leader_fs_remove_(dir, name);
    errno = e;
    return -1;
}

/* -- what the kernel knows about the holder -- */

#if !defined(_WIN32)
static void leader_file_learn_(leader_file *f) {
    struct stat st;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, f->boot_id, sizeof f->boot_id - 1);
    leader_file_shut_(&fd);
    f->boot_id[n > 0 ? n : 0] = 0;
    f->boot_id[strspn(f->boot_id, "0123456789abcdef-")] = 0;
    f->time_namespace = stat("/proc/self/ns/time", &st) == 0 ? (uint64_t)st.st_ino : 0;
    f->ready = true;
}
#endif

static bool leader_file_same_boot_(const leader_file *f, const leader_term_ *term) {
    return f->boot_id[0] && strcmp(f->boot_id, term->boot_id) == 0;
}

/* How much of the lease is over, where the writer's clock is ours as well; 0: it must be observed. */
static int64_t leader_file_elapsed_(const leader_file *f, const leader_name_ *name) {
    const leader_term_ *term = &f->term;
    bool shared = leader_file_same_boot_(f, term) && term->time_namespace
        && term->time_namespace == f->time_namespace;
    int64_t now_ms = f->host.now_ms(f->host.core);
    bool past = name->stamp_ms > 0 && (int64_t)name->stamp_ms <= now_ms;
    return shared && past ? now_ms - (int64_t)name->stamp_ms : 0;
}

#if defined(F_OFD_GETLK) || defined(_WIN32)

#if !defined(_WIN32)

static bool leader_file_local_(int dir) {
#if defined(__linux__)
    static const unsigned long known[] = {      // ext, xfs, btrfs, tmpfs, f2fs, overlay, ramfs, zfs, bcachefs
        0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0xF2F52010, 0x794C7630, 0x858458F6, 0x2FC12FC1,
        0xCA451A4E};
    struct statfs fs;
    if (fstatfs(dir, &fs) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (((unsigned long)fs.f_type & 0xffffffffu) == known[i]) {
            return true;
        }
    }
#else
    (void)dir;
#endif
    return false;
}

/* The whole file; the lock belongs to the descriptor and goes with the process. */
static bool leader_fs_lock_(int fd, int command, struct flock *lock) {
    memset(lock, 0, sizeof *lock);
    lock->l_type = F_WRLCK;
    lock->l_whence = SEEK_SET;
    return fcntl(fd, command, lock) == 0;
}

static bool leader_fs_take_lock_(int fd) {
    struct flock lock;
    return leader_fs_lock_(fd, F_OFD_SETLK, &lock);
}

/* May a record name a lock in here? Its readers see by the boot id whether it is one of their kernel. */
static bool leader_fs_lock_counts_(int dir) {
    (void)dir;
    return true;
}

static bool leader_fs_lock_is_free_(int fd) {
    struct flock lock;
    return leader_fs_lock_(fd, F_OFD_GETLK, &lock) && lock.l_type == F_UNLCK;
}

#endif

typedef enum leader_lock_ { LEADER_LOCK_UNKNOWN_, LEADER_LOCK_HELD_, LEADER_LOCK_FREE_ } leader_lock_;

/* The state of a process's lock; inode 0: of whatever inode. The name is looked at again after the
   lock: a close without a release removes the name first, so that it is not taken for a death. */
static leader_lock_ leader_file_ask_lock_(int dir, uint64_t nonce, uint64_t device, uint64_t inode) {
    char name[LEADER_FILE_NAME_MAX_];
    leader_stat_ st;
    leader_file_own_name_(name, "lock.", nonce);
    int fd = leader_fs_open_(dir, name, LEADER_OPEN_READ_, 0);
    if (fd < 0) {
        return LEADER_LOCK_UNKNOWN_;
    }
    bool it = leader_fs_stat_(fd, &st);
    if (it && inode != 0) {
        it = st.device == device && st.inode == inode;
    }
    bool is_free = it && leader_fs_lock_is_free_(fd);
    bool there = it && leader_file_is_(dir, name, fd) == LEADER_OK;
    leader_fs_close_(fd);
    if (!there) {
        return LEADER_LOCK_UNKNOWN_;
    }
    return is_free ? LEADER_LOCK_FREE_ : LEADER_LOCK_HELD_;
}

static void leader_file_ask_holder_(leader_file *f, int dir, leader_entry *found) {
    const leader_term_ *term = &f->term;
    bool can_tell = term->lock_inode && leader_file_same_boot_(f, term) && leader_file_local_(dir);
    if (!can_tell) {
        return;
    }
    leader_lock_ state = leader_file_ask_lock_(dir, found->nonce, term->lock_device, term->lock_inode);
    found->dead = state == LEADER_LOCK_FREE_;
    found->alive = state == LEADER_LOCK_HELD_;
    if (!found->dead && f->closing > 0) {       // the lock goes just after its notice
        f->closing--;
        found->again_ms = 2;
    }
}

/* A new lock file, already locked when it gets its name: a free lock under its name would look like our
   death. Answers it open, or -1. */
static int leader_file_make_lock_(leader_file *f, int dir, const char *name) {
    char draft[LEADER_FILE_NAME_MAX_];
    leader_file_own_name_(draft, "copy.", f->nonce);
    int fd = leader_file_draft_(f, dir, draft, "", 0);
    if (fd < 0) {
        return -1;
    }
    if (leader_fs_take_lock_(fd) && leader_fs_rename_open_(fd, dir, draft, name)) {
        return fd;
    }
    leader_fs_remove_(dir, draft);
    leader_fs_close_(fd);
    return -1;
}

/* Takes our lock, if it is not held already. Without one, a crash costs the rest of the lease. A lock
   whose name somebody removed is let go last: until then its inode, which the record may still name,
   cannot come back. */
static void leader_file_take_lock_(leader_file *f, int dir) {
    char name[LEADER_FILE_NAME_MAX_];
    leader_stat_ st;
    leader_file_own_name_(name, "lock.", f->nonce);
    if (f->lock_fd >= 0 && leader_file_is_(dir, name, f->lock_fd) != LEADER_LOST) {
        return;
    }
    int fd = -1;
    for (int tries = 0; tries < 3 && fd < 0; tries++) {     // a sweep can remove the draft
        fd = leader_file_make_lock_(f, dir, name);
    }
    bool good = fd >= 0 && leader_fs_stat_(fd, &st) && leader_fs_lock_counts_(dir);
    leader_file_shut_(&f->lock_fd);
    f->lock_fd = fd;
    f->lock_device = good ? st.device : 0;
    f->lock_inode = good ? st.inode : 0;
}

static bool leader_file_is_dead_(int dir, uint64_t nonce) {
    return leader_file_ask_lock_(dir, nonce, 0, 0) == LEADER_LOCK_FREE_;
}

static bool leader_file_is_alive_(int dir, uint64_t nonce) {
    return leader_file_ask_lock_(dir, nonce, 0, 0) == LEADER_LOCK_HELD_;
}

#else

static bool leader_file_local_(int dir) {
    (void)dir;
    return false;
}
static void leader_file_ask_holder_(leader_file *f, int dir, leader_entry *found) {
    (void)f;
    (void)dir;
    (void)found;
}
static void leader_file_take_lock_(leader_file *f, int dir) {
    (void)f;
    (void)dir;
}
static bool leader_file_is_dead_(int dir, uint64_t nonce) {
    (void)dir;
    (void)nonce;
    return false;
}
static bool leader_file_is_alive_(int dir, uint64_t nonce) {
    (void)dir;
    (void)nonce;
    return true;
}

#endif

/* -- notices: a standby watches the holder's lock file, which a renewal does not touch --

   The elections that one thread ticks share one inotify instance, each with a descriptor of its own.
   The one that reads it passes the news on. */

#if defined(__linux__)

typedef struct leader_listeners_t_ {
    pthread_mutex_t mutex;
    uint32_t        life;
    leader_file    *first;
} leader_listeners_t_;

#ifndef LEADER_FILE_LISTENERS_
#  define LEADER_FILE_LISTENERS_ (&leader_listeners_)
static leader_listeners_t_ leader_listeners_ = {PTHREAD_MUTEX_INITIALIZER, 1, NULL};
#endif

static bool leader_file_same_thread_(const leader_file *a, const leader_file *b) {
    return a->thread == b->thread;
}

/* A child of fork() inherits a list that is its parent's, and a mutex that another thread may have held. */
static leader_listeners_t_ *leader_listeners_lock_(void) {
    leader_listeners_t_ *all = LEADER_FILE_LISTENERS_;
    uint32_t life = LEADER_LOAD_(&leader_life_);
    if (LEADER_LOAD_(&all->life) != life) {
        pthread_mutex_init(&all->mutex, NULL);
        all->first = NULL;
        LEADER_STORE_(&all->life, life);
    }
    pthread_mutex_lock(&all->mutex);
    return all;
}

static leader_file *leader_file_peer_(const leader_listeners_t_ *all, const leader_file *f, bool same_watch) {
    for (leader_file *other = all->first; other; other = other->next_listener) {
        bool fits = !same_watch || other->watch == f->watch;
        if (other != f && fits && leader_file_same_thread_(other, f)) {
            return other;
        }
    }
    return NULL;
}

static void leader_file_join_(leader_file *f) {
    leader_listeners_t_ *all = leader_listeners_lock_();
    f->thread = (uintptr_t)pthread_self();
    f->watch = -1;
    const leader_file *peer = leader_file_peer_(all, f, false);
    f->notify_fd = peer ? fcntl(peer->notify_fd, F_DUPFD_CLOEXEC, 0)
        : inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (f->notify_fd >= 0) {
        f->next_listener = all->first;
        all->first = f;
    }
    pthread_mutex_unlock(&all->mutex);
    if (f->notify_fd >= 0) {
        f->host.fd(f->host.core, f->notify_fd, LEADER_READ);
    }
}

static void leader_file_unwatch_(leader_listeners_t_ *all, leader_file *f) {
    if (f->watch >= 0 && !leader_file_peer_(all, f, true)) {
        inotify_rm_watch(f->notify_fd, f->watch);
    }
    f->watch = -1;
    f->watched = 0;
}

/* A leader does not listen, so as not to use up the user's inotify instances. It leaves in the tick after the
   one that took over: the kernel takes milliseconds to close the last descriptor. */
static void leader_file_deafen_(leader_file *f) {
    if (f->notify_fd < 0) {
        return;
    }
    f->host.fd(f->host.core, f->notify_fd, 0);
    leader_listeners_t_ *all = leader_listeners_lock_();
    leader_file_unwatch_(all, f);
    leader_file **at = &all->first;
    while (*at && *at != f) {
        at = &(*at)->next_listener;
    }
    if (*at) {
        *at = f->next_listener;
    }
    f->heard = false;
    pthread_mutex_unlock(&all->mutex);
    leader_file_shut_(&f->notify_fd);
}

/* True: from now on the holder's lock is watched, and the record must be looked at once more. */
static bool leader_file_listen_(leader_file *f, uint64_t nonce) {
    const uint32_t mask = IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF
        | IN_DONT_FOLLOW;
    char path[sizeof f->dir + LEADER_FILE_NAME_MAX_];
    char name[LEADER_FILE_NAME_MAX_];
    if (f->watch >= 0 && f->watched == nonce) {
        return false;
    }
    if (f->notify_fd < 0) {
        leader_file_join_(f);
    }
    if (f->notify_fd < 0) {
        if (!f->said_deaf) {
            f->host.log(f->host.core, LEADER_LOG_INFO,
                        "no inotify to be had: changes are noticed by polling");
        }
        f->said_deaf = true;
        return false;
    }
    leader_file_own_name_(name, "lock.", nonce);
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    leader_listeners_t_ *all = leader_listeners_lock_();
    leader_file_unwatch_(all, f);
    f->watch = inotify_add_watch(f->notify_fd, path, mask);
    f->watched = nonce;
    f->closing = 0;
    bool listens = f->watch >= 0;
    pthread_mutex_unlock(&all->mutex);
    return listens;
}

static void leader_file_take_event_(leader_file *f, const struct inotify_event *event) {
    if (event->mask & IN_IGNORED) {
        f->watch = -1;
        return;
    }
    if (event->mask & IN_CLOSE_WRITE) {
        f->closing = 3;
    }
    f->heard = true;
    f->woken = false;
}

static void leader_file_pass_on_(leader_listeners_t_ *all, leader_file *reader,
                                 const struct inotify_event *event) {
    bool for_all = (event->mask & IN_Q_OVERFLOW) != 0;
    for (leader_file *f = all->first; f; f = f->next_listener) {
        bool meant = for_all || f->watch == event->wd;
        if (meant && leader_file_same_thread_(f, reader)) {
            leader_file_take_event_(f, event);
        }
    }
}

/* One election whose news we read and that has not been woken for it; NULL: none. */
static leader_file *leader_file_to_wake_(leader_listeners_t_ *all, const leader_file *reader) {
    for (leader_file *f = all->first; f; f = f->next_listener) {
        if (f != reader && f->heard && !f->woken && leader_file_same_thread_(f, reader)) {
            f->woken = true;
            return f;
        }
    }
    return NULL;
}

/* Their own descriptors are not ready any more. The lock is not kept while a callback runs. */
static void leader_file_wake_others_(leader_listeners_t_ *all, const leader_file *reader) {
    for (leader_file *f = leader_file_to_wake_(all, reader); f; f = leader_file_to_wake_(all, reader)) {
        pthread_mutex_unlock(&all->mutex);
        f->host.due(f->host.core);
        pthread_mutex_lock(&all->mutex);
    }
}

static bool leader_file_hear_(leader_file *f) {
    union { struct inotify_event align; char bytes[4096]; } buf;
    if (f->notify_fd < 0) {
        return false;
    }
    leader_listeners_t_ *all = leader_listeners_lock_();
    ssize_t got = read(f->notify_fd, buf.bytes, sizeof buf.bytes);
    bool news = got > 0;
    while (got > 0) {
        struct inotify_event event;
        for (ssize_t at = 0; at < got; at += (ssize_t)(sizeof event + event.len)) {
            memcpy(&event, buf.bytes + at, sizeof event);
            leader_file_pass_on_(all, f, &event);
        }
        got = read(f->notify_fd, buf.bytes, sizeof buf.bytes);
    }
    if (news) {
        leader_file_wake_others_(all, f);
    }
    bool heard = f->heard;
    f->heard = false;
    pthread_mutex_unlock(&all->mutex);
    return heard;
}

/* Standbys watch our lock file: a byte written to it is the news. */
static void leader_file_tell_release_(leader_file *f) {
    if (f->lock_fd >= 0 && pwrite(f->lock_fd, "r", 1, 0) != 1) {
        f->host.log(f->host.core, LEADER_LOG_DEBUG, "standbys could not be told of the release: they poll");
    }
}

#else

static bool leader_file_listen_(leader_file *f, uint64_t nonce) {
    (void)f;
    (void)nonce;
    return false;
}
static void leader_file_deafen_(leader_file *f) {
    (void)f;
}
static bool leader_file_hear_(leader_file *f) {
    (void)f;
    return false;
}
static void leader_file_tell_release_(leader_file *f) {
    (void)f;
}

#endif

/* -- what stands at the path -- */

static leader_result leader_file_look_at_path_(leader_file *f, leader_term_ *term, uint64_t *form) {
    char why[120];
    const char *shown = leader_file_tail_(f->path);
    leader_result result = leader_file_load_(LEADER_HERE_, f->path, term, form, why, sizeof why);
    switch (result) {
    case LEADER_OK:
    case LEADER_LOST:
        return result;
    case LEADER_E_CORRUPT:
        return leader_file_fail_(f, result, "%s is no lease record: %s", shown, why);
    default:
        return leader_file_fail_(f, result, "cannot use %s: %s", shown, why);
    }
}

/* No record. A copy is all that is left of a wiped store, and may be a term behind: whatever it says,
   somebody may lead, so the maker of the first record holds off, with a token above that one. The
   record of another program, or what is no record, keeps everyone out for its lease; then it is taken
   away. As a first record can be made whatever happened since, its maker holds off as well. */
static leader_result leader_file_read_path_(leader_file *f, leader_entry *found) {
    leader_term_ term;
    uint64_t form;
    leader_result result = leader_file_look_at_path_(f, &term, &form);
    if (result == LEADER_LOST) {
        return LEADER_OK;
    }
    if (result != LEADER_OK && result != LEADER_E_CORRUPT) {
        return result;
    }
    bool copied = result == LEADER_OK && term.entry.nonce != 0;
    bool released = result == LEADER_OK && !term.entry.holder[0];
    if (copied || released) {
        found->token = term.entry.token;
        found->lease_ms = term.entry.lease_ms;
        found->forgot = copied;
        return LEADER_OK;
    }
    *found = term.entry;
    if (result == LEADER_E_CORRUPT) {
        memset(found, 0, sizeof *found);
        found->lease_ms = term.entry.lease_ms;      // if that much could be read
        found->renewal = form >> 12;
    }
    found->forgot = true;
    found->seq = LEADER_TOKEN_MAX_;     // nobody's request
    snprintf(found->version, sizeof found->version, "@%016llx", (unsigned long long)form);
    return result;
}

/* Our record is released, but another program may have taken its turn at the path meanwhile. */
static void leader_file_mind_path_(leader_file *f, leader_entry *found) {
    leader_term_ term;
    uint64_t form;
    char why[120];
    leader_result result = leader_file_load_(LEADER_HERE_, f->path, &term, &form, why, sizeof why);
    bool foreign = result == LEADER_OK && term.entry.nonce == 0 && term.entry.holder[0];
    if (!foreign) {
        return;
    }
    memcpy(found->holder, term.entry.holder, sizeof found->holder);
    found->lease_ms = term.entry.lease_ms;
    found->elapsed_ms = 0;          // nobody knows its clock
    found->nonce = 0;
    found->seq = form >> 12;
}

/* -- read -- */

static void leader_file_say_entry_(const leader_file *f, const leader_name_ *name, const char *version,
                                   leader_entry *found) {
    *found = f->term.entry;
    found->token = name->token;
    found->renewal = name->renewal;
    found->lease_ms = (int64_t)name->lease_ms;
    found->hold_off_ms = (int64_t)name->hold_off_ms;
    found->elapsed_ms = leader_file_elapsed_(f, name);
    if (name->released) {
        found->holder[0] = 0;
        found->value[0] = 0;
    }
    snprintf(found->version, sizeof found->version, "%s", version);
}

/* The text that belongs to the name; it never changes, so it is read once. */
static leader_result leader_file_read_term_(leader_file *f, int dir, const leader_name_ *name, char *why,
                                            size_t cap) {
    char file[LEADER_FILE_NAME_MAX_];
    uint64_t form;
    if (f->term.nonce == name->nonce && f->term.draft == name->draft) {
        return LEADER_OK;
    }
    leader_file_term_name_(file, name->nonce, name->draft);
    leader_result result = leader_file_load_(dir, file, &f->term, &form, why, cap);
    if (result == LEADER_LOST) {
        snprintf(why, cap, "%s is missing", file);
    }
    if (result == LEADER_OK && f->term.entry.nonce != name->nonce) {
        snprintf(why, cap, "%s has the nonce of another", file);
        result = LEADER_E_CORRUPT;
    }
    if (result == LEADER_OK) {
        f->term.nonce = name->nonce;
        f->term.draft = name->draft;
    }
    return result;
}

/* The name says what is left of a record whose text is lost. */
static leader_result leader_file_say_corrupt_(leader_file *f, const leader_name_ *name, const char *version,
                                              const char *why, leader_entry *found) {
    found->token = name->token;
    found->renewal = name->renewal;
    found->lease_ms = (int64_t)name->lease_ms;
    found->hold_off_ms = (int64_t)name->hold_off_ms;
    snprintf(found->version, sizeof found->version, "%s", version);
    return leader_file_fail_(f, LEADER_E_CORRUPT, "the record in %s cannot be read: %s",
                             leader_file_tail_(f->dir), why);
}

/* LOST: there is no record. PENDING: it changed meanwhile, look again. */
static leader_result leader_file_read_once_(leader_file *f, int dir, bool last, leader_entry *found) {
    char version[LEADER_ENTRY_VERSION_MAX + 1];
    char why[120];
    leader_name_ name;
    leader_result result = leader_file_find_(f, dir, version);
    if (result != LEADER_OK || !leader_name_parse_(version, &name)) {
        return result;
    }
    result = leader_file_read_term_(f, dir, &name, why, sizeof why);
    if (result == LEADER_LOST && !last) {
        return LEADER_PENDING;
    }
    if (result == LEADER_LOST || result == LEADER_E_CORRUPT) {
        return leader_file_say_corrupt_(f, &name, version, why, found);
    }
    if (result != LEADER_OK) {
        return leader_file_fail_(f, result, "cannot read the record in %s: %s", leader_file_tail_(f->dir),
                                 why);
    }
    leader_file_say_entry_(f, &name, version, found);
    bool others = found->holder[0] && found->nonce != f->nonce;
    f->holds = found->holder[0] && !others;
    if (others && leader_file_listen_(f, name.nonce) && !last) {
        return LEADER_PENDING;
    }
    if (others) {
        leader_file_ask_holder_(f, dir, found);
    }
    if (!found->holder[0]) {
        leader_file_mind_path_(f, found);
    }
    return LEADER_OK;
}

static leader_result leader_file_read_(void *self, const leader_call *call, leader_entry *found) {
    enum { TRIES = 4 };
    leader_file *f = (leader_file *)self;
    int dir = -1;
    if (!f->ready) {
        leader_file_learn_(f);
    }
    leader_result result = leader_file_enter_(f, &dir);
    if (result == LEADER_OK) {
        result = LEADER_PENDING;
    }
    for (int tries = 1; tries <= TRIES && result == LEADER_PENDING; tries++) {
        memset(found, 0, sizeof *found);
        result = leader_file_read_once_(f, dir, tries == TRIES, found);
    }
    bool stands_by = result == LEADER_OK && call->competes && found->holder[0] && found->nonce != f->nonce;
    if (stands_by) {
        leader_file_sync_name_(f, dir, found->origin);      // when we take over there is no time for it
    }
    leader_file_shut_(&dir);
    return result == LEADER_LOST ? leader_file_read_path_(f, found) : result;
}

/* -- write -- */

static size_t leader_file_text_(const leader_file *f, const leader_entry *entry, int64_t stamp_ms,
                                char *text, size_t cap) {
    char more[240];
    snprintf(more, sizeof more,
             ",\n  \"bootId\": \"%s\",\n  \"timeNamespace\": %llu,\n  \"bootClockMs\": %lld,\n"
             "  \"lockDevice\": %llu,\n  \"lockInode\": %llu",
             f->boot_id, (unsigned long long)f->time_namespace, (long long)stamp_ms,
             (unsigned long long)f->lock_device, (unsigned long long)f->lock_inode);
    return leader_entry_text_(entry, more, text, cap);
}

/* Says the term's text the same as this entry does? */
static bool leader_file_text_holds_(const leader_file *f, const leader_name_ *base,
                                    const leader_entry *next) {
    const leader_entry *text = &f->term.entry;
    bool known = f->term.nonce == base->nonce && f->term.draft == base->draft;
    bool same_owner = text->nonce == next->nonce && text->seq == next->seq && text->origin == next->origin;
    if (!known || !same_owner) {
        return false;
    }
    if (!next->holder[0]) {
        return !next->heir[0];      // the name says "released"
    }
    bool same_names = strcmp(text->holder, next->holder) == 0 && strcmp(text->value, next->value) == 0;
    return same_names && !text->heir[0];
}

/* Writes the text of a new term, or of what the name cannot say, under a name that is ours alone. */
static leader_result leader_file_write_text_(leader_file *f, int dir, const leader_entry *next,
                                             uint64_t base_draft, leader_name_ *name, int *fd) {
    char text[LEADER_FILE_TEXT_MAX_];
    char file[LEADER_FILE_NAME_MAX_];
    if (next->holder[0]) {
        leader_file_take_lock_(f, dir);
    }
    f->drafts = leader_max_u64_(f->drafts, base_draft) + 1;
    name->nonce = f->nonce;
    name->draft = f->drafts;
    leader_file_term_name_(file, name->nonce, name->draft);
    size_t len = leader_file_text_(f, next, (int64_t)name->stamp_ms, text, sizeof text);
    *fd = leader_file_draft_(f, dir, file, text, len);
    return *fd >= 0 ? LEADER_OK : leader_file_errno_(f, "cannot write into", f->dir);
}

static void leader_file_remove_text_(int dir, const leader_name_ *name) {
    char file[LEADER_FILE_NAME_MAX_];
    leader_file_term_name_(file, name->nonce, name->draft);
    leader_fs_remove_(dir, file);
}

static bool leader_file_has_text_(int dir, const leader_name_ *name) {
    char file[LEADER_FILE_NAME_MAX_];
    leader_stat_ st;
    leader_file_term_name_(file, name->nonce, name->draft);
    return leader_fs_stat_at_(dir, file, &st) || errno != ENOENT;
}

/* Is this the record at the path? A name is in one directory only: then the one into which we wrote it
   still stands there. */
static bool leader_file_stands_(const leader_file *f, const char *record) {
    char path[sizeof f->dir + LEADER_ENTRY_VERSION_MAX + 10];
    leader_stat_ st;
    snprintf(path, sizeof path, "%s/%s/%s", f->dir, leader_file_record_, record);
    return leader_fs_stat_at_(LEADER_HERE_, path, &st);
}

static leader_result leader_file_in_place_(leader_file *f, const char *record) {
    if (leader_file_stands_(f, record)) {
        return LEADER_OK;
    }
    return errno == ENOENT ? LEADER_LOST : leader_file_errno_(f, "cannot look into", f->dir);
}

/* The comparison and the swap. OK: it counts. LOST: somebody was first. *records stays open. */
static leader_result leader_file_swap_(leader_file *f, int dir, const char *from, const char *to,
                                       int *records) {
    *records = leader_fs_open_(dir, leader_file_record_, LEADER_OPEN_DIR_, 0);
    if (*records < 0) {
        return errno == ENOENT ? LEADER_LOST : leader_file_errno_(f, "cannot open record/ in", f->dir);
    }
    if (!leader_fs_swap_(*records, from, to)) {
        return errno == ENOENT ? LEADER_LOST : leader_file_errno_(f, "cannot rename the record in", f->dir);
    }
    return leader_file_in_place_(f, to);
}

static void leader_file_unmake_name_(void *to, int dir, const char *name) {
    (void)to;
    if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
        leader_fs_remove_(dir, name);
    }
}

/* Removes a directory that was to become record/. */
static void leader_file_unmake_(int dir, const char *name) {
    int made = leader_fs_open_(dir, name, LEADER_OPEN_DIR_, 0);
    if (made >= 0) {
        leader_fs_names_(made, leader_file_unmake_name_, NULL);
    }
    leader_file_shut_(&made);
    leader_fs_remove_dir_(dir, name);
}

/* The first record: a directory that already holds it is put in place of nothing, or of an empty one. */
static leader_result leader_file_create_(leader_file *f, int dir, const char *to, int *records) {
    char fresh[LEADER_FILE_NAME_MAX_];
    leader_file_own_name_(fresh, "new.", f->nonce);
    leader_file_unmake_(dir, fresh);
    if (!leader_fs_make_dir_(dir, fresh, leader_file_dir_mode_(f))) {
        return leader_file_errno_(f, "cannot make a directory in", f->dir);
    }
    *records = leader_fs_open_(dir, fresh, LEADER_OPEN_OWN_DIR_, 0);
    bool made = *records >= 0 && leader_file_dress_(f, *records, leader_file_dir_mode_(f));
    int empty = made ? leader_file_draft_(f, *records, to, "", 0) : -1;
    made = made && empty >= 0;
    leader_file_shut_(&empty);
    if (made && leader_fs_put_dir_(dir, *records, fresh, leader_file_record_)) {
        return leader_file_in_place_(f, to);
    }
    bool taken = made && (errno == ENOTEMPTY || errno == EEXIST || errno == ENOENT);
    leader_result result = LEADER_LOST;
    if (!taken) {
        result = leader_file_errno_(f, "cannot make the first record in", f->dir);
    }
    leader_file_unmake_(dir, fresh);
    return result;
}

/* What a term rests on is on disk before it starts: its text, the name that leads to it, the record. */
static leader_result leader_file_sync_(leader_file *f, int dir, int records, int text, uint64_t origin) {
    bool good = text < 0 || leader_fs_sync_(text);
    good = good && leader_fs_sync_dir_(records) && leader_fs_sync_dir_(dir);
    good = good && leader_file_sync_name_(f, dir, origin);
    return good ? LEADER_OK : leader_file_errno_(f, "cannot sync", f->dir);
}

/* The records are gone, and what stood at the path was decided upon. It is taken away in one step, so that
   nobody else can build on it, and only then looked at: if it is not what it was, it goes back. What is
   no record may be dear to somebody: that one is kept aside. */
static leader_result leader_file_claim_path_(leader_file *f, const char *version) {
    char aside[LEADER_PATH_MAX + 60];
    char line[2 * LEADER_PATH_MAX + 160];
    char now[LEADER_ENTRY_VERSION_MAX + 1];
    char why[120];
    leader_term_ term;
    uint64_t form;
    snprintf(aside, sizeof aside, "%s.corrupt-%lld-%016llx", f->path, (long long)(leader_wall_us_() / 1000),
             (unsigned long long)f->nonce);
    if (!leader_fs_swap_(LEADER_HERE_, f->path, aside)) {
        return errno == ENOENT ? LEADER_LOST : leader_file_errno_(f, "cannot move", f->path);
    }
    leader_result result = leader_file_load_(LEADER_HERE_, aside, &term, &form, why, sizeof why);
    snprintf(now, sizeof now, "@%016llx", (unsigned long long)form);
    if (strcmp(now, version) != 0) {
        leader_fs_put_back_(aside, f->path);
        return LEADER_LOST;
    }
    if (result == LEADER_OK) {
        leader_fs_remove_(LEADER_HERE_, aside);
        return LEADER_OK;
    }
    snprintf(line, sizeof line, "%s was no lease record: moved to %s", f->path, aside);
    f->host.log(f->host.core, LEADER_LOG_WARN, line);
    return LEADER_OK;
}

static leader_result leader_file_enter_to_write_(leader_file *f, const char *version, int *dir) {
    leader_name_ name;
    leader_result result = leader_file_enter_(f, dir);
    if (result == LEADER_LOST && !leader_name_parse_(version, &name)) {
        result = leader_file_make_dir_(f);
        if (result == LEADER_OK) {
            result = leader_file_enter_(f, dir);
        }
    }
    if (result == LEADER_OK && version[0] == '@') {
        result = leader_file_claim_path_(f, version);
    }
    if (result != LEADER_OK) {
        leader_file_shut_(dir);
    }
    return result;
}

static leader_name_ leader_file_name_for_(const leader_file *f, const leader_entry *next) {
    leader_name_ name;
    memset(&name, 0, sizeof name);
    name.token = next->token;
    name.renewal = next->renewal;
    name.lease_ms = (uint64_t)next->lease_ms;
    name.hold_off_ms = (uint64_t)next->hold_off_ms;
    name.stamp_ms = (uint64_t)leader_max_(0, f->host.now_ms(f->host.core));
    return name;
}

static void leader_file_keep_term_(leader_file *f, const leader_name_ *name, const leader_entry *next) {
    f->term.nonce = name->nonce;
    f->term.draft = name->draft;
    f->term.entry = *next;
    memcpy(f->term.boot_id, f->boot_id, sizeof f->term.boot_id);
    f->term.time_namespace = f->time_namespace;
    f->term.lock_device = f->lock_device;
    f->term.lock_inode = f->lock_inode;
}

/* A write that needs a text of its own: the text first, then the record, then, for a term, the disk. */
static leader_result leader_file_store_text_(leader_file *f, int dir, const leader_call *call,
                                             const leader_entry *next, leader_entry *stored) {
    leader_name_ base;
    leader_name_ name = leader_file_name_for_(f, next);
    int text = -1;
    int records = -1;
    bool replaces = leader_name_parse_(next->version, &base);
    leader_result result = leader_file_write_text_(f, dir, next, replaces ? base.draft : 0, &name, &text);
    leader_name_text_(&name, stored->version, sizeof stored->version);
    if (result == LEADER_OK && replaces) {
        result = leader_file_swap_(f, dir, next->version, stored->version, &records);
    } else if (result == LEADER_OK) {
        result = leader_file_create_(f, dir, stored->version, &records);
    }
    if (result == LEADER_LOST) {
        leader_file_remove_text_(dir, &name);
    }
    if (result != LEADER_OK && result != LEADER_LOST) {
        f->unsettled = true;
    }
    if (result == LEADER_OK && call->begins) {
        result = leader_file_sync_(f, dir, records, text, next->origin);
    }
    if (result == LEADER_OK) {
        leader_file_keep_term_(f, &name, next);
    }
    if (result == LEADER_OK && replaces) {
        leader_file_remove_text_(dir, &base);   // after the sync: a power failure may bring its name back
    }
    leader_file_shut_(&text);
    leader_file_shut_(&records);
    return result;
}

/* A renewal, and most releases: the name says it all. */
static leader_result leader_file_store_(leader_file *f, int dir, const leader_call *call,
                                        const leader_entry *next, leader_entry *stored) {
    leader_name_ base;
    int records = -1;
    bool name_is_enough = leader_name_parse_(next->version, &base) && leader_file_text_holds_(f, &base, next);
    if (name_is_enough) {
        name_is_enough = leader_file_has_text_(dir, &base);     // somebody may have removed it
    }
    if (!name_is_enough || call->begins) {
        return leader_file_store_text_(f, dir, call, next, stored);
    }
    leader_name_ name = leader_file_name_for_(f, next);
    name.nonce = base.nonce;
    name.draft = base.draft;
    name.released = !next->holder[0];
    leader_name_text_(&name, stored->version, sizeof stored->version);
    leader_result result = leader_file_swap_(f, dir, next->version, stored->version, &records);
    leader_file_shut_(&records);
    return result;
}

/* -- after a write: the copy, the standbys, what the dead left behind -- */

/* Is the file at the path one that we may replace, a copy of this election? */
static bool leader_file_path_is_ours_(leader_file *f) {
    leader_stat_ st;
    leader_term_ term;
    uint64_t form;
    char why[120];
    if (!leader_fs_stat_at_(LEADER_HERE_, f->path, &st)) {
        return errno == ENOENT;
    }
    bool untouched = st.inode == f->copy_inode && st.changed_ns == f->copy_ns;
    if (untouched && st.regular) {
        return true;
    }
    leader_result result = leader_file_load_(LEADER_HERE_, f->path, &term, &form, why, sizeof why);
    return result == LEADER_OK && term.entry.nonce != 0;
}

/* Puts the draft at the path: in place of what is ours, or of nothing. */
static bool leader_file_place_copy_(leader_file *f, int dir, const char *draft) {
    if (!leader_file_path_is_ours_(f)) {
        errno = EEXIST;
        return false;
    }
    return leader_fs_rename_(dir, draft, LEADER_HERE_, f->path);
}

static void leader_file_say_copy_(leader_file *f) {
    char line[LEADER_PATH_MAX + 160];
    const char *why = errno == EEXIST ? "something else stands there" : strerror(errno);
    if (f->said_copy) {
        return;
    }
    snprintf(line, sizeof line, "%s cannot be updated (%s): the election goes on, the copy is stale",
             f->path, why);
    f->host.log(f->host.core, LEADER_LOG_WARN, line);
    f->said_copy = true;
}

/* The nonce in a name such as "lock.<nonce>" or "term.<nonce>.<n>": no other spelling is ours. */
static bool leader_file_nonce_of_(const char *name, const char *kind, uint64_t *nonce) {
    size_t n = strlen(kind);
    uint64_t draft;
    if (strncmp(name, kind, n) != 0) {
        return false;
    }
    const char *rest = leader_name_number_(name + n, 16, 16, UINT64_MAX, nonce);
    bool numbered = strcmp(kind, "term.") == 0;
    if (rest && numbered) {
        rest = *rest == '.' ? leader_name_number_(rest + 1, 16, 0, UINT64_MAX, &draft) : NULL;
    }
    return rest && *rest == 0;
}

typedef struct leader_sweep_ {
    const leader_file *f;
    bool own;                       // what is ours goes, otherwise what belongs to nobody alive
    char kept[LEADER_FILE_NAME_MAX_];
} leader_sweep_;

static void leader_file_sweep_name_(void *to, int dir, const char *name) {
    static const char *const kinds[] = {"term.", "copy.", "new."};
    const leader_sweep_ *sweep = (const leader_sweep_ *)to;
    uint64_t nonce = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!leader_file_nonce_of_(name, kinds[i], &nonce) || strcmp(name, sweep->kept) == 0) {
            continue;
        }
        bool ours = nonce == sweep->f->nonce;
        bool goes = ours ? sweep->own : !sweep->own && !leader_file_is_alive_(dir, nonce);
        if (goes && !leader_fs_remove_(dir, name)) {
            leader_file_unmake_(dir, name);
        }
    }
}

static void leader_file_sweep_lock_(void *to, int dir, const char *name) {
    uint64_t nonce = 0;
    (void)to;
    if (leader_file_nonce_of_(name, "lock.", &nonce) && leader_file_is_dead_(dir, nonce)) {
        leader_fs_remove_(dir, name);
    }
}

/* Removes what processes left that are gone: first their texts, drafts and directories, then the locks
   of those that died. */
static void leader_file_sweep_(leader_file *f, int dir) {
    leader_sweep_ sweep = {f, false, ""};
    if (leader_file_local_(dir)) {
        leader_fs_names_(dir, leader_file_sweep_name_, &sweep);
        leader_fs_names_(dir, leader_file_sweep_lock_, NULL);
    }
}

static void leader_file_copy_(leader_file *f, int dir) {
    char text[LEADER_FILE_TEXT_MAX_];
    char draft[LEADER_FILE_NAME_MAX_];
    leader_stat_ st;
    leader_file_own_name_(draft, "copy.", f->nonce);
    size_t len = leader_file_text_(f, &f->written, f->written_ms, text, sizeof text);
    int fd = leader_file_draft_(f, dir, draft, text, len);
    bool good = fd >= 0 && leader_file_place_copy_(f, dir, draft);
    if (good && leader_fs_stat_(fd, &st)) {
        f->copy_inode = st.inode;
        f->copy_ns = st.changed_ns;
    }
    if (!good) {
        leader_file_say_copy_(f);
        leader_fs_remove_(dir, draft);
    }
    leader_file_shut_(&fd);
}

/* What can wait for the tick after a write. Whoever has written since copies for itself. */
static void leader_file_follow_up_(leader_file *f) {
    bool ours = f->copy_dir >= 0 && leader_file_stands_(f, f->written.version);
    if (ours) {
        leader_file_copy_(f, f->copy_dir);
    }
    if (ours && f->sweep_due) {
        f->sweep_due = false;
        leader_file_sweep_(f, f->copy_dir);
    }
    leader_file_shut_(&f->copy_dir);
}

static leader_result leader_file_write_(void *self, const leader_call *call, const leader_entry *next,
                                        leader_entry *stored) {
    leader_file *f = (leader_file *)self;
    int dir = -1;
    f->nonce = next->nonce;
    leader_result result = leader_file_enter_to_write_(f, next->version, &dir);
    if (result != LEADER_OK) {
        return result;
    }
    result = leader_file_store_(f, dir, call, next, stored);
    if (result == LEADER_OK) {
        f->written = *stored;
        f->written_ms = f->host.now_ms(f->host.core);
        f->holds = stored->holder[0] != 0;
        f->sweep_due = f->sweep_due || call->begins;
        leader_file_shut_(&f->copy_dir);
        f->copy_dir = dir;
        f->host.due(f->host.core);
    } else {
        leader_file_shut_(&dir);
    }
    if (result == LEADER_OK && !f->holds) {
        leader_file_tell_release_(f);
    }
    return result;
}

static leader_news leader_file_notice_(void *self, leader_entry *found) {
    leader_file *f = (leader_file *)self;
    (void)found;
    leader_file_follow_up_(f);
    if (f->holds) {
        leader_file_deafen_(f);
    }
    return leader_file_hear_(f) ? LEADER_NEWS_CHANGED : LEADER_NEWS_NONE;
}

/* -- open and close -- */

#if !defined(_WIN32)
/* A later chdir must not move the lease. */
static const char *leader_file_make_absolute_(leader_file *f) {
    char cwd[LEADER_PATH_MAX + 1];
    if (f->path[0] == '/') {
        return NULL;
    }
    size_t n = getcwd(cwd, sizeof cwd) ? strlen(cwd) : 0;
    size_t m = strlen(f->path);
    if (n == 0) {
        return "leader_file_backend: the working directory has no name; give an absolute path";
    }
    if (n + 1 + m > LEADER_PATH_MAX) {
        return "leader_file_backend: path is longer than LEADER_PATH_MAX with the working directory before "
               "it";
    }
    memmove(f->path + n + 1, f->path, m + 1);
    memcpy(f->path, cwd, n);
    f->path[n] = '/';
    return NULL;
}
#endif

static const char *leader_file_open_(void *self, const leader_host *host) {
    leader_file *f = (leader_file *)self;
    if (f->wrong) {
        return f->wrong;
    }
    if ((f->mode & ~0777) || (f->mode & 0600) != 0600) {
        return "leader_file_mode: give permissions such as 0600 or 0660, read and write for the owner "
               "included";
    }
    const char *wrong = leader_file_make_absolute_(f);
    if (wrong) {
        return wrong;
    }
    size_t from = offsetof(leader_file, ready);     // nothing of an earlier election
    memset((char *)f + from, 0, offsetof(leader_file, path) - from);
    snprintf(f->dir, sizeof f->dir, "%s.d", f->path);
    f->host = *host;
    f->notify_fd = -1;
    f->lock_fd = -1;
    f->copy_dir = -1;
    f->watch = -1;
    return NULL;
}

/* Removes what failed writes of ours left, except the text that the record needs. */
static void leader_file_tidy_(leader_file *f, int dir) {
    char version[LEADER_ENTRY_VERSION_MAX + 1];
    leader_name_ name;
    leader_sweep_ sweep = {f, true, ""};
    leader_result result = leader_file_find_(f, dir, version);
    if (result == LEADER_OK && leader_name_parse_(version, &name)) {
        leader_file_term_name_(sweep.kept, name.nonce, name.draft);
    }
    if (result == LEADER_OK || result == LEADER_LOST) {
        leader_fs_names_(dir, leader_file_sweep_name_, &sweep);
    }
}

/* The name goes first: a lock that turns free under its name would tell standbys that we are dead,
   although the lease may have been kept on purpose or work may still go on. If the name cannot go, the
   lock stays ours until we die. */
static void leader_file_drop_lock_(leader_file *f, int dir) {
    char name[LEADER_FILE_NAME_MAX_];
    leader_file_own_name_(name, "lock.", f->nonce);
    bool gone = dir >= 0 && (leader_fs_remove_(dir, name) || errno == ENOENT);
    if (gone || !f->holds) {
        leader_file_shut_(&f->lock_fd);
    }
    f->lock_fd = -1;
}

static void leader_file_close_(void *self) {
    leader_file *f = (leader_file *)self;
    leader_file_follow_up_(f);
    leader_file_deafen_(f);
    if (f->lock_fd >= 0 || f->unsettled) {
        int dir = leader_fs_open_(LEADER_HERE_, f->dir, LEADER_OPEN_DIR_, 0);
        if (dir >= 0 && f->unsettled) {
            leader_file_tidy_(f, dir);
        }
        leader_file_drop_lock_(f, dir);
        leader_file_shut_(&dir);
    }
    f->ready = false;
}

LEADER_API leader_backend leader_file_backend(leader_file *f, const char *path) {
    leader_register store;
    memset(&store, 0, sizeof store);
    memset(f, 0, sizeof *f);
    f->mode = 0600;
    store.self = f;
    store.read = leader_file_read_;
    store.write = leader_file_write_;
    store.notice = leader_file_notice_;
    store.open = leader_file_open_;
    store.close = leader_file_close_;
    store.name = f->path;
    size_t n = path ? strlen(path) : 0;
    if (n == 0) {
        f->wrong = "leader_file_backend: path is missing";
    } else if (n > LEADER_PATH_MAX) {
        f->wrong = "leader_file_backend: path is longer than LEADER_PATH_MAX (1023)";
    } else if (leader_fs_separates_(path[n - 1])) {
        f->wrong = "leader_file_backend: path names a directory; name the file in it";
    } else {
        memcpy(f->path, path, n + 1);
    }
    return leader_register_backend(&f->engine, &store);
}

#endif /* LEADER_NO_FILE */

#ifdef __cplusplus
}
#endif
#endif /* system headers in time */
#endif /* LEADER_IMPLEMENTATION */

/* Backends declare and implement themselves in the same way: see the top of each. */
#if defined(LEADER_WITH_REDIS)
#  include "backends/leader_redis.h"
#endif
#if defined(LEADER_WITH_K8S)
#  include "backends/leader_k8s.h"
#endif
#if defined(LEADER_WITH_ETCD)
#  include "backends/leader_etcd.h"
#endif
#if defined(LEADER_WITH_PG)
#  include "backends/leader_pg.h"
#endif
#if defined(LEADER_WITH_QUORUM)
#  include "backends/leader_quorum.h"
#endif

/* --------------------------------------------------------------------------------------------------------
   This software is available under two licences: choose whichever you prefer.

   ALTERNATIVE A - MIT License

   Copyright (c) 2026 the leader.h authors

   Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
   associated documentation files (the "Software"), to deal in the Software without restriction, including
   without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
   copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the
   following conditions: The above copyright notice and this permission notice shall be included in all
   copies or substantial portions of the Software.

   THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
   LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN
   NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY,
   WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE
   SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.

   ALTERNATIVE B - Public Domain (unlicense.org)

   This is free and unencumbered software released into the public domain. Anyone is free to copy, modify,
   publish, use, compile, sell, or distribute this software, either in source code form or as a compiled
   binary, for any purpose, commercial or non-commercial, and by any means. In jurisdictions that recognize
   copyright laws, the author or authors of this software dedicate any and all copyright interest in the
   software to the public domain. We make this dedication for the benefit of the public at large and to the
   detriment of our heirs and successors. We intend this dedication to be an overt act of relinquishment in
   perpetuity of all present and future rights to this software under copyright law.

   THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
   LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN
   NO EVENT SHALL THE AUTHORS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF
   CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER
   DEALINGS IN THE SOFTWARE.
   -------------------------------------------------------------------------------------------------------- */
