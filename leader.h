/* leader.h - v1.0.0 - leader election in one C header - MIT or public domain, licence at the end of the file

   Several copies of a program run; exactly one of them may act. leader.h tells each copy whether it is the one: it keeps
   a lease in a store that all copies share (a file, Redis, a Kubernetes Lease), renews it, gives it up, and takes it over
   when its holder is gone. No threads, no allocation, no blocking, no dependency.

   WHAT IT PROMISES
       At most one process reads true from leader_is_leader() at any moment. L is lease_ms, D is renew_deadline_ms, D < L:

       - A term is valid for D, counted from before its request was sent. Others may start only after L. So two can read
         true only if their clocks run at rates that differ by more than L/D (15/10 by default).
       - Every question is checked against a clock that also counts suspend. A process that was stopped, swapped out,
         suspended or stuck in a callback reads false the first time it looks again; no tick is needed for that.
       - Every term has a token greater than those of all earlier terms.
       - A store that lost its record does not count as a release: whoever finds it empty waits a full lease first.
       - The lease is released only when the work is over (is_drained); when in doubt it is left to expire.
       - Wall-clock time decides nothing.

   WHAT IT DOES NOT PROMISE
       - Anything after the moment of the check. A thread can stall between leader_is_leader() and what it does next:
         that is what leader_remaining_ms() and the token are for.
       - A token at a resource that has not yet seen the newer one.
       - Stores that were restored from a backup or edited by hand; a store wiped while a candidate starts that has seen
         nothing (cautious_start = true makes it wait one lease).
       - Clocks that stop: paused or snapshotted virtual machines, and clones of them.
       - The file store on NFS, SMB or FUSE with stale caches. Each backend header names the limits of its own store.

   DO THIS
       #define LEADER_IMPLEMENTATION       in exactly one C or C++ file, before the first system header
       #include "leader.h"
   and everywhere else just #include "leader.h".

       #include <stdio.h>
       int main(int argc, char **argv) {
           leader_file file;
           leader_config cfg = {0};                                  // C++: = {}
           cfg.identity = argc > 1 ? argv[1] : "node-a";             // unique: see leader_make_identity
           cfg.backend  = leader_file_backend(&file, "job.lease");
           leader_t me;
           if (leader_init(&me, &cfg) != LEADER_OK) return puts(leader_error(&me)), 1;
           for (int i = 0; i < 60; i++) {
               leader_tick(&me);
               if (leader_is_leader(&me)) puts("I do the work");
               leader_sleep(&me, 1000);
           }
           return leader_close(&me, 1000) != LEADER_OK;
       }

   HOW DO I STOP THE WORK IN TIME?
       Ask leader_is_leader() before you START something, and leader_remaining_ms() before something that takes long: it
       must be over before that many milliseconds have passed. Work that outlives the question is given up in
       on_stopped_leading; tell is_drained when the last of it has ended, and the lease is kept until then, so that a
       graceful hand-over never overlaps. If your process may stall anywhere, only the token makes the resource safe.

   WHAT IS THE TOKEN FOR?
       Send leader_token() along with every write. A resource that remembers the highest token it has seen, and rejects
       smaller ones, cannot be harmed by a leader that was stopped for an hour and wakes up in the middle of a write.

   TIMING      lease_ms 15000; everything else follows from it: renew after 1/3, give up after 2/3. Shorter leases fail over
               faster and tolerate less. A standby plans its attempt for the moment at which the lease can run out, so a crash
               costs the rest of the lease plus one round trip; a release wakes standbys at once.
               A late tick costs nothing while it is less than renew_deadline_ms - renew_ms late.

   STATES      FOLLOWER   competes or watches. It may hold the record without leading: see hold_off_ms.
               LEADER     leader_is_leader() is true while the deadline has not passed.
               DRAINING   not leader; on_stopped_leading has run; the lease is kept and renewed until is_drained.
               RELEASING  the release is on its way. Then FOLLOWER again, or
               STOPPED    after leader_stop.
               LEADER -> FOLLOWER when the store says that the lease is somebody else's; every other end of a term goes
               through DRAINING. A process whose earlier work is not drained does not compete.

   EVENT LOOPS leader_tick() answers in how many milliseconds it wants to be called again, at the latest.
               poll     after each tick: leader_fds(), poll() for that long, tick again.
               epoll, libuv, libev: on_fd tells which descriptors to watch (0: stop watching, it is about to be closed),
               on_due asks for a tick soon, a timer does the rest. Just sleeping that long works as well.

   THREADS     leader_tick, _sleep, _wait, _close, _fds, _error: one thread at a time. Everything else from any thread; leader_stop
               and leader_resign from signal handlers too. A compiler without atomics (tcc): the loop's thread only.
               A forked child is nobody: all questions answer no there, ticks and closes touch nothing of the parent's.

   BACKENDS    leader_file_backend    a file, for processes that share a directory              (in this header)
               leader_single_backend  always leader                                            (in this header)
               backends/leader_redis.h and backends/leader_k8s.h, with LEADER_WITH_REDIS / LEADER_WITH_K8S defined
               your own: three functions, see leader_backend below and examples/custom_backend.c

   COMPILE OPTIONS, global (the same wherever leader.h is included)
       LEADER_STATIC       everything static: a private copy in this file, for elections that only this file touches. Implies
                           LEADER_IMPLEMENTATION.
       LEADER_API          linkage of the public functions, e.g. __declspec(dllexport). Default: extern.
       LEADER_WITH_REDIS, LEADER_WITH_K8S   include that backend.
   COMPILE OPTIONS, implementation only
       LEADER_NO_FILE      leave the file backend out.
       LEADER_RANDOM64()   your source of 64 random bits (nonces must differ between processes). Default: the system's.
       LEADER_ASSERT(x)    default: assert(x).
   glibc before 2.34 wants -pthread at link time.

   ERRORS      Functions answer a leader_result; leader_strerror() names it, leader_error() says what exactly was wrong, with the
               field and its value. A store that fails is retried for ever with back-off; nothing ever stops the ticks.
*/
#ifndef LEADER_H_INCLUDED
#define LEADER_H_INCLUDED

#if defined(LEADER_IMPLEMENTATION) || defined(LEADER_STATIC)        /* plain -std=c99 hides the POSIX names that  */
#  if !defined(_GNU_SOURCE) && !defined(_DEFAULT_SOURCE)            /* the implementation needs; asking for them  */
#    define _DEFAULT_SOURCE 1                                       /* works while no system header came before   */
#  endif
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEADER_VERSION      "1.0.0"
#define LEADER_VERSION_NUM  10000   /* major * 10000 + minor * 100 + patch                                        */
#define LEADER_IDENTITY_MAX 255     /* bytes without the 0; longer is LEADER_E_CONFIG                             */
#define LEADER_PATH_MAX     1023    /* of the file backend, likewise                                              */
#define LEADER_FDS_MAX      8       /* an election never watches more                                             */
#define LEADER_WAIT_MAX_MS  60000   /* leader_tick never answers more                                             */

#if defined(LEADER_STATIC)          /* a private copy in this file: implies LEADER_IMPLEMENTATION                 */
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

/* One list, so that results, their numbers and their texts cannot drift apart. */
#define LEADER_RESULTS(X)                                                                                            \
    X(LEADER_OK,           0, "ok")                                                                                  \
    X(LEADER_PENDING,      1, "request under way; from leader_wait: a signal came first")                            \
    X(LEADER_HELD,         2, "somebody else has the lease")                                                         \
    X(LEADER_LOST,         3, "the store says that the lease is not ours (any more)")                                \
    X(LEADER_UNHEALTHY,    4, "is_healthy said false")                                                               \
    X(LEADER_E_CONFIG,    -1, "wrong configuration")                                                                 \
    X(LEADER_E_IO,        -2, "the store could not be reached or failed")                                            \
    X(LEADER_E_TIMEOUT,   -3, "no answer in time")                                                                   \
    X(LEADER_E_AUTH,      -4, "the store refused our credentials or rights")                                         \
    X(LEADER_E_CORRUPT,   -5, "the record in the store cannot be understood")                                        \
    X(LEADER_E_DUPLICATE, -6, "another process uses our identity")                                                   \
    X(LEADER_E_REENTRANT, -7, "called from inside a callback")                                                       \
    X(LEADER_E_STATE,     -8, "not possible in this state")

#define LEADER_STATES(X)                                                                                             \
    X(LEADER_STATE_NONE,      "none")         /* zeroed memory, failed init, closed                               */ \
    X(LEADER_STATE_FOLLOWER,  "follower")                                                                            \
    X(LEADER_STATE_LEADER,    "leader")                                                                              \
    X(LEADER_STATE_DRAINING,  "draining")     /* not leader; lease kept until is_drained                          */ \
    X(LEADER_STATE_RELEASING, "releasing")                                                                           \
    X(LEADER_STATE_STOPPED,   "stopped")

#define LEADER_RESULT_ENUM_(name, number, text) name = (number),
#define LEADER_STATE_ENUM_(name, text) name,
typedef enum leader_result { LEADER_RESULTS(LEADER_RESULT_ENUM_) LEADER_E_LAST_ = LEADER_E_STATE } leader_result;
typedef enum leader_state  { LEADER_STATES(LEADER_STATE_ENUM_) LEADER_STATE_LAST_ = LEADER_STATE_STOPPED } leader_state;
typedef enum leader_level  { LEADER_LOG_ERROR = 1, LEADER_LOG_WARN, LEADER_LOG_INFO, LEADER_LOG_DEBUG } leader_level;

enum { LEADER_READ = 1, LEADER_WRITE = 2 };                        /* own bits, not POLLIN or EPOLLIN             */
typedef struct leader_fd { intptr_t fd; int events; } leader_fd;   /* Windows: always a SOCKET, never a HANDLE    */

struct leader_config;

/* ---- for backend authors; users skip to leader_config ----------------------------------------------------------

   Each operation is a poll. The first call with a new seq starts it; LEADER_PENDING means "call me again when a
   descriptor is ready or again_ms has passed"; anything else ends it. A backend over a plain blocking store answers at
   once. Its one duty: after a successful acquire or renew the store keeps others out for lease_ms, even if the holder
   and its connection vanish. */
typedef struct leader_request {     /* valid during the call                                                      */
    uint64_t    seq;                /* rises with every request: never answer one with an older one's result. The
                                       record keeps that of the acquire that began the term: acquire adopts and
                                       release frees only a record of my nonce whose number is not above this     */
    const char *identity;
    uint64_t    nonce;              /* random per leader_init; owner = identity and nonce                         */
    uint64_t    min_token;          /* a new term's token is at least this                                        */
    int64_t     lease_ms;           /* the store keeps others out this long even if the holder vanishes           */
    int64_t     timeout_ms;         /* a blocking backend bounds itself by this                                   */
    int64_t     now_ms;             /* the election's clock, read before the request                              */
    bool        reclaim;            /* config.reclaim_identity, until the store has answered once                 */
} leader_request;

typedef struct leader_record {      /* zeroed before each call; say what the store said                           */
    char     holder[LEADER_IDENTITY_MAX + 1];                      /* "": nobody                                  */
    uint64_t token;
    int64_t  expires_in_ms;         /* nobody else may take it before; 0: it may be taken now; -1: unknown        */
    int64_t  hold_off_ms;           /* acquire OK, but the store had forgotten a holder: renew, lead only after this */
    int64_t  again_ms;              /* PENDING: call by then. Error: not before (Retry-After). 0: core decides    */
} leader_record;

typedef struct leader_host {        /* the core as a backend sees it; call only from inside a backend function    */
    void  *core;
    const struct leader_config *config;                            /* of this election, defaults filled in        */
    void (*fd) (void *core, intptr_t fd, int events);              /* MUST be called with 0 BEFORE fd is closed   */
    void (*due)(void *core);                                       /* shared connection: its answer has come      */
    void (*log)(void *core, leader_level level, const char *text); /* ERROR also becomes leader_error()           */
    int64_t (*now_ms)(void *core);                                 /* the election's clock: when a reply came     */
} leader_host;

typedef struct leader_backend {     /* acquire, renew, release are required                                       */
    void *self;                     /* must outlive the election                                                  */
    leader_result (*acquire)(void *self, const leader_request *, leader_record *seen);  /* OK HELD PENDING E_*    */
    leader_result (*renew)  (void *self, const leader_request *, leader_record *seen);  /* OK LOST PENDING E_*    */
    leader_result (*release)(void *self, const leader_request *, leader_record *seen);  /* OK LOST PENDING E_*    */
    leader_result (*observe)(void *self, const leader_request *, leader_record *seen);  /* OK HELD PENDING E_*    */
    bool          (*poll)   (void *self);   /* every tick, request or not: read to EAGAIN; true: store changed.
                                               Not twice in one millisecond while no request is under way         */
    void          (*cancel) (void *self);   /* forget the request under way: its outcome is unknown               */
    const char   *(*open)   (void *self, const leader_host *);     /* no I/O; what is wrong with the settings, or NULL */
    void          (*close)  (void *self);   /* once for each open that answered NULL                              */
} leader_backend;

/* ---- configuration.  C: leader_config cfg = {0};   C++: leader_config cfg = {}; ------------------------------- */
typedef struct leader_config {      /* leader_init copies it, strings too; 0 means the default beside the field   */
    const char    *identity;        /* required, unique, UTF-8: see leader_make_identity                          */
    leader_backend backend;         /* zero: single node, always leader, with one WARN in the log (a forgotten
                                       line must not go unseen); leader_single_backend() says it on purpose       */
    int64_t lease_ms;               /* 15000                                                                      */
    int64_t renew_deadline_ms;      /* lease_ms * 2/3; unrenewed leadership ends here, others start at lease_ms   */
    int64_t renew_ms;               /* lease_ms / 3; a tick later than deadline - renew may cost the term         */
    int64_t renew_retry_ms;         /* min(500, (renew_deadline_ms - renew_ms) / 10), then doubling               */
    int     renew_retries;          /* 3, at 500, 1000, 2000 ms; -1: go on every 2000 ms until the deadline       */
    int64_t retry_ms;               /* min(2000, renew_ms): between attempts of a standby                         */
    int64_t retry_max_ms;           /* 60000: ceiling of the back-off while the store fails                       */
    int64_t request_timeout_ms;     /* (renew_deadline_ms - renew_ms) / 2; cut to what is left before the deadline */
    int64_t drain_timeout_ms;       /* no limit; past it the lease is left to expire, not released                */
    bool    keep_lease_on_stop;     /* false: released on stop, once drained                                      */
    bool    observe_only;           /* watch who leads, never compete                                             */
    bool    cautious_start;         /* false; true: an empty store is trusted only after one lease                */
    bool    reclaim_identity;       /* only where no second live process can bear this identity                   */
    /* Callbacks run only inside leader_tick, _wait, _close, on that thread. They must not block and may call
       everything except leader_tick, _sleep, _wait, _close.                                                      */
    bool  (*is_healthy)(void *user);                               /* before each renewal; false: hand over       */
    bool  (*is_drained)(void *user);                               /* NULL: work is over when on_stopped returns  */
    void  (*on_started_leading)(void *user, uint64_t token);
    void  (*on_stopped_leading)(void *user, uint64_t token, leader_result why); /* OK asked to, LOST, UNHEALTHY,
                                       E_TIMEOUT the deadline, E_* the error that used the retries up             */
    void  (*on_new_leader)(void *user, const char *identity);      /* "": none; includes self                     */
    void  (*on_log)(void *user, leader_level level, const char *text);
    void   *user;
    void  (*on_fd)(void *loop_user, intptr_t fd, int events);      /* 0: unwatch now, it closes next; the same number
                                       may return at once as another fd                                           */
    void  (*on_due)(void *loop_user);                              /* tick soon: leader_due_ms fell to 0 by itself */
    void   *loop_user;                                             /* so that a loop adapter leaves user alone    */
    int64_t (*clock_ms)(void *clock_user);                         /* tests; monotonic, asked from any thread     */
    void   *clock_user;
} leader_config;

/* ---- snapshots ------------------------------------------------------------------------------------------------ */
typedef struct leader_view {        /* one consistent moment                                                      */
    leader_state state;
    bool     leading;
    uint64_t token;                 /* of whoever leads, as last seen                                             */
    int64_t  remaining_ms;
    int64_t  age_ms;                /* since the store last confirmed this; -1: never                             */
    int64_t  since_ms;              /* since this leader was first seen; -1: none                                 */
    char     leader[LEADER_IDENTITY_MAX + 1];
} leader_view;

typedef struct leader_stats {
    uint64_t terms, acquires, renewals, releases, transitions;
    uint64_t failures, failures_io, failures_timeout, failures_auth, failures_corrupt, failures_duplicate;
    int64_t  latency_ms_last, latency_ms_max, margin_ms_min, tick_late_ms_max, since_success_ms;  /* -1: none yet */
    leader_result last_error;
    char     last_error_text[160];
} leader_stats;

typedef struct leader_t    leader_t;      /* both complete below: yours to place; do not read, copy or move them  */
typedef struct leader_file leader_file;

/* ---- set-up ---------------------------------------------------------------------------------------------------- */
static inline leader_result leader_init(leader_t *, const leader_config *);  /* no I/O, no callback; on failure nothing
                                       is open and leader_error names the field. Again only after leader_close     */
LEADER_API const char    *leader_make_identity(char *buf, size_t cap, const char *prefix); /* buf: prefix-host-pid-hex */
LEADER_API leader_backend leader_single_backend(void);                       /* always leader, token 1            */
#if !defined(LEADER_NO_FILE)
LEADER_API leader_backend leader_file_backend(leader_file *, const char *path);   /* copies path                  */
#endif

/* ---- loop thread: one thread at a time -------------------------------------------------------------------------- */
LEADER_API int  leader_tick(leader_t *);  /* never blocks; call again within the ms answered: 1..LEADER_WAIT_MAX_MS,
                                       never 0 or negative (100 when stopped or in a callback; at most 20 while a
                                       request is under way and on_fd is NULL, so that plain sleeping works)       */
LEADER_API int  leader_fds(const leader_t *, leader_fd out[LEADER_FDS_MAX]);  /* how many; ask after every tick   */
LEADER_API void leader_sleep(leader_t *, int max_ms);              /* until due, store ready, signal or max_ms    */
LEADER_API leader_result leader_wait(leader_t *, int64_t timeout_ms);  /* tick and sleep until leader: OK, PENDING
                                       (signal), E_TIMEOUT, E_STATE (stopped, observer). -1: no limit              */
LEADER_API leader_result leader_close(leader_t *, int64_t timeout_ms); /* stop, tick and sleep to the end, free.
                                       E_TIMEOUT: closed all the same, lease left to expire. Repeatable            */
LEADER_API const char *leader_error(const leader_t *);             /* "" or text until the next call on it        */

/* ---- any thread, and signal handlers: acts in the next tick, so tick or wake your loop -------------------------- */
LEADER_API void leader_stop(leader_t *);                           /* repeatable; over when leader_is_stopped     */
LEADER_API void leader_resign(leader_t *, int64_t pause_ms);       /* hand over, pause (0: lease_ms), compete     */

/* ---- any thread; false, 0, "" for zeroed or closed memory and in a forked child --------------------------------- */
LEADER_API bool         leader_is_leader(const leader_t *);        /* may I START something now?                  */
LEADER_API uint64_t     leader_token(const leader_t *);            /* 0: not leader; same token: same term        */
LEADER_API int64_t      leader_remaining_ms(const leader_t *);     /* may I FINISH it? > 0 leading and draining   */
LEADER_API int          leader_due_ms(const leader_t *);           /* until leader_tick is due; 0: now            */
LEADER_API bool         leader_is_stopped(const leader_t *);       /* nothing left to tick; true when zeroed      */
LEADER_API bool         leader_is_healthy(const leader_t *, int64_t tolerance_ms);  /* false: tick or renewal overdue */
LEADER_API leader_state leader_get_state(const leader_t *);
LEADER_API int          leader_get_leader(const leader_t *, char *buf, size_t cap); /* as snprintf                */
LEADER_API leader_view  leader_get_view(const leader_t *);
LEADER_API leader_stats leader_get_stats(const leader_t *);
LEADER_API const char  *leader_strerror(leader_result);            /* static text                                 */
LEADER_API const char  *leader_state_name(leader_state);
LEADER_API leader_result leader_init_(leader_t *, size_t, const leader_config *, size_t, int version); /* do not call */

/* ================================================================================================================
   Stop here if you only want the API. The structs are complete so that you can place them; their insides are private.
   ================================================================================================================ */

typedef struct leader_shown_ {      /* what any thread may see, always as a whole                                 */
    int64_t  state;
    uint64_t token;                 /* of our own term; 0: not leading                                            */
    int64_t  until_ms;              /* leading while the clock is below                                           */
    int64_t  lease_until_ms;        /* the lease is ours while the clock is below: leading and draining           */
    uint64_t seen_token;            /* of whoever leads                                                           */
    int64_t  confirmed_ms;          /* when the store last said so; LEADER_NEVER_: it has not                     */
    int64_t  since_ms;              /* when this leader was first seen                                            */
    int64_t  error_code;
    char     leader[LEADER_IDENTITY_MAX + 1];
    char     error[160];
} leader_shown_;
enum { LEADER_SHOWN_WORDS_ = sizeof(leader_shown_) / sizeof(uint64_t) };

typedef struct leader_counts_ {     /* word for word the beginning of leader_stats                                */
    uint64_t terms, acquires, renewals, releases, transitions, failures, failures_by[5];    /* from E_IO down to E_DUPLICATE */
    int64_t  latency_ms_last, latency_ms_max, margin_ms_min, tick_late_ms_max, success_ms;
} leader_counts_;

struct leader_t {                   /* what is used most comes first: nearer fields make for shorter code         */
    const char    *error;           /* first in every version: leader_error works even where the sizes disagree   */
    uint32_t       life;            /* equals leader_life_ while open in this process                             */
    uint32_t       stop_asked;      /* set from anywhere, obeyed by the tick                                      */
    int64_t        until_ms;        /* the one word that leader_is_leader reads                                   */
    int64_t        due_ms;
    leader_state   state;           /* from here on, shown and counts excepted: the loop's thread only            */
    int32_t        op;              /* the request under way: LEADER_OP_..._                                      */
    int64_t        now_ms;          /* the clock as this step read it                                             */
    int64_t        sent_ms;         /* the clock before the request was sent: validity runs from here             */
    int64_t        next_ms;         /* the next request is due                                                    */
    int64_t        lease_until_ms;  /* the record is ours while the clock is below: sent_ms + renew_deadline_ms   */
    int64_t        hold_until_ms;   /* rule 6: no term starts before                                              */
    uint64_t       token;           /* of the record that we hold                                                 */
    uint64_t       highest_token;
    int32_t        retries, failing;
    bool           busy, stopping, holding, maybe_ours, undrained, noticed, unread, answered, unsaid, error_now, error_said;
    leader_config  cfg;
    int64_t        timeout_ms, again_at_ms;
    int64_t        confirmed_ms;    /* when the store last said who leads                                         */
    int64_t        polled_ms;
    int64_t        pause_ms, pause_until_ms, drain_until_ms;
    int64_t        window_ms;       /* early attempts are counted from here                                       */
    int32_t        early, pid, fd_count;
    uint64_t       nonce, random, seq;
    int64_t        resign_asked;    /* pause + 1; set from anywhere, obeyed by the tick                           */
    leader_counts_ counts;
    leader_host    host;
    char           identity[LEADER_IDENTITY_MAX + 1];
    leader_fd      fds[LEADER_FDS_MAX];
    uint64_t       version;         /* of what is shown: shown[version & 1]                                       */
    uint64_t       shown[2][LEADER_SHOWN_WORDS_];
};

struct leader_file {
    int      mode;                  /* of the files made; set it between leader_file_backend and leader_init. 0600 */
    int      notify_fd, lock_fd;
    int      base_fd;               /* the record on which the next write is based: while open, its inode is unique */
    const char *wrong;              /* found by the maker, told by open                                           */
    leader_host host;
    uint64_t nonce;
    uint64_t my_number, my_token, my_seq;   /* the record that we wrote last, while it is ours                    */
    uint64_t seen_number, seen_form, holder_nonce;
    uint64_t sure_number;           /* the highest seen that nobody takes back any more: the store must not go behind */
    int64_t  seen_since_ms, longest_ms;
    int64_t  forgot_ms;             /* when the store was found to have forgotten a holder                        */
    int64_t  hold_until_ms;         /* until then our record says that its term has not begun                     */
    uint64_t lock_device, lock_inode, watch_inode, time_namespace;
    int      lock_closed;           /* the holder's lock file was closed: ask again soon, that many times         */
    bool     ready, saw_holder, said_copy;
    char     boot_id[40], acquired[28];
    char     path[LEADER_PATH_MAX + 1], dir[LEADER_PATH_MAX + 3];
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

/* ---- platform: everything that differs between systems stands in this section ---------------------------------- */

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#if defined(_WIN32)
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

/* One clear message, and nothing after it: hence the #else around the rest. */
#if !defined(_WIN32) && (!defined(AT_FDCWD) || !defined(CLOCK_MONOTONIC))
#  error "leader.h: a system header was included before it under -std=c99: include leader.h first, or define _DEFAULT_SOURCE on the command line"
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
#else                               /* no atomics: queries from the loop's thread only                            */
#  define LEADER_LOAD_(p)     (*(p))
#  define LEADER_STORE_(p, v) ((void)(*(p) = (v)))
#  define LEADER_SWAP_(p, v)  leader_swap_((p), (v))
static int64_t leader_swap_(int64_t *p, int64_t v) { int64_t old = *p; *p = v; return old; }
#endif

#define LEADER_NEVER_ INT64_MIN     /* a moment that no clock is below                                            */
#define LEADER_TIME_MAX_MS_ (INT64_C(1000) * 86400 * 3650)         /* ten years: longer is a mistake              */

#if defined(_WIN32)

#define LEADER_CLOCK_GRAIN_MS_ 16   /* GetTickCount64 may lag this much: a term ends that much earlier            */
static int64_t leader_clock_ms_(void) { return (int64_t)GetTickCount64(); }
static int32_t leader_pid_(void) { return (int32_t)GetCurrentProcessId(); }
static bool leader_watch_forks_(void) { return true; }

LEADER_UNUSED_ static int64_t leader_wall_us_(void) {
    FILETIME t;
    GetSystemTimeAsFileTime(&t);    /* 100 ns since 1601                                                          */
    return (int64_t)((((uint64_t)t.dwHighDateTime << 32) | t.dwLowDateTime) / 10) - INT64_C(11644473600000000);
}
static void leader_host_name_(char *buf, size_t cap) {
    DWORD n = (DWORD)cap;
    if (!GetComputerNameA(buf, &n)) buf[0] = 0;
}
BOOLEAN NTAPI SystemFunction036(PVOID buf, ULONG len);      /* RtlGenRandom, in advapi32                      */
static bool leader_system_random_(uint64_t *out) { return SystemFunction036(out, (ULONG)sizeof *out) != 0; }

/* Sockets become ready without waking Sleep, so it naps when there are any. */
static bool leader_nap_(const leader_fd *fds, int count, int ms) {
    (void)fds;
    Sleep((DWORD)(count > 0 && ms > 10 ? 10 : ms));
    return false;
}

#else

#define LEADER_CLOCK_GRAIN_MS_ 0
static int64_t leader_clock_ms_(void) {
#if defined(__APPLE__)
    static mach_timebase_info_data_t base;
    if (base.denom == 0) mach_timebase_info(&base);
    return (int64_t)(mach_continuous_time() / 1000000 * base.numer / base.denom);
#else
    struct timespec t;
#  if defined(CLOCK_BOOTTIME)
    clock_gettime(CLOCK_BOOTTIME, &t);      /* unlike CLOCK_MONOTONIC it goes on while the machine is suspended   */
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
static int32_t leader_pid_(void) { return (int32_t)getpid(); }
static void leader_host_name_(char *buf, size_t cap) {
    if (gethostname(buf, cap) != 0) buf[0] = 0;
    buf[cap - 1] = 0;
}
LEADER_UNUSED_ static bool leader_system_random_(uint64_t *out) {
#if defined(__APPLE__)
    arc4random_buf(out, sizeof *out);
    return true;
#else
#  if defined(SYS_getrandom)
    if (syscall(SYS_getrandom, out, sizeof *out, 1u /* GRND_NONBLOCK */) == (long)sizeof *out) return true;
#  endif
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, out, sizeof *out);
    if (fd >= 0) close(fd);
    return got == (ssize_t)sizeof *out;
#endif
}

/* Answers true if a signal came first. */
static bool leader_nap_(const leader_fd *fds, int count, int ms) {
    struct pollfd wait[LEADER_FDS_MAX];
    for (int i = 0; i < count; i++) {
        wait[i].fd = (int)fds[i].fd;
        wait[i].events = (short)((fds[i].events & LEADER_READ ? POLLIN : 0) | (fds[i].events & LEADER_WRITE ? POLLOUT : 0));
        wait[i].revents = 0;
    }
    return poll(wait, (nfds_t)count, ms) < 0 && errno == EINTR;
}

#endif

/* A child of fork() lives a later life than every election that its parent opened, so one load tells them apart.
   (getpid() at every question would cost more than the clock.) vfork and bare clone() run no handler: for them every
   request checks the pid as well. */
static uint32_t leader_life_ = 1;
#if !defined(_WIN32)
static void leader_forked_(void) { LEADER_STORE_(&leader_life_, leader_life_ + 1); }
static bool leader_watch_forks_(void) {
    static uint32_t watching = 0;
    if (!LEADER_LOAD_(&watching)) {
        if (pthread_atfork(NULL, NULL, leader_forked_) != 0) return false;
        LEADER_STORE_(&watching, 1u);
    }
    return true;
}
#endif

static uint64_t leader_mix_(uint64_t x) {
    x ^= x >> 33; x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33; x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}

#ifndef LEADER_RANDOM64
#define LEADER_RANDOM64() leader_random64_()
static uint64_t leader_random64_(void) {
    static uint64_t calls = 0;
    uint64_t r = 0;
    if (leader_system_random_(&r)) return r;
    calls += 1;                     /* no entropy to be had: clock, process and place still tell processes apart  */
    return leader_mix_((uint64_t)leader_clock_ms_() ^ leader_mix_((uint64_t)leader_pid_() ^ leader_mix_((uint64_t)(uintptr_t)&r + calls)));
}
#endif

/* ---- text: JSON read in place, UTF-8, time stamps. Shared with backends/ ---------------------------------------- */

/* The length of the UTF-8 sequence at `at`, or 0 if it is none: overlong forms and surrogates are none. */
static size_t leader_utf8_(const char *at, size_t left) {
    const unsigned char *s = (const unsigned char *)at;
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    if (n == 0 || n > left) return 0;
    for (size_t i = 1; i < n; i++) if ((s[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))) return 0;
    if (n == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))) return 0;
    return n;
}

typedef struct leader_json_ { const char *at; size_t len; } leader_json_;   /* one value: a span of the text it stands in */
enum { LEADER_JSON_DEPTH_ = 32 };

static const char *leader_json_space_(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) p++;
    return p;
}

static int leader_hex_(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Four hexadecimal digits, or -1. */
static long leader_json_hex4_(const char *p, const char *end) {
    long v = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int h = leader_hex_(p[i]);
        if (h < 0) return -1;
        v = v * 16 + h;
    }
    return v;
}

/* Each skip function takes the text at a value and answers its end; a mistake answers false with *pp at the bad byte. */
static bool leader_json_skip_string_(const char **pp, const char *end) {
    const char *p = *pp + 1;
    while (p < end && *p != '"') {
        *pp = p;
        if ((unsigned char)*p < 0x20) return false;
        if (*p != '\\') {
            size_t n = leader_utf8_(p, (size_t)(end - p));
            if (n == 0) return false;
            p += n;
        } else if (end - p < 2) {
            return false;
        } else if (p[1] == 'u') {
            if (leader_json_hex4_(p + 2, end) < 0) return false;
            p += 6;
        } else if (p[1] != 0 && strchr("\"\\/bfnrt", p[1]) != NULL) {
            p += 2;
        } else {
            return false;
        }
    }
    *pp = p;
    if (p >= end) return false;
    *pp = p + 1;
    return true;
}

static bool leader_json_digits_(const char **pp, const char *end) {
    const char *start = *pp;
    while (*pp < end && **pp >= '0' && **pp <= '9') ++*pp;
    return *pp > start;
}

static bool leader_json_skip_number_(const char **pp, const char *end) {
    if (*pp < end && **pp == '-') ++*pp;
    if (*pp < end && **pp == '0') ++*pp;
    else if (!leader_json_digits_(pp, end)) return false;
    if (*pp < end && **pp == '.') {
        ++*pp;
        if (!leader_json_digits_(pp, end)) return false;
    }
    if (*pp < end && (**pp == 'e' || **pp == 'E')) {
        ++*pp;
        if (*pp < end && (**pp == '+' || **pp == '-')) ++*pp;
        if (!leader_json_digits_(pp, end)) return false;
    }
    return true;
}

static bool leader_json_skip_(const char **pp, const char *end, int depth);

static bool leader_json_skip_items_(const char **pp, const char *end, int depth) {
    const bool object = **pp == '{';
    const char close = object ? '}' : ']';
    *pp = leader_json_space_(*pp + 1, end);
    if (*pp < end && **pp == close) { ++*pp; return true; }
    for (;;) {
        if (object) {
            if (*pp >= end || **pp != '"' || !leader_json_skip_string_(pp, end)) return false;
            *pp = leader_json_space_(*pp, end);
            if (*pp >= end || **pp != ':') return false;
            *pp = leader_json_space_(*pp + 1, end);
        }
        if (!leader_json_skip_(pp, end, depth - 1)) return false;
        *pp = leader_json_space_(*pp, end);
        if (*pp < end && **pp == close) { ++*pp; return true; }
        if (*pp >= end || **pp != ',') return false;
        *pp = leader_json_space_(*pp + 1, end);
    }
}

static bool leader_json_skip_(const char **pp, const char *end, int depth) {
    static const char *const words[3] = {"true", "false", "null"};
    if (*pp >= end || depth == 0) return false;
    if (**pp == '"') return leader_json_skip_string_(pp, end);
    if (**pp == '{' || **pp == '[') return leader_json_skip_items_(pp, end, depth);
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(end - *pp) >= n && memcmp(*pp, words[i], n) == 0) { *pp += n; return true; }
    }
    return leader_json_skip_number_(pp, end);
}

/* Strict JSON in UTF-8, nothing but white space around it. On a mistake *bad_at is the first byte that is wrong. */
LEADER_UNUSED_ static bool leader_json_parse_(const char *text, size_t len, leader_json_ *root, size_t *bad_at) {
    const char *end = text + len, *start = leader_json_space_(text, end), *p = start;
    bool good = leader_json_skip_(&p, end, LEADER_JSON_DEPTH_);
    root->at = start;
    root->len = (size_t)(p - start);
    if (good) p = leader_json_space_(p, end);
    *bad_at = (size_t)(p - text);
    return good && p == end;
}

/* Decodes a string value. False: not a string, too long for the buffer, a lone surrogate, or a NUL inside. */
static bool leader_json_string_(leader_json_ value, char *buf, size_t cap) {
    if (value.len < 2 || value.at[0] != '"') return false;
    size_t n = 0;
    for (const char *p = value.at + 1, *end = value.at + value.len - 1; p < end;) {
        char out[4];
        size_t w = 1;
        if (*p != '\\') {
            out[0] = *p++;
        } else if (p[1] != 'u') {
            const char *from = "\"\\/bfnrt", *to = "\"\\/\b\f\n\r\t";
            out[0] = to[strchr(from, p[1]) - from];
            p += 2;
        } else {
            long c = leader_json_hex4_(p + 2, end);
            p += 6;
            if (c >= 0xd800 && c < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
                long low = leader_json_hex4_(p + 2, end);
                if (low < 0xdc00 || low > 0xdfff) return false;
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                p += 6;
            }
            if (c <= 0 || (c >= 0xd800 && c <= 0xdfff)) return false;
            w = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
            for (size_t i = w; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
            out[0] = (char)(w == 1 ? c : (0xf00 >> w & 0xff) | c);
        }
        if (n + w >= cap) return false;
        memcpy(buf + n, out, w);
        n += w;
    }
    if (n >= cap) return false;
    buf[n] = 0;
    return true;
}

/* A member of an object that leader_json_parse_ accepted. False: not an object, no such member, or more than one: readers
   would disagree about which of them counts. (*value is the first then, and untouched otherwise.) */
LEADER_UNUSED_ static bool leader_json_member_(leader_json_ object, const char *name, leader_json_ *value) {
    const char *end = object.at + object.len;
    bool found = false;
    if (object.len == 0 || object.at[0] != '{') return false;
    for (const char *p = leader_json_space_(object.at + 1, end); p < end && *p == '"';) {
        char key[256];
        leader_json_ k = {p, 0}, v = {p, 0};
        if (!leader_json_skip_string_(&p, end)) return false;
        k.len = (size_t)(p - k.at);
        p = leader_json_space_(p, end);
        p = leader_json_space_(p + 1, end);
        v.at = p;
        if (!leader_json_skip_(&p, end, LEADER_JSON_DEPTH_)) return false;
        v.len = (size_t)(p - v.at);
        if (leader_json_string_(k, key, sizeof key) && strcmp(key, name) == 0) {
            if (found) return false;
            found = true;
            *value = v;
        }
        p = leader_json_space_(p, end);
        if (p < end && *p == ',') p = leader_json_space_(p + 1, end);
    }
    return found;
}

/* Plain digits: no sign, fraction or exponent. */
LEADER_UNUSED_ static bool leader_json_u64_(leader_json_ value, uint64_t *out) {
    uint64_t v = 0;
    for (size_t i = 0; i < value.len; i++) {
        uint64_t digit = (uint64_t)(value.at[i] - '0');
        if (value.at[i] < '0' || value.at[i] > '9' || v > (UINT64_MAX - digit) / 10) return false;
        v = v * 10 + digit;
    }
    *out = v;
    return value.len > 0;
}

/* Writes text as a JSON string, quotes included; answers the length needed, as snprintf does. */
LEADER_UNUSED_ static size_t leader_json_quote_(char *buf, size_t cap, const char *text) {
    size_t n = 0;
    char out[8] = "\"";
    for (size_t w = 1;; text++) {
        if (n + w < cap) memcpy(buf + n, out, w);
        n += w;
        if (*text == 0) break;
        if (*text == '"' || *text == '\\') { out[0] = '\\'; out[1] = *text; w = 2; }
        else if ((unsigned char)*text >= 0x20) { out[0] = *text; w = 1; }
        else w = (size_t)snprintf(out, sizeof out, "\\u%04x", (unsigned)(unsigned char)*text);
    }
    if (n + 1 < cap) { buf[n] = '"'; buf[n + 1] = 0; }
    else if (cap > 0) buf[cap - 1] = 0;
    return n + 1;
}

/* RFC 3339 in UTC, always with six digits: "2026-11-16T01:28:19.182774Z". Not gmtime: it reads TZ, and allocates. */
LEADER_UNUSED_ static void leader_time_text_(char buf[28], int64_t unix_us) {
    if (unix_us < 0) unix_us = 0;               /* a clock that far off names no time                             */
    uint32_t us = (uint32_t)(unix_us % 1000000), rest = (uint32_t)(unix_us / 1000000 % 86400), days = (uint32_t)(unix_us / 1000000 / 86400);
    uint32_t year = 1970, month = 1, leap, length;
    while (leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0), days >= 365 + leap) { days -= 365 + leap; year++; }
    while (length = month == 2 ? 28 + leap : 30 + (month + month / 8) % 2, days >= length) { days -= length; month++; }
    char text[160];
    snprintf(text, sizeof text, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ", (unsigned)year, (unsigned)month, (unsigned)days + 1,
             (unsigned)(rest / 3600), (unsigned)(rest / 60 % 60), (unsigned)(rest % 60), (unsigned)us);
    memcpy(buf, text, 27);
    buf[27] = 0;
}

/* ---- what other threads see --------------------------------------------------------------------------------------

   Two copies take turns: the loop fills the one that is not shown and then turns `version`. A reader never waits for
   a writer that was stopped half-way; it looks again only if the writer turned the version under it. Every word is
   stored with release and loaded with acquire order, so a reader that sees a word of a later writing also sees the
   version that came before it. */

static leader_shown_ leader_shown_now_(const leader_t *l) {
    uint64_t version, words[LEADER_SHOWN_WORDS_];
    leader_shown_ shown;
    do {
        version = LEADER_LOAD_(&l->version);
        for (int i = 0; i < LEADER_SHOWN_WORDS_; i++) words[i] = LEADER_LOAD_(&l->shown[version & 1][i]);
    } while (LEADER_LOAD_(&l->version) != version);
    memcpy(&shown, words, sizeof shown);
    return shown;
}

static void leader_show_(leader_t *l, const leader_shown_ *shown) {
    uint64_t words[LEADER_SHOWN_WORDS_], *to = l->shown[(l->version + 1) & 1];
    memcpy(words, shown, sizeof words);
    for (int i = 0; i < LEADER_SHOWN_WORDS_; i++) LEADER_STORE_(&to[i], words[i]);
    LEADER_STORE_(&l->version, l->version + 1);
}

#define LEADER_COUNT_(l, field)      LEADER_STORE_(&(l)->counts.field, (l)->counts.field + 1)
#define LEADER_KEEP_(l, field, v)    LEADER_STORE_(&(l)->counts.field, (v))
#define LEADER_KEEP_MAX_(l, field, v) do { if ((v) > (l)->counts.field) LEADER_KEEP_(l, field, v); } while (0)

static int64_t leader_now_(const leader_t *l) {
    return l->cfg.clock_ms ? l->cfg.clock_ms(l->cfg.clock_user) : leader_clock_ms_();
}

/* Open, and opened by this very process? */
static bool leader_mine_(const leader_t *l) { return LEADER_LOAD_(&l->life) == LEADER_LOAD_(&leader_life_); }

/* The text of the last error, where the loop's thread may read it in place. */
static const char *leader_error_text_(const leader_t *l) { return (const char *)l->shown[l->version & 1] + offsetof(leader_shown_, error); }

LEADER_API bool leader_is_leader(const leader_t *l) {
    int64_t until = LEADER_LOAD_(&l->until_ms);      /* first the deadline, then the clock: a stall in between can */
    return leader_mine_(l) && leader_now_(l) < until; /* only turn the answer to false                             */
}

LEADER_API leader_view leader_get_view(const leader_t *l) {
    leader_view v;
    memset(&v, 0, sizeof v);
    v.age_ms = v.since_ms = -1;
    if (!leader_mine_(l)) return v;
    leader_shown_ s = leader_shown_now_(l);
    int64_t now = leader_now_(l);
    v.leading = now < s.until_ms;
    v.state = s.state == LEADER_STATE_LEADER && !v.leading ? LEADER_STATE_DRAINING : (leader_state)s.state;
    v.remaining_ms = now < s.lease_until_ms ? s.lease_until_ms - now : 0;
    if (s.confirmed_ms != LEADER_NEVER_) v.age_ms = now - s.confirmed_ms;
    if (s.state == LEADER_STATE_LEADER && !v.leading) return v;     /* expired without a tick: nobody leads        */
    v.token = s.seen_token;
    if (s.leader[0]) v.since_ms = now - s.since_ms;
    memcpy(v.leader, s.leader, sizeof v.leader);
    return v;
}

LEADER_API uint64_t leader_token(const leader_t *l) {
    if (!leader_mine_(l)) return 0;
    leader_shown_ s = leader_shown_now_(l);
    return leader_now_(l) < s.until_ms ? s.token : 0;
}

LEADER_API int64_t leader_remaining_ms(const leader_t *l) { return leader_get_view(l).remaining_ms; }
LEADER_API leader_state leader_get_state(const leader_t *l) { return leader_get_view(l).state; }

LEADER_API int leader_get_leader(const leader_t *l, char *buf, size_t cap) {
    leader_view v = leader_get_view(l);
    return snprintf(buf, cap, "%s", v.leader);
}

LEADER_API bool leader_is_stopped(const leader_t *l) {
    leader_state state = leader_get_state(l);
    return state == LEADER_STATE_STOPPED || state == LEADER_STATE_NONE;
}

LEADER_API int leader_due_ms(const leader_t *l) {
    if (!leader_mine_(l)) return 0;
    int64_t due = LEADER_LOAD_(&l->due_ms), now = leader_now_(l);
    return due <= now ? 0 : due - now > LEADER_WAIT_MAX_MS ? LEADER_WAIT_MAX_MS : (int)(due - now);
}

LEADER_API bool leader_is_healthy(const leader_t *l, int64_t tolerance_ms) {
    if (!leader_mine_(l)) return false;
    leader_shown_ s = leader_shown_now_(l);
    int64_t due = LEADER_LOAD_(&l->due_ms), now = leader_now_(l);
    if (s.state == LEADER_STATE_STOPPED) return true;
    if (due != LEADER_NEVER_ && now - due > tolerance_ms) return false;
    if (s.state != LEADER_STATE_LEADER) return true;
    int64_t renewed = s.until_ms - l->cfg.renew_deadline_ms;
    return now - renewed - l->cfg.renew_ms <= tolerance_ms;
}

LEADER_API leader_stats leader_get_stats(const leader_t *l) {
    leader_stats out;
    memset(&out, 0, sizeof out);
    out.latency_ms_last = out.latency_ms_max = out.margin_ms_min = out.tick_late_ms_max = out.since_success_ms = -1;
    if (!leader_mine_(l)) return out;
    leader_shown_ s = leader_shown_now_(l);
    uint64_t words[sizeof(leader_counts_) / sizeof(uint64_t)];
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) words[i] = LEADER_LOAD_((const uint64_t *)(const void *)&l->counts + i);
    LEADER_ASSERT(sizeof words == offsetof(leader_stats, last_error));
    memcpy(&out, words, sizeof words);
    out.since_success_ms = out.since_success_ms == LEADER_NEVER_ ? -1 : leader_now_(l) - out.since_success_ms;
    out.last_error = (leader_result)s.error_code;
    memcpy(out.last_error_text, s.error, sizeof out.last_error_text);
    return out;
}

LEADER_API const char *leader_strerror(leader_result result) {
#define LEADER_RESULT_TEXT_(name, number, text) {name, text},
    static const struct { leader_result code; const char *text; } texts[] = {LEADER_RESULTS(LEADER_RESULT_TEXT_)};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) if (texts[i].code == result) return texts[i].text;
    return "unknown result";
}

LEADER_API const char *leader_state_name(leader_state state) {
#define LEADER_STATE_TEXT_(name, text) text,
    static const char *const texts[] = {LEADER_STATES(LEADER_STATE_TEXT_)};
    return (unsigned)state < sizeof texts / sizeof texts[0] ? texts[state] : "unknown state";
}

/* From any thread and from signal handlers: leave a word for the next tick. */
LEADER_API void leader_stop(leader_t *l) {
    if (!leader_mine_(l)) return;
    LEADER_STORE_(&l->stop_asked, 1u);
    LEADER_STORE_(&l->due_ms, LEADER_NEVER_);
}

LEADER_API void leader_resign(leader_t *l, int64_t pause_ms) {
    if (!leader_mine_(l)) return;
    LEADER_STORE_(&l->resign_asked, (pause_ms > 0 ? pause_ms < INT64_MAX / 4 ? pause_ms : INT64_MAX / 4 : l->cfg.lease_ms) + 1);
    LEADER_STORE_(&l->due_ms, LEADER_NEVER_);
}

/* ---- saying what happened ---------------------------------------------------------------------------------------- */

static void leader_log_(leader_t *l, leader_level level, const char *format, ...) LEADER_PRINTF_(3, 4);
static void leader_log_(leader_t *l, leader_level level, const char *format, ...) {
    if (!l->cfg.on_log) return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    l->cfg.on_log(l->cfg.user, level, text);
}

/* The error that leader_error() and the statistics tell. A text longer than its place is cut at a whole character. */
static void leader_set_error_(leader_t *l, leader_result code, const char *text) {
    leader_shown_ s = leader_shown_now_(l);
    s.error_code = code;
    size_t n = strlen(text);
    if (n >= sizeof s.error) for (n = sizeof s.error - 1; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80; n--) {}
    memset(s.error, 0, sizeof s.error);
    memcpy(s.error, text, n);
    leader_show_(l, &s);
    l->error_now = true;
}

LEADER_API const char *leader_error(const leader_t *l) {
    if (l->error) return l->error;  /* leader_init failed                                                         */
    return leader_mine_(l) && l->error_now ? leader_error_text_(l) : "";
}

enum { LEADER_OP_NONE_, LEADER_OP_ACQUIRE_, LEADER_OP_RENEW_, LEADER_OP_RELEASE_, LEADER_OP_OBSERVE_ };
static const char *const leader_op_names_[] = {"nothing", "acquire", "renew", "release", "observe"};

/* A request failed. What the backend said of it while it ran (error_said) tells more than the code's own text. */
static void leader_fail_(leader_t *l, int op, leader_result code, const char *text) {
    char line[200];
    LEADER_COUNT_(l, failures);
    if (code <= LEADER_E_IO && code >= LEADER_E_DUPLICATE) LEADER_COUNT_(l, failures_by[LEADER_E_IO - code]);
    if (!text && l->error_said) snprintf(line, sizeof line, "%s", leader_error_text_(l));
    else snprintf(line, sizeof line, "%s: %s", leader_op_names_[op], text ? text : leader_strerror(code));
    leader_set_error_(l, code, line);
    if (!l->error_said) leader_log_(l, LEADER_LOG_WARN, "%s", line);
}

/* Shows the state, what follows from it, and who leads (NULL: as before) in one piece. Nobody reads true before the rest
   is shown, nor after it is taken back. True: another one leads than before. */
static bool leader_enter_(leader_t *l, leader_state state, const char *leader, uint64_t token) {
    bool leading = state == LEADER_STATE_LEADER;
    if (!leading) LEADER_STORE_(&l->until_ms, LEADER_NEVER_);
    leader_shown_ s = leader_shown_now_(l);
    bool other = leader && strcmp(s.leader, leader) != 0;
    l->state = state;
    s.state = state;
    s.token = leading ? l->token : 0;
    s.until_ms = leading ? l->lease_until_ms : LEADER_NEVER_;
    s.lease_until_ms = leading || state == LEADER_STATE_DRAINING ? l->lease_until_ms : LEADER_NEVER_;
    s.confirmed_ms = l->confirmed_ms;
    if (leader) {
        if (other || s.seen_token != token) s.since_ms = l->now_ms;
        s.seen_token = token;
        memset(s.leader, 0, sizeof s.leader);
        memcpy(s.leader, leader, strlen(leader));
    }
    leader_show_(l, &s);
    if (leading) LEADER_STORE_(&l->until_ms, l->lease_until_ms);
    return other;
}

static void leader_tell_leader_(leader_t *l, const char *identity) {
    if (identity[0]) LEADER_COUNT_(l, transitions);
    if (l->cfg.on_new_leader) l->cfg.on_new_leader(l->cfg.user, identity);
}

static void leader_note_leader_(leader_t *l, const char *identity, uint64_t token) {
    if (leader_enter_(l, l->state, identity, token)) leader_tell_leader_(l, identity);
}

/* ---- the core as backends see it --------------------------------------------------------------------------------- */

static void leader_host_fd_(void *core, intptr_t fd, int events) {
    leader_t *l = (leader_t *)core;
    int i = 0;
    while (i < l->fd_count && l->fds[i].fd != fd) i++;
    if (events == 0) {
        if (i == l->fd_count) return;
        l->fds[i] = l->fds[--l->fd_count];
    } else {
        LEADER_ASSERT(i < LEADER_FDS_MAX);
        if (i == LEADER_FDS_MAX) return;
        if (i < l->fd_count && l->fds[i].events == events) return;
        if (i == l->fd_count) l->fd_count++;
        l->fds[i].fd = fd;
        l->fds[i].events = events;
    }
    if (l->cfg.on_fd) l->cfg.on_fd(l->cfg.loop_user, fd, events);
}

static void leader_host_due_(void *core) {
    leader_t *l = (leader_t *)core;
    LEADER_STORE_(&l->due_ms, LEADER_NEVER_);
    if (!l->busy && l->cfg.on_due) l->cfg.on_due(l->cfg.loop_user);
}

static void leader_host_log_(void *core, leader_level level, const char *text) {
    leader_t *l = (leader_t *)core;
    if (level == LEADER_LOG_ERROR) {
        leader_set_error_(l, LEADER_E_IO, text);
        l->error_said = true;
    }
    leader_log_(l, level, "%s", text);
}

static int64_t leader_host_now_(void *core) { return leader_now_((const leader_t *)core); }

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static uint64_t leader_random_below_(leader_t *l, uint64_t bound) {
    l->random ^= l->random << 13; l->random ^= l->random >> 7; l->random ^= l->random << 17;
    return bound ? leader_mix_(l->random) % bound : 0;
}

static void leader_cancel_(leader_t *l) {
    if (l->op == LEADER_OP_NONE_) return;
    if (l->op == LEADER_OP_ACQUIRE_) l->maybe_ours = true;
    l->op = LEADER_OP_NONE_;
    if (l->cfg.backend.cancel) l->cfg.backend.cancel(l->cfg.backend.self);
}

/* In a child that ran no fork handler? Then nothing here is its own: no backend function may be called. */
static bool leader_stray_(leader_t *l) {
    if (leader_pid_() == l->pid) return false;
    LEADER_STORE_(&l->until_ms, LEADER_NEVER_);
    LEADER_STORE_(&l->life, 0u);
    return true;
}

static bool leader_answer_(leader_t *l);

/* Reads the clock, then sends: a validity that starts here can only be shorter than what the store grants. */
static bool leader_send_(leader_t *l, int op) {
    LEADER_ASSERT(l->op == LEADER_OP_NONE_);
    if (leader_stray_(l)) return false;
    l->op = op;
    l->seq += 1;
    l->noticed = false;
    l->sent_ms = leader_now_(l);
    l->again_at_ms = LEADER_NEVER_;
    l->timeout_ms = l->cfg.request_timeout_ms;
    if (l->state == LEADER_STATE_LEADER && l->timeout_ms > l->lease_until_ms - l->sent_ms) l->timeout_ms = l->lease_until_ms - l->sent_ms;
    if (l->timeout_ms < 1) l->timeout_ms = 1;
    if (op == LEADER_OP_ACQUIRE_) LEADER_COUNT_(l, acquires);
    return leader_answer_(l);
}

static leader_result leader_call_(leader_t *l, leader_record *seen) {
    const leader_backend *b = &l->cfg.backend;
    leader_request r;
    memset(&r, 0, sizeof r);
    memset(seen, 0, sizeof *seen);
    r.seq = l->seq;
    r.identity = l->identity;
    r.nonce = l->nonce;
    r.min_token = l->highest_token + 1;
    r.lease_ms = l->cfg.lease_ms;
    r.timeout_ms = l->timeout_ms;
    r.now_ms = l->sent_ms;
    r.reclaim = l->cfg.reclaim_identity && !l->answered;
    l->error_said = false;
    leader_result result = l->op == LEADER_OP_ACQUIRE_ ? b->acquire(b->self, &r, seen)
                         : l->op == LEADER_OP_RENEW_   ? b->renew(b->self, &r, seen)
                         : l->op == LEADER_OP_RELEASE_ ? b->release(b->self, &r, seen)
                                                       : b->observe(b->self, &r, seen);
    seen->holder[LEADER_IDENTITY_MAX] = 0;
    bool wanted = result <= LEADER_PENDING
               || (result == LEADER_HELD && (l->op == LEADER_OP_ACQUIRE_ || l->op == LEADER_OP_OBSERVE_))
               || (result == LEADER_LOST && (l->op == LEADER_OP_RENEW_ || l->op == LEADER_OP_RELEASE_));
    if (!wanted || seen->token > INT64_MAX) {
        leader_host_log_(l, LEADER_LOG_ERROR, wanted ? "the store's token is beyond all reason"
                                                     : "the backend gave an answer that does not belong to the request");
        memset(seen, 0, sizeof *seen);
        result = wanted ? LEADER_E_CORRUPT : LEADER_E_STATE;
    }
    return result;
}

/* 0, 1, 2, ... -> renew_retry_ms times 1, 2, 4, 4, ... */
static int64_t leader_retry_delay_(const leader_config *cfg, int retry) { return cfg->renew_retry_ms << (retry < 2 ? retry : 2); }

static int64_t leader_min_(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t leader_max_(int64_t a, int64_t b) { return a > b ? a : b; }

/* Within a pause nothing is planned for later than its end. */
static void leader_plan_(leader_t *l, int64_t wait) {
    l->next_ms = l->now_ms + wait;
    if (l->now_ms < l->pause_until_ms) l->next_ms = leader_min_(l->next_ms, l->pause_until_ms);
}

/* When a standby tries again: at the moment when the lease can have run out, if the store could tell, but within
   retry_ms; after errors later and later. Jitter only ever adds. */
static void leader_plan_attempt_(leader_t *l, leader_result result, const leader_record *seen) {
    const leader_config *cfg = &l->cfg;
    int64_t jitter = (int64_t)leader_random_below_(l, (uint64_t)leader_min_(5, cfg->retry_ms / 20 + 1));
    int64_t wait = cfg->retry_ms, rest = leader_min_(seen->expires_in_ms, cfg->retry_max_ms) + 1 + jitter;
    if (result >= 0) {
        l->failing = 0;
        if (result == LEADER_HELD && seen->expires_in_ms >= 0) wait = leader_min_(wait, rest);
    } else {
        bool slow = result != LEADER_E_IO && result != LEADER_E_TIMEOUT;
        int doublings = l->failing + (slow ? 2 : 0);
        if (l->failing < 30) l->failing++;
        for (; doublings > 0 && wait < cfg->retry_max_ms; doublings--) wait *= 2;
        wait = leader_min_(wait, cfg->retry_max_ms);
        if (seen->expires_in_ms > 0) wait = leader_min_(wait, leader_max_(rest, cfg->retry_ms));
        wait = leader_max_(wait, leader_min_(seen->again_ms, cfg->retry_max_ms));
        wait = leader_min_(wait + (int64_t)leader_random_below_(l, (uint64_t)(wait / 4 + 1)), cfg->retry_max_ms);
    }
    leader_plan_(l, wait);
}

static const leader_record leader_nobody_ = {"", 0, 0, 0, 0};

/* ---- terms ------------------------------------------------------------------------------------------------------- */

static void leader_start_term_(leader_t *l) {
    l->retries = 0;
    LEADER_COUNT_(l, terms);
    bool other = leader_enter_(l, LEADER_STATE_LEADER, l->identity, l->token);
    leader_log_(l, LEADER_LOG_INFO, "leading, token %llu", (unsigned long long)l->token);
    if (l->cfg.on_started_leading) l->cfg.on_started_leading(l->cfg.user, l->token);
    if (other) leader_tell_leader_(l, l->identity);
}

/* Ends the term for good: first nobody can read true any more, then the callback hears of it, and only then is there
   anything to say about the next leader. */
static void leader_end_term_(leader_t *l, leader_result why, const leader_record *next) {
    bool lost = why == LEADER_LOST || why == LEADER_E_DUPLICATE;
    leader_cancel_(l);
    leader_enter_(l, lost ? LEADER_STATE_FOLLOWER : LEADER_STATE_DRAINING, "", 0);
    l->undrained = true;
    l->holding = !lost;
    l->next_ms = l->now_ms;
    l->retries = 0;
    l->drain_until_ms = l->cfg.drain_timeout_ms ? l->now_ms + l->cfg.drain_timeout_ms : INT64_MAX;
    leader_log_(l, LEADER_LOG_INFO, "no longer leading: %s", why == LEADER_OK ? "asked to hand over" : leader_strerror(why));
    if (l->cfg.on_stopped_leading) l->cfg.on_stopped_leading(l->cfg.user, l->token, why);
    if (lost && next->holder[0]) leader_note_leader_(l, next->holder, next->token);
    else leader_tell_leader_(l, "");
}

/* Where an election goes when it holds nothing more: back to the standbys, or to the end. */
static void leader_let_go_(leader_t *l) {
    l->holding = l->maybe_ours = false;
    l->failing = 0;
    leader_enter_(l, l->stopping ? LEADER_STATE_STOPPED : LEADER_STATE_FOLLOWER, NULL, 0);
    if (l->pause_ms) l->pause_until_ms = l->now_ms + l->pause_ms;
    l->pause_ms = 0;
    leader_plan_(l, l->cfg.retry_ms);
}

static void leader_start_release_(leader_t *l) {
    l->retries = 0;
    l->next_ms = l->now_ms;
    leader_enter_(l, LEADER_STATE_RELEASING, NULL, 0);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* How long the success of the present request is good for. */
static int64_t leader_valid_until_(const leader_t *l) {
    return l->sent_ms + l->cfg.renew_deadline_ms - (l->cfg.clock_ms ? 0 : LEADER_CLOCK_GRAIN_MS_);
}

static void leader_acquired_(leader_t *l, const leader_record *seen) {
    const leader_config *cfg = &l->cfg;
    uint64_t min_token = l->highest_token + 1;
    l->maybe_ours = true;
    int64_t hold_off = leader_min_(seen->hold_off_ms, INT64_MAX / 4);
    if (cfg->cautious_start && !l->answered) hold_off = leader_max_(hold_off, cfg->lease_ms);
    if (hold_off > 0) l->hold_until_ms = leader_max_(l->hold_until_ms, l->now_ms + hold_off);
    l->answered = true;
    if (seen->token < min_token) {
        char text[120];
        snprintf(text, sizeof text, "the store gave token %llu, but %llu was seen before", (unsigned long long)seen->token,
                 (unsigned long long)l->highest_token);
        leader_fail_(l, LEADER_OP_ACQUIRE_, LEADER_E_CORRUPT, text);
        leader_plan_attempt_(l, LEADER_E_CORRUPT, seen);
        return;
    }
    l->token = l->highest_token = seen->token;
    l->lease_until_ms = leader_valid_until_(l);
    if (l->now_ms >= l->lease_until_ms) {       /* too late to start a term: the next attempt adopts the record   */
        leader_fail_(l, LEADER_OP_ACQUIRE_, LEADER_E_TIMEOUT, "the answer came after the renew deadline");
        leader_plan_attempt_(l, LEADER_E_TIMEOUT, seen);
        return;
    }
    l->holding = true;
    l->error_now = false;
    l->failing = l->retries = 0;
    l->next_ms = l->sent_ms + cfg->renew_ms;
    l->confirmed_ms = l->now_ms;
    LEADER_KEEP_(l, success_ms, l->now_ms);
    if (l->now_ms > l->hold_until_ms) leader_start_term_(l);
    else leader_log_(l, LEADER_LOG_WARN, "the store had forgotten its holder: leading only after %lld ms",
                     (long long)(l->hold_until_ms - l->now_ms));
}

/* Somebody holds it, nobody does, or the store failed: report what was seen, plan the next attempt. */
static void leader_looked_(leader_t *l, int op, leader_result result, const leader_record *seen) {
    bool other = strcmp(seen->holder, l->identity) != 0 || result == LEADER_E_DUPLICATE || l->cfg.observe_only;
    if (result >= 0 || result == LEADER_E_DUPLICATE) {
        l->confirmed_ms = l->now_ms;
        leader_enter_(l, l->state, NULL, 0);
        if (op == LEADER_OP_ACQUIRE_) { l->maybe_ours = false; l->answered = true; }
    }
    if (result >= 0) LEADER_KEEP_(l, success_ms, l->now_ms);
    else if (op == LEADER_OP_ACQUIRE_ && result != LEADER_E_AUTH && result != LEADER_E_DUPLICATE) l->maybe_ours = true;
    if (result < 0) leader_fail_(l, op, result, NULL);
    else l->error_now = false;
    leader_plan_attempt_(l, result, seen);
    if (result == LEADER_OK) leader_note_leader_(l, "", 0);
    else if (seen->holder[0]) leader_note_leader_(l, other ? seen->holder : "", other ? seen->token : 0);
}

static void leader_renewed_(leader_t *l) {
    if (l->state == LEADER_STATE_LEADER) {
        int64_t margin = l->lease_until_ms - l->now_ms;
        if (l->counts.margin_ms_min < 0 || margin < l->counts.margin_ms_min) LEADER_KEEP_(l, margin_ms_min, margin);
    }
    LEADER_COUNT_(l, renewals);
    LEADER_KEEP_(l, success_ms, l->now_ms);
    l->error_now = false;
    l->retries = 0;
    l->lease_until_ms = leader_valid_until_(l);
    l->next_ms = l->sent_ms + l->cfg.renew_ms;
    l->confirmed_ms = l->now_ms;
    leader_enter_(l, l->state, NULL, 0);
}

/* A renewal failed, but the lease may well be ours: try again soon, within the deadline. */
static void leader_renew_failed_(leader_t *l, leader_result result, const leader_record *seen) {
    leader_fail_(l, LEADER_OP_RENEW_, result, NULL);
    int64_t wait = leader_max_(leader_retry_delay_(&l->cfg, l->retries), leader_min_(seen->again_ms, l->cfg.retry_max_ms));
    l->retries++;
    if (l->state == LEADER_STATE_LEADER) {
        if (l->cfg.renew_retries >= 0 && l->retries > l->cfg.renew_retries) { leader_end_term_(l, result, seen); return; }
        int64_t left = l->lease_until_ms - l->now_ms;
        if (wait >= left) wait = left / 2 >= l->cfg.renew_retry_ms ? left / 2 : left;     /* a last one that fits, or none */
    } else if (l->state == LEADER_STATE_FOLLOWER && l->now_ms >= l->lease_until_ms) {
        l->holding = false;                     /* held off so long that it may have run out: ask for it afresh   */
    }
    l->next_ms = l->now_ms + wait;
}

static void leader_renew_answered_(leader_t *l, leader_result result, const leader_record *seen) {
    if (result == LEADER_OK) { leader_renewed_(l); return; }
    if (result != LEADER_LOST && result != LEADER_E_DUPLICATE) { leader_renew_failed_(l, result, seen); return; }
    if (result == LEADER_E_DUPLICATE) leader_fail_(l, LEADER_OP_RENEW_, result, NULL);
    if (l->state == LEADER_STATE_LEADER) leader_end_term_(l, result, seen);
    else leader_let_go_(l);                     /* it was draining or holding off: nobody was told that it leads  */
    l->holding = l->maybe_ours = false;
    leader_plan_attempt_(l, LEADER_HELD, seen);
    if (seen->holder[0] && strcmp(seen->holder, l->identity) != 0) leader_note_leader_(l, seen->holder, seen->token);
}

static void leader_release_answered_(leader_t *l, leader_result result) {
    if (result == LEADER_OK) {
        LEADER_COUNT_(l, releases);
        LEADER_KEEP_(l, success_ms, l->now_ms);
        l->error_now = false;
    } else if (result != LEADER_LOST) {
        leader_fail_(l, LEADER_OP_RELEASE_, result, NULL);
        int limit = l->cfg.renew_retries < 0 ? 3 : l->cfg.renew_retries;
        if (l->holding && l->retries < limit) {
            l->next_ms = l->now_ms + leader_retry_delay_(&l->cfg, l->retries++);
            return;
        }
        leader_log_(l, LEADER_LOG_WARN, "the lease could not be released: it is left to expire");
    }
    leader_let_go_(l);
}

/* Asks the backend for the outcome of the request under way. True: it ended. */
static bool leader_answer_(leader_t *l) {
    leader_record seen;
    int op = l->op;
    leader_result result = leader_call_(l, &seen);
    l->now_ms = leader_now_(l);
    if (result != LEADER_PENDING) l->op = LEADER_OP_NONE_;
    if (l->state == LEADER_STATE_LEADER && l->now_ms >= l->lease_until_ms) {
        leader_end_term_(l, LEADER_E_TIMEOUT, &seen);       /* over for good, whatever the answer is              */
        return true;
    }
    int64_t took = l->now_ms - l->sent_ms;
    if (result == LEADER_PENDING) {
        l->again_at_ms = seen.again_ms > 0 ? l->now_ms + leader_min_(seen.again_ms, LEADER_WAIT_MAX_MS) : LEADER_NEVER_;
        if (took < l->timeout_ms) return false;
        leader_cancel_(l);
        seen.again_ms = 0;                      /* it said when to look again, not how long to leave the store alone */
        if (!l->error_said) {
            char text[64];
            snprintf(text, sizeof text, "%s: no answer within %lld ms", leader_op_names_[op], (long long)took);
            leader_host_log_(l, LEADER_LOG_ERROR, text);
        }
        result = LEADER_E_TIMEOUT;
    }
    LEADER_KEEP_(l, latency_ms_last, took);
    LEADER_KEEP_MAX_(l, latency_ms_max, took);
    if (op == LEADER_OP_ACQUIRE_ && result == LEADER_OK) { leader_acquired_(l, &seen); return true; }
    if (seen.token > l->highest_token) l->highest_token = seen.token;
    if (op == LEADER_OP_RENEW_) leader_renew_answered_(l, result, &seen);
    else if (op == LEADER_OP_RELEASE_) leader_release_answered_(l, result);
    else leader_looked_(l, op, result, &seen);
    return true;
}

/* ---- the state machine ------------------------------------------------------------------------------------------- */

/* Leaves the competition from FOLLOWER: what may be ours in the store is given back first. Not while holding off: the one
   whom the store forgot may still lead, and a release would let the next one start beside him. */
static void leader_withdraw_(leader_t *l) {
    leader_cancel_(l);
    bool doubt = l->now_ms <= l->hold_until_ms || (l->cfg.cautious_start && !l->answered), keep = l->stopping && l->cfg.keep_lease_on_stop;
    if ((l->holding || l->maybe_ours) && !doubt && !keep) leader_start_release_(l);
    else leader_let_go_(l);
}

/* leader_stop and leader_resign left a word: the first tick after it obeys. */
static void leader_obey_(leader_t *l) {
    bool stop = !l->stopping && LEADER_LOAD_(&l->stop_asked);
    int64_t pause = LEADER_LOAD_(&l->resign_asked) ? LEADER_SWAP_(&l->resign_asked, 0) : 0;
    if (stop) l->stopping = true;
    if (pause) l->pause_ms = pause - 1;
    if (!stop && !pause) return;
    if (l->state == LEADER_STATE_LEADER) leader_end_term_(l, LEADER_OK, &leader_nobody_);
    else if (l->state == LEADER_STATE_FOLLOWER) leader_withdraw_(l);
}

/* Notices and planned expiries may make a standby ask early, but not more than this often in each retry_ms: a store
   that changes all the time must not turn standbys into a storm. */
enum { LEADER_EARLY_MAX_ = 8 };

static bool leader_may_ask_(leader_t *l) {
    if (l->now_ms - l->window_ms >= l->cfg.retry_ms) { l->window_ms = l->now_ms; l->early = 0; }
    if (l->early > LEADER_EARLY_MAX_) { l->next_ms = l->window_ms + l->cfg.retry_ms; return false; }
    l->early++;
    return true;
}

static bool leader_healthy_(leader_t *l) { return !l->cfg.is_healthy || l->cfg.is_healthy(l->cfg.user); }

static bool leader_may_compete_(leader_t *l) {
    if (l->undrained && (!l->cfg.is_drained || l->cfg.is_drained(l->cfg.user))) l->undrained = false;
    return !l->cfg.observe_only && !l->undrained && l->now_ms >= l->pause_until_ms && leader_healthy_(l);
}

static bool leader_follow_(leader_t *l) {
    if (l->holding && l->now_ms > l->hold_until_ms && l->now_ms < l->lease_until_ms) {
        bool healthy = leader_healthy_(l);
        l->now_ms = leader_now_(l);             /* poll or is_healthy may have stalled: no term starts after its end  */
        if (!healthy) leader_withdraw_(l);
        else if (l->now_ms < l->lease_until_ms) leader_start_term_(l);
        return true;
    }
    if (l->holding) return l->now_ms >= l->next_ms && leader_send_(l, LEADER_OP_RENEW_);
    if (!l->noticed && l->now_ms < l->next_ms) return false;
    if (!leader_may_ask_(l)) return false;
    if (leader_may_compete_(l)) return leader_send_(l, LEADER_OP_ACQUIRE_);
    if (l->cfg.backend.observe) return leader_send_(l, LEADER_OP_OBSERVE_);
    l->noticed = false;
    leader_plan_(l, l->cfg.retry_ms);
    return false;
}

static bool leader_lead_(leader_t *l) {
    if (l->now_ms < l->next_ms) return false;
    if (!leader_healthy_(l)) { leader_end_term_(l, LEADER_UNHEALTHY, &leader_nobody_); return true; }
    return leader_send_(l, LEADER_OP_RENEW_);
}

static bool leader_drain_(leader_t *l) {
    if (!l->cfg.is_drained || l->cfg.is_drained(l->cfg.user)) {
        l->undrained = false;
        if (l->stopping && l->cfg.keep_lease_on_stop) leader_let_go_(l);
        else leader_start_release_(l);
        return true;
    }
    if (l->now_ms >= l->drain_until_ms) {
        leader_log_(l, LEADER_LOG_WARN, "the work was not over within drain_timeout_ms: the lease is left to expire");
        leader_let_go_(l);
        return true;
    }
    return l->now_ms >= l->next_ms && leader_send_(l, LEADER_OP_RENEW_);
}

/* One step; true: something happened, look again. The deadline comes before everything else. */
static bool leader_step_(leader_t *l) {
    if (l->state == LEADER_STATE_LEADER && l->now_ms >= l->lease_until_ms) {
        leader_end_term_(l, LEADER_E_TIMEOUT, &leader_nobody_);
        return true;
    }
    leader_obey_(l);
    if (l->op != LEADER_OP_NONE_) return leader_answer_(l);
    switch (l->state) {
    case LEADER_STATE_FOLLOWER:  return leader_follow_(l);
    case LEADER_STATE_LEADER:    return leader_lead_(l);
    case LEADER_STATE_DRAINING:  return leader_drain_(l);
    case LEADER_STATE_RELEASING: return l->now_ms >= l->next_ms && leader_send_(l, LEADER_OP_RELEASE_);
    case LEADER_STATE_STOPPED:
    case LEADER_STATE_NONE:      break;
    }
    return false;
}

/* The moment of the next tick. */
static int64_t leader_due_(const leader_t *l) {
    enum { DRAIN_POLL_MS = 50, NO_LOOP_MS = 20 };
    int64_t due = l->op == LEADER_OP_NONE_ ? l->next_ms : l->sent_ms + l->timeout_ms;
    if (l->op != LEADER_OP_NONE_ && l->again_at_ms != LEADER_NEVER_) due = leader_min_(due, l->again_at_ms);
    if (l->op != LEADER_OP_NONE_ && !l->cfg.on_fd) due = leader_min_(due, l->now_ms + NO_LOOP_MS);
    if (l->state == LEADER_STATE_STOPPED) due = l->now_ms + 100;
    if (l->state == LEADER_STATE_LEADER) due = leader_min_(due, l->lease_until_ms);
    if (l->state == LEADER_STATE_DRAINING) due = leader_min_(due, leader_min_(l->drain_until_ms, l->now_ms + DRAIN_POLL_MS));
    if (l->state == LEADER_STATE_FOLLOWER && l->holding && l->now_ms <= l->hold_until_ms) due = leader_min_(due, l->hold_until_ms + 1);
    return due;
}

/* Called from inside a callback? Then nothing happens, and leader_error() says so. */
static bool leader_reentered_(leader_t *l) {
    if (l->busy) leader_set_error_(l, LEADER_E_REENTRANT, "leader_tick, _sleep, _wait or _close was called from inside a callback: ignored");
    return l->busy;
}

LEADER_API int leader_tick(leader_t *l) {
    enum { STEPS_MAX = 8, IDLE_MS = 100 };
    if (!leader_mine_(l) || leader_reentered_(l)) return IDLE_MS;
    l->busy = true;
    l->now_ms = leader_now_(l);
    if (l->unsaid) {
        l->unsaid = false;
        leader_log_(l, LEADER_LOG_WARN, "config.backend is empty: single node, always leader (leader_single_backend() says so on purpose)");
    }
    int64_t due = LEADER_LOAD_(&l->due_ms);
    if (due != LEADER_NEVER_) LEADER_KEEP_MAX_(l, tick_late_ms_max, l->now_ms - due);
    LEADER_STORE_(&l->due_ms, l->now_ms + IDLE_MS);     /* a word that comes while we step makes it due again     */
    bool polls = l->cfg.backend.poll && l->state != LEADER_STATE_STOPPED;
    bool again = l->op == LEADER_OP_NONE_ && l->polled_ms == l->now_ms;
    if ((l->op != LEADER_OP_NONE_ || (polls && !again)) && leader_stray_(l)) return IDLE_MS;
    l->unread = polls && again;
    if (polls && !again) {
        l->polled_ms = l->now_ms;
        if (l->cfg.backend.poll(l->cfg.backend.self)) l->noticed = true;
    }
    for (int steps = 0; steps < STEPS_MAX && leader_step_(l); steps++) l->now_ms = leader_now_(l);
    l->busy = false;
    if (!leader_mine_(l)) return IDLE_MS;       /* a child that ran no fork handler found out                     */
    int64_t wait = l->unread ? 1 : leader_due_(l) - l->now_ms;
    wait = leader_max_(1, leader_min_(wait, LEADER_WAIT_MAX_MS));
    if (LEADER_SWAP_(&l->due_ms, l->now_ms + wait) != LEADER_NEVER_) return (int)wait;
    LEADER_STORE_(&l->due_ms, LEADER_NEVER_);
    return 1;
}

LEADER_API int leader_fds(const leader_t *l, leader_fd out[LEADER_FDS_MAX]) {
    if (!leader_mine_(l)) return 0;
    memcpy(out, l->fds, sizeof(leader_fd) * (size_t)l->fd_count);
    return l->fd_count;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* A tick that came in the same millisecond as the one before left the descriptors unread: to wait for them would be to spin. */
static bool leader_doze_(leader_t *l, int64_t max_ms) {
    int64_t ms = leader_mine_(l) ? leader_min_(max_ms, leader_due_ms(l)) : max_ms;
    if (ms <= 0) return false;
    return leader_nap_(l->fds, leader_mine_(l) && !l->unread ? l->fd_count : 0, (int)leader_min_(ms, LEADER_WAIT_MAX_MS));
}

LEADER_API void leader_sleep(leader_t *l, int max_ms) {
    if (!leader_mine_(l) || !leader_reentered_(l)) leader_doze_(l, max_ms);
}

/* Ticks and sleeps until stopped, if that is what it waits for, or else until leader. */
static leader_result leader_run_(leader_t *l, int64_t timeout_ms, bool closing) {
    int64_t start = leader_now_(l);
    for (;;) {
        leader_tick(l);
        if (closing ? leader_is_stopped(l) : leader_is_leader(l)) return LEADER_OK;
        if (!closing && (leader_is_stopped(l) || l->stopping || l->cfg.observe_only)) return LEADER_E_STATE;
        int64_t left = timeout_ms < 0 ? LEADER_WAIT_MAX_MS : timeout_ms - (leader_now_(l) - start);
        if (left <= 0) return LEADER_E_TIMEOUT;
        if (leader_doze_(l, left) && !closing) return LEADER_PENDING;
    }
}

LEADER_API leader_result leader_wait(leader_t *l, int64_t timeout_ms) {
    if (!leader_mine_(l)) return LEADER_E_STATE;
    return leader_reentered_(l) ? LEADER_E_REENTRANT : leader_run_(l, timeout_ms, false);
}

LEADER_API leader_result leader_close(leader_t *l, int64_t timeout_ms) {
    if (!leader_mine_(l) || leader_stray_(l)) return LEADER_OK;     /* zeroed, closed, or the parent's            */
    if (leader_reentered_(l)) return LEADER_E_REENTRANT;
    leader_stop(l);
    leader_result result = leader_run_(l, timeout_ms, true);
    if (!leader_mine_(l)) return LEADER_OK;
    l->busy = true;
    leader_cancel_(l);
    if (l->cfg.backend.close) l->cfg.backend.close(l->cfg.backend.self);
    LEADER_STORE_(&l->life, 0u);
    return result;
}

/* ---- single node ------------------------------------------------------------------------------------------------- */

static leader_result leader_single_ok_(void *self, const leader_request *r, leader_record *seen) {
    (void)self; (void)r; (void)seen;
    return LEADER_OK;
}
static leader_result leader_single_acquire_(void *self, const leader_request *r, leader_record *seen) {
    seen->token = r->min_token;
    return leader_single_ok_(self, r, seen);
}

LEADER_API leader_backend leader_single_backend(void) {
    leader_backend b = {NULL, leader_single_acquire_, leader_single_ok_, leader_single_ok_, leader_single_ok_, NULL, NULL, NULL, NULL};
    return b;
}

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

LEADER_API const char *leader_make_identity(char *buf, size_t cap, const char *prefix) {
    char host[128], tail[48];
    if (cap == 0) return buf;
    if (cap > LEADER_IDENTITY_MAX + 1) cap = LEADER_IDENTITY_MAX + 1;
    leader_host_name_(host, sizeof host);
    unsigned long chance = (unsigned long)(LEADER_RANDOM64() & 0xffffffffu);
    size_t tail_len = (size_t)snprintf(tail, sizeof tail, "-%ld-%08lx", (long)leader_pid_(), chance);
    int wanted = snprintf(buf, cap, "%s%s%s", prefix ? prefix : "", prefix && prefix[0] ? "-" : "", host[0] ? host : "host");
    /* What makes it unique is at the end: the rest gives way to it, cut at a whole character. */
    size_t keep = cap > tail_len ? cap - tail_len - 1 : 0;
    if ((size_t)wanted <= keep) keep = (size_t)wanted;
    else while (keep > 0 && ((unsigned char)buf[keep] & 0xc0) == 0x80) keep--;
    snprintf(buf + keep, cap - keep, "%s", cap > tail_len ? tail : tail + tail_len + 1 - cap);
    return buf;
}

#define LEADER_REFUSE_(...) do { snprintf(why, cap, __VA_ARGS__); return false; } while (0)
#define LEADER_LL_(x) ((long long)(x))

static bool leader_check_identity_(const char *identity, char *why, size_t cap) {
    if (!identity || !identity[0]) LEADER_REFUSE_("identity is missing: every candidate needs a name of its own");
    size_t n = 0;
    while (n <= LEADER_IDENTITY_MAX && identity[n]) n++;
    if (n > LEADER_IDENTITY_MAX) LEADER_REFUSE_("identity is longer than %d bytes", LEADER_IDENTITY_MAX);
    for (size_t i = 0, w; i < n; i += w) {
        w = leader_utf8_(identity + i, n - i);
        if (w == 0) LEADER_REFUSE_("identity is not UTF-8 at byte %d", (int)i);
    }
    return true;
}

static bool leader_check_backend_(leader_t *l, const leader_backend *b, bool observe_only, char *why, size_t cap) {
    if (!b->self && !b->acquire && !b->renew && !b->release && !b->observe && !b->poll && !b->cancel && !b->open && !b->close) {
        l->cfg.backend = leader_single_backend();
        l->unsaid = true;
        return true;
    }
    if (!b->acquire) LEADER_REFUSE_("backend.acquire is missing");
    if (!b->renew)   LEADER_REFUSE_("backend.renew is missing");
    if (!b->release) LEADER_REFUSE_("backend.release is missing");
    if (observe_only && !b->observe) LEADER_REFUSE_("backend.observe is missing, and observe_only needs it");
    return true;
}

/* Fills the defaults in and checks that the times fit each other: every message names the fields and their values. */
static bool leader_check_times_(leader_config *c, char *why, size_t cap) {
    static const struct { const char *name; size_t at; } times[] = {
        {"lease_ms", offsetof(leader_config, lease_ms)}, {"renew_deadline_ms", offsetof(leader_config, renew_deadline_ms)},
        {"renew_ms", offsetof(leader_config, renew_ms)}, {"renew_retry_ms", offsetof(leader_config, renew_retry_ms)},
        {"retry_ms", offsetof(leader_config, retry_ms)}, {"retry_max_ms", offsetof(leader_config, retry_max_ms)},
        {"request_timeout_ms", offsetof(leader_config, request_timeout_ms)}, {"drain_timeout_ms", offsetof(leader_config, drain_timeout_ms)}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        int64_t value;
        memcpy(&value, (const char *)c + times[i].at, sizeof value);
        if (value < 0) LEADER_REFUSE_("%s (%lld) is negative", times[i].name, LEADER_LL_(value));
        if (value > LEADER_TIME_MAX_MS_) LEADER_REFUSE_("%s (%lld) is more than ten years", times[i].name, LEADER_LL_(value));
    }
    if (c->renew_retries < -1 || c->renew_retries > 1000) LEADER_REFUSE_("renew_retries (%d) is not within -1..1000", c->renew_retries);
    if (!c->lease_ms)           c->lease_ms = 15000;
    if (c->lease_ms < 30)
        LEADER_REFUSE_("lease_ms (%lld) is too short: renewal, retries and deadline need at least 30", LEADER_LL_(c->lease_ms));
    if (!c->renew_deadline_ms)  c->renew_deadline_ms = c->lease_ms * 2 / 3;
    if (!c->renew_ms)           c->renew_ms = c->lease_ms / 3;
    if (c->renew_deadline_ms >= c->lease_ms)
        LEADER_REFUSE_("renew_deadline_ms (%lld) must be less than lease_ms (%lld)",
                       LEADER_LL_(c->renew_deadline_ms), LEADER_LL_(c->lease_ms));
    if (c->renew_ms >= c->renew_deadline_ms)
        LEADER_REFUSE_("renew_ms (%lld) must be less than renew_deadline_ms (%lld)",
                       LEADER_LL_(c->renew_ms), LEADER_LL_(c->renew_deadline_ms));
    int64_t slack = c->renew_deadline_ms - c->renew_ms;
    if (!c->renew_retry_ms)     c->renew_retry_ms = leader_max_(1, leader_min_(500, slack / 10));
    if (!c->renew_retries)      c->renew_retries = 3;
    if (!c->retry_ms)           c->retry_ms = leader_max_(1, leader_min_(2000, c->renew_ms));
    if (!c->retry_max_ms)       c->retry_max_ms = leader_max_(60000, c->retry_ms);
    if (!c->request_timeout_ms) c->request_timeout_ms = leader_max_(1, slack / 2);
    if (c->renew_ms < 1 || slack <= LEADER_CLOCK_GRAIN_MS_ + 1)
        LEADER_REFUSE_("lease_ms (%lld) is too short: renew_ms (%lld), renew_deadline_ms (%lld)",
                       LEADER_LL_(c->lease_ms), LEADER_LL_(c->renew_ms), LEADER_LL_(c->renew_deadline_ms));
    if (c->retry_max_ms < c->retry_ms)
        LEADER_REFUSE_("retry_max_ms (%lld) must not be less than retry_ms (%lld)",
                       LEADER_LL_(c->retry_max_ms), LEADER_LL_(c->retry_ms));
    if (c->request_timeout_ms > slack)
        LEADER_REFUSE_("request_timeout_ms (%lld) does not fit between renew_ms (%lld) and renew_deadline_ms (%lld)",
                       LEADER_LL_(c->request_timeout_ms), LEADER_LL_(c->renew_ms), LEADER_LL_(c->renew_deadline_ms));
    int64_t need = 0;
    for (int i = 0; i < c->renew_retries && need <= slack; i++) need += leader_retry_delay_(c, i);
    if (need >= slack)
        LEADER_REFUSE_("renew_retries (%d) from renew_retry_ms (%lld) on do not fit between renew_ms (%lld) and renew_deadline_ms (%lld)",
                       c->renew_retries, LEADER_LL_(c->renew_retry_ms), LEADER_LL_(c->renew_ms), LEADER_LL_(c->renew_deadline_ms));
    return true;
}

static leader_result leader_refuse_(leader_t *l, const char *why) {
    leader_shown_ s;
    memset(&s, 0, sizeof s);
    leader_show_(l, &s);
    leader_set_error_(l, LEADER_E_CONFIG, why);
    l->error = leader_error_text_(l);
    LEADER_STORE_(&l->life, 0u);
    return LEADER_E_CONFIG;
}

LEADER_API leader_result leader_init_(leader_t *l, size_t l_size, const leader_config *cfg, size_t cfg_size, int version) {
    char why[160];
    if (!l) return LEADER_E_CONFIG;
    if (l_size != sizeof *l || cfg_size != sizeof *cfg || version != LEADER_VERSION_NUM) {
        memset(l, 0, l_size < sizeof *l ? l_size : sizeof *l);      /* not a byte more than the caller has        */
        l->error = "leader.h differs between the caller and the implementation: compile both with the same version";
        return LEADER_E_CONFIG;
    }
    memset(l, 0, sizeof *l);
    if (!cfg) return leader_refuse_(l, "config is NULL");
    l->cfg = *cfg;
    if (!leader_check_identity_(cfg->identity, why, sizeof why) || !leader_check_backend_(l, &cfg->backend, cfg->observe_only, why, sizeof why)
        || !leader_check_times_(&l->cfg, why, sizeof why)) return leader_refuse_(l, why);
    if (!leader_watch_forks_()) return leader_refuse_(l, "pthread_atfork failed: out of memory");

    memcpy(l->identity, cfg->identity, strlen(cfg->identity));
    l->cfg.identity = l->identity;
    l->pid = leader_pid_();
    l->nonce = LEADER_RANDOM64() | 1;           /* never 0, so that 0 can mean "none" in a record                 */
    l->random = leader_mix_(l->nonce) | 1;
    l->state = LEADER_STATE_FOLLOWER;
    l->until_ms = l->due_ms = l->hold_until_ms = l->pause_until_ms = l->polled_ms = l->confirmed_ms = LEADER_NEVER_;
    l->window_ms = l->next_ms = leader_now_(l);
    leader_shown_ s;
    memset(&s, 0, sizeof s);
    s.state = LEADER_STATE_FOLLOWER;
    s.until_ms = s.lease_until_ms = s.confirmed_ms = LEADER_NEVER_;
    leader_show_(l, &s);
    leader_counts_ *c = &l->counts;
    c->latency_ms_last = c->latency_ms_max = c->margin_ms_min = c->tick_late_ms_max = -1;
    c->success_ms = LEADER_NEVER_;

    leader_host host = {l, &l->cfg, leader_host_fd_, leader_host_due_, leader_host_log_, leader_host_now_};
    l->host = host;
    l->life = LEADER_LOAD_(&leader_life_);
    const char *wrong = l->cfg.backend.open ? l->cfg.backend.open(l->cfg.backend.self, &l->host) : NULL;
    return wrong ? leader_refuse_(l, wrong) : LEADER_OK;
}

/* ---- file backend ------------------------------------------------------------------------------------------------

   Next to "job.lease" stands the directory "job.lease.d". It holds the record, under a number for a name. Every write,
   be it take, renewal or release, is a new file linked under the next number, which fails if somebody was first; and it
   counts only if the directory, listed after the link, still has the very file that the write was based on and nothing
   newer but the write itself. So nobody ever waits for anybody, and a writer that was stopped anywhere on the way, for however
   long, fails by construction when it goes on. The highest number is the record; a write that counted removes the older.

   A term's token is the number of the write that began it. An empty directory starts at the wall clock, in milliseconds of
   a full second: so that numbers go on rising when somebody wipes it, and candidates that find it empty together try the
   same number. After such a jump a late writer of the same jump can come out on top without counting. The record that does
   count stands below it then, because only a write that counts removes what it was based on. Therefore a taker looks at
   all records that are there, and waits for every one of them.

   "lock.<nonce>" is held with an open-file-description lock by the process with that nonce for as long as it lives. Where
   the record names that very inode, on this very kernel and a local file system, a free lock means that the holder is
   dead, and a standby need not wait for the lease. A lock can only shorten a lease, never lengthen it.

   "job.lease" itself is a copy for people and other programs to read. It decides nothing. */

#if !defined(LEADER_NO_FILE)
#if defined(_WIN32)

static const char *leader_file_open_(void *self, const leader_host *host) {
    (void)self; (void)host;
    return "leader_file_backend: not available on Windows";
}
static leader_result leader_file_nothing_(void *self, const leader_request *r, leader_record *seen) {
    (void)self; (void)r; (void)seen;
    return LEADER_E_CONFIG;
}
LEADER_API leader_backend leader_file_backend(leader_file *f, const char *path) {
    leader_backend b;
    memset(&b, 0, sizeof b);
    (void)path;
    b.self = f;
    b.acquire = b.renew = b.release = b.observe = leader_file_nothing_;
    b.open = leader_file_open_;
    return b;
}

#else

#include <sys/stat.h>
#if defined(__linux__)
#  include <sys/inotify.h>
#  include <sys/vfs.h>
#  ifndef F_OFD_GETLK
#    define F_OFD_GETLK 36          /* glibc shows them only under _GNU_SOURCE; the kernel's numbers never change */
#    define F_OFD_SETLK 37
#  endif
#else
#  include <dirent.h>
#endif

enum { LEADER_FILE_TEXT_MAX_ = 8192, LEADER_FILE_NAME_MAX_ = 32 };
#define LEADER_NUMBER_MAX_ ((UINT64_C(1) << 53) - 1)    /* what every reader of JSON can hold                     */

typedef struct leader_lease_ {      /* a record as read                                                           */
    char     holder[LEADER_IDENTITY_MAX + 1], boot_id[40];
    uint64_t number, form, token, nonce, seq, lease_ms, time_namespace, lock_device, lock_inode, stamp_ms, hold_off_ms;
} leader_lease_;

enum { LEADER_LISTED_MAX_ = 16 };
typedef struct leader_listing_ {    /* the numbers in the directory: one, or two while a write is under way       */
    uint64_t highest, base;
    int      count, newer;          /* how many there are, and how many above the base asked for                  */
    bool     there;                 /* the base is there                                                          */
    uint64_t numbers[LEADER_LISTED_MAX_];
} leader_listing_;

static leader_result leader_file_fail_(leader_file *f, leader_result code, const char *format, ...) LEADER_PRINTF_(3, 4);
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
    size_t n = strlen(path);
    return n > 80 ? path + n - 80 : path;
}

static leader_result leader_file_errno_(leader_file *f, const char *what, const char *name) {
    int e = errno;
    leader_result code = e == EACCES || e == EPERM ? LEADER_E_AUTH : LEADER_E_IO;
    return leader_file_fail_(f, code, "%s %s: %s", what, leader_file_tail_(name), strerror(e));
}

/* -- reading the directory and its records -- */

/* The number that a name stands for; 0: not a number. Leading zeros would give one number two names: not a number. */
static uint64_t leader_file_number_(const char *name) {
    leader_json_ digits = {name, strlen(name)};
    uint64_t n = 0;
    return name[0] != '0' && leader_json_u64_(digits, &n) ? n : 0;
}

static void leader_file_number_name_(char name[LEADER_FILE_NAME_MAX_], uint64_t number) {
    snprintf(name, LEADER_FILE_NAME_MAX_, "%llu", (unsigned long long)number);
}

/* Does the name stand for the very file that is open as fd? OK, LOST, or E_IO: it cannot be told, see errno. */
static leader_result leader_file_is_(int dir, const char *name, int fd) {
    struct stat a, b;
    if (fd < 0) return LEADER_LOST;
    if (fstat(fd, &a) != 0) return LEADER_E_IO;
    if (fstatat(dir, name, &b, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? LEADER_LOST : LEADER_E_IO;
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino ? LEADER_OK : LEADER_LOST;
}

static void leader_file_shut_(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Calls `each` for every name in the directory. No opendir: it would allocate. */
static bool leader_file_names_(int dir, void (*each)(void *to, int dir, const char *name), void *to) {
    if (lseek(dir, 0, SEEK_SET) < 0) return false;
#if defined(__linux__)
    union { uint64_t align; char bytes[4096]; } buf;
    for (;;) {
        long got = syscall(SYS_getdents64, dir, buf.bytes, sizeof buf.bytes);
        if (got <= 0) return got == 0;
        for (long at = 0; at < got;) {          /* u64 inode, u64 offset, u16 length, u8 type, name               */
            uint16_t length;
            memcpy(&length, buf.bytes + at + 16, sizeof length);
            each(to, dir, buf.bytes + at + 19);
            at += length;
        }
    }
#else
    int copy = dup(dir);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d) { if (copy >= 0) close(copy); return false; }
    rewinddir(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) each(to, dir, e->d_name);
    closedir(d);
    return true;
#endif
}

static void leader_file_list_name_(void *to, int dir, const char *name) {
    leader_listing_ *listing = (leader_listing_ *)to;
    uint64_t n = leader_file_number_(name);
    (void)dir;
    if (n == 0) return;
    if (n > listing->highest) listing->highest = n;
    if (n > listing->base) listing->newer++;
    if (n == listing->base) listing->there = true;
    if (listing->count < LEADER_LISTED_MAX_) listing->numbers[listing->count] = n;
    listing->count++;
}

static leader_result leader_file_list_(leader_file *f, int dir, uint64_t base, leader_listing_ *listing) {
    memset(listing, 0, sizeof *listing);
    listing->base = base;
    if (!leader_file_names_(dir, leader_file_list_name_, listing)) return leader_file_errno_(f, "cannot list", f->dir);
    if (listing->highest > LEADER_NUMBER_MAX_)
        return leader_file_fail_(f, LEADER_E_CORRUPT, "%s/%llu: no record has such a number",
                                 leader_file_tail_(f->dir), (unsigned long long)listing->highest);
    return LEADER_OK;
}

/* "15s", "1500ms", "2m", "1h": a whole number and a unit, up to ten years. */
static bool leader_file_duration_(const char *text, uint64_t *ms) {
    static const struct { const char *name; uint64_t ms; } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    leader_json_ number = {text, strspn(text, "0123456789")};
    if (!leader_json_u64_(number, ms)) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + number.len, units[i].name) != 0) continue;
        bool good = *ms > 0 && *ms <= (uint64_t)LEADER_TIME_MAX_MS_ / units[i].ms;
        *ms *= units[i].ms;
        return good;
    }
    return false;
}

static bool leader_file_hex_(const char *text, uint64_t *out) {
    if (strlen(text) != 16) return false;
    for (*out = 0; *text; text++) {
        if (leader_hex_(*text) < 0) return false;
        *out = *out << 4 | (uint64_t)leader_hex_(*text);
    }
    return true;
}

/* Is the text a record? If not, `why` says what is wrong with it. Fields that others added are ignored. */
static bool leader_file_parse_(const char *text, size_t len, leader_lease_ *r, char *why, size_t cap) {
    static const struct { const char *name; char kind; bool required; size_t at; const char *want; } fields[] = {
        {"holder",        's', true,  offsetof(leader_lease_, holder),         "a string of at most 255 bytes"},
        {"renewTime",     't', true,  0,                                       "a time such as \"2026-11-16T01:28:19.182774Z\""},
        {"leaseDuration", 'd', true,  offsetof(leader_lease_, lease_ms),       "a duration such as \"15s\""},
        {"token",         'n', true,  offsetof(leader_lease_, token),          "a whole number below 2^53"},
        {"nonce",         'x', true,  offsetof(leader_lease_, nonce),          "16 hexadecimal digits"},
        {"seq",           'n', true,  offsetof(leader_lease_, seq),            "a whole number below 2^53"},
        {"bootId",        'b', false, offsetof(leader_lease_, boot_id),        "a string of at most 39 bytes"},
        {"timeNamespace", 'i', false, offsetof(leader_lease_, time_namespace), "a whole number"},
        {"bootClockMs",   'n', false, offsetof(leader_lease_, stamp_ms),       "a whole number below 2^53"},
        {"lockDevice",    'i', false, offsetof(leader_lease_, lock_device),    "a whole number"},
        {"lockInode",     'i', false, offsetof(leader_lease_, lock_inode),     "a whole number"},
        {"holdOffMs",     'n', false, offsetof(leader_lease_, hold_off_ms),    "a whole number below 2^53"}};
    leader_json_ root, v;
    size_t bad_at = 0;
    memset(r, 0, sizeof *r);
    r->form = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++) r->form = (r->form ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    if (!leader_json_parse_(text, len, &root, &bad_at)) LEADER_REFUSE_("not JSON at byte %llu", (unsigned long long)bad_at);
    if (root.at[0] != '{') LEADER_REFUSE_("not a JSON object");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char small[LEADER_IDENTITY_MAX + 1], kind = fields[i].kind, *to = (char *)r + fields[i].at;
        if (!leader_json_member_(root, fields[i].name, &v)) {
            if (fields[i].required) LEADER_REFUSE_("%s is missing, or there twice", fields[i].name);
            continue;
        }
        uint64_t n = 0;
        bool number = kind == 'n' || kind == 'i', string = kind == 's' || kind == 'b';
        bool good = number ? leader_json_u64_(v, &n) : leader_json_string_(v, small, kind == 'b' ? sizeof r->boot_id : sizeof small);
        if (good && kind == 'n') good = n <= LEADER_NUMBER_MAX_;
        if (good && kind == 't') good = strlen(small) >= 20 && small[10] == 'T';
        if (good && kind == 'd') good = leader_file_duration_(small, &n);
        if (good && kind == 'x') good = leader_file_hex_(small, &n);
        if (!good) LEADER_REFUSE_("%s is not %s", fields[i].name, fields[i].want);
        if (string) memcpy(to, small, strlen(small) + 1);
        else if (kind != 't') memcpy(to, &n, sizeof n);
    }
    if (r->token == 0) LEADER_REFUSE_("token is 0");
    if (r->hold_off_ms > (uint64_t)LEADER_TIME_MAX_MS_) LEADER_REFUSE_("holdOffMs is more than ten years");
    return true;
}

/* A name in the directory as errors show it. */
static const char *leader_file_shown_(const leader_file *f, const char *name, char *buf, size_t cap) {
    snprintf(buf, cap, "%s/%s", f->dir, name);
    return leader_file_tail_(buf);
}

/* Reads one file in full and leaves it open as *fd. OK, LOST (no such file), E_CORRUPT with what is wrong in it, or E_*. */
static leader_result leader_file_read_(leader_file *f, int dir, const char *name, leader_lease_ *r, int *fd) {
    char text[LEADER_FILE_TEXT_MAX_ + 1], why[120], full[sizeof f->dir + LEADER_FILE_NAME_MAX_];
    struct stat st;
    size_t len = 0;
    ssize_t got = 1;
    const char *shown = dir == AT_FDCWD ? leader_file_tail_(name) : leader_file_shown_(f, name, full, sizeof full);
    memset(r, 0, sizeof *r);
    leader_file_shut_(fd);
    *fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT) return LEADER_LOST;
    if (*fd < 0 && errno == ELOOP) return leader_file_fail_(f, LEADER_E_CONFIG, "%s is a symbolic link", shown);
    if (*fd < 0 || fstat(*fd, &st) != 0) return leader_file_errno_(f, "cannot open", shown);
    if (!S_ISREG(st.st_mode)) return leader_file_fail_(f, LEADER_E_CONFIG, "%s is not a regular file", shown);
    while (len < sizeof text && ((got = read(*fd, text + len, sizeof text - len)) > 0 || (got < 0 && errno == EINTR)))
        len += got > 0 ? (size_t)got : 0;
    if (got < 0) return leader_file_errno_(f, "cannot read", shown);
    r->form = (uint64_t)st.st_size;
    if (len > LEADER_FILE_TEXT_MAX_)
        return leader_file_fail_(f, LEADER_E_CORRUPT, "%s has %lld bytes, a record at most %d",
                                 shown, (long long)st.st_size, LEADER_FILE_TEXT_MAX_);
    if (leader_file_parse_(text, len, r, why, sizeof why)) return LEADER_OK;
    return leader_file_fail_(f, LEADER_E_CORRUPT, "%s is no lease record: %s", shown, why);
}

static leader_result leader_file_read_number_(leader_file *f, int dir, uint64_t number, leader_lease_ *r, int *fd) {
    char name[LEADER_FILE_NAME_MAX_], full[sizeof f->dir + LEADER_FILE_NAME_MAX_];
    leader_file_number_name_(name, number);
    leader_result result = leader_file_read_(f, dir, name, r, fd);
    r->number = number;
    if (result == LEADER_OK && r->token > number)
        result = leader_file_fail_(f, LEADER_E_CORRUPT, "%s is no lease record: token is above its number", leader_file_shown_(f, name, full, sizeof full));
    return result;
}

/* The present record: the one with the highest number, on which a write would be based. OK, LOST (there is none),
   E_CORRUPT with r->number set, E_*. */
static leader_result leader_file_present_(leader_file *f, int dir, leader_lease_ *r, leader_listing_ *listing) {
    for (int tries = 0; tries < 16; tries++) {  /* it can be superseded and removed between the list and the read */
        leader_result result = leader_file_list_(f, dir, 0, listing);
        if (result != LEADER_OK) return result;
        if (listing->highest == 0) return LEADER_LOST;
        result = leader_file_read_number_(f, dir, listing->highest, r, &f->base_fd);
        if (result != LEADER_LOST) return result;
    }
    return leader_file_fail_(f, LEADER_E_IO, "%s changes too fast to be read", leader_file_tail_(f->dir));
}

/* -- who holds it, and until when -- */

static bool leader_file_same_boot_(const leader_file *f, const leader_lease_ *r) {
    return f->boot_id[0] && strcmp(f->boot_id, r->boot_id) == 0;
}

static int64_t leader_file_claim_(const leader_lease_ *r) { return leader_max_((int64_t)r->lease_ms, (int64_t)r->hold_off_ms); }

/* Remembers when the record was first seen in its present form, and whether the store went back behind what was seen:
   then it has forgotten somebody, who may still believe that he leads. Who lost a race takes his record back: that one was
   never alone. */
static void leader_file_sight_(leader_file *f, const leader_lease_ *r, leader_result result, int count) {
    if (f->saw_holder && (result == LEADER_LOST || r->number < f->sure_number)) f->forgot_ms = f->host.now_ms(f->host.core);
    if (result == LEADER_LOST) { f->seen_number = f->sure_number = 0; return; }
    if (count == 1 || r->number < f->sure_number) f->sure_number = r->number;   /* what it replaced is gone: it counts */
    if (r->number != f->seen_number || r->form != f->seen_form) f->seen_since_ms = f->host.now_ms(f->host.core);
    f->seen_number = r->number;
    f->seen_form = r->form;
    f->holder_nonce = r->nonce;
    f->saw_holder = f->saw_holder || result != LEADER_OK || r->holder[0];
    f->longest_ms = leader_max_(f->longest_ms, leader_file_claim_(r));
}

static int64_t leader_file_full_lease_(const leader_file *f, const leader_request *q) { return leader_max_(f->longest_ms, q->lease_ms); }

/* The forgotten one cannot have renewed after the store forgot it: a full lease later there is no doubt any more. */
static bool leader_file_in_doubt_(const leader_file *f, const leader_request *q) {
    return f->host.now_ms(f->host.core) <= f->forgot_ms + leader_file_full_lease_(f, q);
}

/* How long nobody may take the record yet; 0: it may be taken. On the writer's own clock where this process shares it (same
   boot, same time namespace), otherwise on our clock since we first saw it. A record that cannot be read: NULL, a full lease. */
static int64_t leader_file_rest_(const leader_file *f, const leader_lease_ *r, int64_t full_ms) {
    int64_t now = f->host.now_ms(f->host.core), from = f->seen_since_ms;
    if (r) full_ms = leader_file_claim_(r);
    bool shared = r && leader_file_same_boot_(f, r) && r->time_namespace && r->time_namespace == f->time_namespace;
    if (shared && r->stamp_ms && (int64_t)r->stamp_ms <= now) from = (int64_t)r->stamp_ms;
    return leader_max_(0, from + full_ms + 1 - now);
}

static void leader_file_name_(char name[LEADER_FILE_NAME_MAX_], const char *kind, uint64_t nonce) {
    snprintf(name, LEADER_FILE_NAME_MAX_, "%s.%016llx", kind, (unsigned long long)nonce);
}

#if defined(F_OFD_GETLK)

static bool leader_file_local_(int dir) {
#if defined(__linux__)
    static const unsigned long known[] = {0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0xF2F52010, 0x794C7630, 0x858458F6,
                                          0x2FC12FC1, 0xCA451A4E};
    struct statfs s;                            /* ext, xfs, btrfs, tmpfs, f2fs, overlay, ramfs, zfs, bcachefs    */
    if (fstatfs(dir, &s) != 0) return false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) if (((unsigned long)s.f_type & 0xffffffffu) == known[i]) return true;
#else
    (void)dir;
#endif
    return false;
}

/* Asks for, or takes, the lock on the whole file; true: F_OFD_GETLK found it free, or F_OFD_SETLK got it. */
static bool leader_file_lock_(int fd, int command) {
    struct flock lock;
    memset(&lock, 0, sizeof lock);
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    return fcntl(fd, command, &lock) == 0 && (command == F_OFD_SETLK || lock.l_type == F_UNLCK);
}

/* Is the lock file there, of that inode (0: of any), and free? The name is looked at again after the lock: who closes without
   having released removes the name first, so that it is not taken for dead. */
static bool leader_file_lock_free_(int dir, const char *name, uint64_t device, uint64_t inode) {
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool is_free = fd >= 0 && fstat(fd, &st) == 0 && (inode == 0 || ((uint64_t)st.st_dev == device && (uint64_t)st.st_ino == inode))
        && leader_file_lock_(fd, F_OFD_GETLK) && leader_file_is_(dir, name, fd) == LEADER_OK;
    leader_file_shut_(&fd);
    return is_free;
}

static bool leader_file_dead_(const leader_file *f, int dir, const leader_lease_ *r) {
    char name[LEADER_FILE_NAME_MAX_];
    leader_file_name_(name, "lock", r->nonce);
    return r->lock_inode && leader_file_same_boot_(f, r) && leader_file_local_(dir)
        && leader_file_lock_free_(dir, name, r->lock_device, r->lock_inode);
}

/* Takes our lock, if it is not held already. Without one, a crash costs the standbys the rest of the lease. */
static void leader_file_take_lock_(leader_file *f, int dir) {
    char name[LEADER_FILE_NAME_MAX_];
    struct stat st;
    leader_file_name_(name, "lock", f->nonce);
    for (int tries = 0; tries < 3; tries++) {   /* a sweep can remove the name before it is locked                */
        if (f->lock_inode && leader_file_is_(dir, name, f->lock_fd) == LEADER_OK) return;
        leader_file_shut_(&f->lock_fd);
        f->lock_device = f->lock_inode = 0;
        f->lock_fd = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, f->mode);
        if (f->lock_fd < 0 || (f->mode != 0600 && fchmod(f->lock_fd, (mode_t)f->mode) != 0)) return;
        if (!leader_file_lock_(f->lock_fd, F_OFD_SETLK) || fstat(f->lock_fd, &st) != 0) break;
        f->lock_device = (uint64_t)st.st_dev;
        f->lock_inode = (uint64_t)st.st_ino;
    }
}

/* Removes what a dead process left behind: a draft that never became a record, then the lock whose name told that it is dead. */
static void leader_file_sweep_name_(void *to, int dir, const char *name) {
    const leader_file *f = (const leader_file *)to;
    char lock[LEADER_FILE_NAME_MAX_], draft[LEADER_FILE_NAME_MAX_];
    uint64_t nonce = 0;
    if (strncmp(name, "lock.", 5) != 0 || !leader_file_hex_(name + 5, &nonce) || nonce == f->nonce) return;
    leader_file_name_(lock, "lock", nonce);
    leader_file_name_(draft, "draft", nonce);
    if (strcmp(lock, name) != 0 || !leader_file_lock_free_(dir, lock, 0, 0)) return;
    unlinkat(dir, draft, 0);
    unlinkat(dir, lock, 0);
}

#else

static bool leader_file_local_(int dir) { (void)dir; return false; }
static bool leader_file_dead_(const leader_file *f, int dir, const leader_lease_ *r) { (void)f; (void)dir; (void)r; return false; }
static void leader_file_take_lock_(leader_file *f, int dir) { (void)f; (void)dir; }
static void leader_file_sweep_name_(void *to, int dir, const char *name) { (void)to; (void)dir; (void)name; }

#endif

/* -- writing -- */

/* Makes a new file of that text and answers it open, or -1. An old one of that name may share its inode with a record, so
   it is never reused. */
static int leader_file_draft_(const leader_file *f, int dir, const char *name, const char *text, bool durable) {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    size_t len = strlen(text), done = 0;
    int fd = openat(dir, name, flags, f->mode);
    if (fd < 0 && errno == EEXIST && unlinkat(dir, name, 0) == 0) fd = openat(dir, name, flags, f->mode);
    if (fd < 0) return -1;
    bool good = f->mode == 0600 || fchmod(fd, (mode_t)f->mode) == 0;
    while (good && done < len) {
        ssize_t n = write(fd, text + done, len - done);
        if (n > 0) done += (size_t)n;
        else good = n < 0 && errno == EINTR;
    }
    if (good && (!durable || fsync(fd) == 0)) return fd;
    int e = errno;
    close(fd);
    unlinkat(dir, name, 0);
    errno = e;
    return -1;
}

/* The record as it stands in the store. Its stamp is the reading from before the request, so that others may take over no
   later than they must; but where the store forgot, the forgotten one may have renewed since: then it is the present. */
static void leader_file_text_(const leader_file *f, const leader_request *q, const char *holder, char *text, size_t cap) {
    char name[LEADER_IDENTITY_MAX * 6 + 4], now[28];
    int64_t present = f->host.now_ms(f->host.core);
    bool doubt = leader_file_in_doubt_(f, q);
    int64_t hold_off = doubt ? leader_file_full_lease_(f, q) : f->hold_until_ms > present ? f->hold_until_ms - present : 0;
    int64_t stamp = hold_off ? present : q->now_ms;
    leader_json_quote_(name, sizeof name, holder);
    leader_time_text_(now, leader_wall_us_());
    snprintf(text, cap,
        "{\n  \"holder\": %s,\n  \"renewTime\": \"%s\",\n  \"leaseDuration\": \"%lld%s\",\n  \"acquireTime\": \"%s\",\n  \"token\": %llu,\n"
        "  \"nonce\": \"%016llx\",\n  \"seq\": %llu,\n  \"bootId\": \"%s\",\n  \"timeNamespace\": %llu,\n  \"bootClockMs\": %lld,\n"
        "  \"lockDevice\": %llu,\n  \"lockInode\": %llu,\n  \"holdOffMs\": %lld\n}\n",
        name, now, (long long)(q->lease_ms % 1000 ? q->lease_ms : q->lease_ms / 1000), q->lease_ms % 1000 ? "ms" : "s", f->acquired[0] ? f->acquired : now,
        (unsigned long long)f->my_token, (unsigned long long)f->nonce, (unsigned long long)f->my_seq, f->boot_id,
        (unsigned long long)f->time_namespace, (long long)leader_max_(0, stamp), (unsigned long long)f->lock_device, (unsigned long long)f->lock_inode,
        (long long)hold_off);
}

static void leader_file_copy_(leader_file *f, int dir, const char *text) {
    char name[LEADER_FILE_NAME_MAX_];
    leader_file_name_(name, "draft", f->nonce);
    int fd = leader_file_draft_(f, dir, name, text, false);
    bool good = fd >= 0 && renameat(dir, name, AT_FDCWD, f->path) == 0;
    if (!good && !f->said_copy) {
        char line[LEADER_PATH_MAX + 100];
        snprintf(line, sizeof line, "%s cannot be updated (%s): the election goes on, the copy is stale", f->path, strerror(errno));
        f->host.log(f->host.core, LEADER_LOG_WARN, line);
        f->said_copy = true;
    }
    if (!good && fd >= 0) unlinkat(dir, name, 0);
    leader_file_shut_(&fd);
}

/* Finds out whether the record that was linked as `number`, and is open as fd, counts. Removes what it replaces if it does,
   and the record itself if not: nobody may build on it. A long listing is read in parts, and can miss a record that its holder
   replaces meanwhile. But whoever replaces one removes it last, after all that is lower: so what we build on (in an empty
   directory: our own file), looked at after the listing, is gone then. */
static leader_result leader_file_settle_(leader_file *f, int dir, uint64_t base, uint64_t number, int fd, int op) {
    char name[LEADER_FILE_NAME_MAX_];
    leader_listing_ after;
    if (op == LEADER_OP_ACQUIRE_ && fsync(dir) != 0) return leader_file_errno_(f, "cannot sync", f->dir);
    leader_result result = leader_file_list_(f, dir, base, &after);
    if (result != LEADER_OK) return result;
    leader_file_number_name_(name, base ? base : number);
    bool first = after.highest == number && after.newer == 1;
    result = first || op == LEADER_OP_RELEASE_ ? leader_file_is_(dir, name, base ? f->base_fd : fd) : LEADER_LOST;
    if (result == LEADER_OK && !first) {        /* a release that was built on already: to take it back would undo that too */
        unlinkat(dir, name, 0);
        return LEADER_LOST;
    }
    if (result == LEADER_OK) result = leader_file_is_(AT_FDCWD, f->dir, dir);    /* nobody moved it away under us    */
    if (result == LEADER_E_IO) return leader_file_errno_(f, "cannot look into", f->dir);
    leader_file_number_name_(name, number);
    if (result == LEADER_LOST && leader_file_is_(dir, name, fd) == LEADER_OK) unlinkat(dir, name, 0);
    for (int i = 0; result == LEADER_OK && i < after.count && i < LEADER_LISTED_MAX_; i++) {
        leader_file_number_name_(name, after.numbers[i]);
        if (after.numbers[i] < number && after.numbers[i] != base) unlinkat(dir, name, 0);
    }
    leader_file_number_name_(name, base);
    if (result == LEADER_OK && base) unlinkat(dir, name, 0);
    return result;
}

/* The one way in which the record changes. OK: the write counts. LOST: somebody was first, or the record that it was
   based on is gone. Anything else: unknown, and the next attempt finds out. `base` 0: there was no record. */
static leader_result leader_file_write_(leader_file *f, int dir, uint64_t base, uint64_t number, const char *text, int op) {
    char draft[LEADER_FILE_NAME_MAX_], name[LEADER_FILE_NAME_MAX_];
    leader_result result;
    leader_file_name_(draft, "draft", f->nonce);
    leader_file_number_name_(name, number);
    int fd = leader_file_draft_(f, dir, draft, text, op == LEADER_OP_ACQUIRE_);
    if (fd < 0) return leader_file_errno_(f, "cannot write into", f->dir);
    int e = linkat(dir, draft, dir, name, 0) == 0 ? 0 : errno;
    unlinkat(dir, draft, 0);
    errno = e;
    if (e == 0) result = leader_file_settle_(f, dir, base, number, fd, op);
    else if (e == EEXIST || e == ENOENT) result = LEADER_LOST;
    else if (e == EPERM || e == EOPNOTSUPP || e == ENOSYS || e == EMLINK)
        result = leader_file_fail_(f, LEADER_E_CONFIG, "the file system of %s has no hard links: put the lease on one that has",
                                   leader_file_tail_(f->dir));
    else result = leader_file_errno_(f, "cannot link a record in", f->dir);
    if (result == LEADER_OK) {
        leader_file_shut_(&f->base_fd);
        f->base_fd = fd;
        leader_file_copy_(f, dir, text);
    } else {
        close(fd);
    }
    return result;
}

/* -- the directory, and what stands in its place -- */

static void leader_file_learn_(leader_file *f) {
    struct stat st;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, f->boot_id, sizeof f->boot_id - 1);
    if (fd >= 0) close(fd);
    f->boot_id[n > 0 ? n : 0] = 0;
    for (char *p = f->boot_id; *p; p++) if (leader_hex_(*p) < 0 && *p != '-') { *p = 0; break; }
    f->time_namespace = stat("/proc/self/ns/time", &st) == 0 ? (uint64_t)st.st_ino : 0;
#if defined(__linux__)
    f->notify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (f->notify_fd >= 0) f->host.fd(f->host.core, f->notify_fd, LEADER_READ);
    else f->host.log(f->host.core, LEADER_LOG_INFO, "no inotify to be had: changes are noticed by polling");
#endif
    f->ready = true;
}

static void leader_file_watch_(leader_file *f, int dir) {
#if defined(__linux__)
    struct stat st;
    if (f->notify_fd < 0 || fstat(dir, &st) != 0 || (uint64_t)st.st_ino == f->watch_inode) return;
    const uint32_t mask = IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW;
    if (inotify_add_watch(f->notify_fd, f->dir, mask) >= 0) f->watch_inode = (uint64_t)st.st_ino;
#else
    (void)f; (void)dir;
#endif
}

/* The directory of the records. OK, LOST (there is none), or what is wrong with it. */
static leader_result leader_file_enter_(leader_file *f, int *dir) {
    if (!f->ready) leader_file_learn_(f);
    *dir = open(f->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*dir >= 0) { leader_file_watch_(f, *dir); return LEADER_OK; }
    if (errno == ENOENT) return LEADER_LOST;
    if (errno == ELOOP || errno == ENOTDIR)
        return leader_file_fail_(f, LEADER_E_CONFIG, "%s is in the way: it must be a directory, not a file or a link",
                                 leader_file_tail_(f->dir));
    return leader_file_errno_(f, "cannot open", f->dir);
}

/* What the path itself says when there is no record. LOST: nothing is there. OK: a copy that an election left, so that the
   records were wiped. E_CORRUPT: something that is no lease of ours, with the form of it in r. */
static leader_result leader_file_look_at_path_(leader_file *f, leader_lease_ *r) {
    struct stat st;
    memset(r, 0, sizeof *r);
    if (lstat(f->path, &st) != 0) return errno == ENOENT ? LEADER_LOST : leader_file_errno_(f, "cannot look at", f->path);
    if (S_ISLNK(st.st_mode))
        return leader_file_fail_(f, LEADER_E_CONFIG, "%s is a symbolic link: name the file itself", leader_file_tail_(f->path));
    if (!S_ISREG(st.st_mode)) return leader_file_fail_(f, LEADER_E_CONFIG, "%s is not a regular file", leader_file_tail_(f->path));
    int fd = -1;
    leader_result result = leader_file_read_(f, AT_FDCWD, f->path, r, &fd);
    leader_file_shut_(&fd);
    return result;
}

/* Something stands at the path that we did not write. It may be dear to somebody: it is moved aside, never overwritten. */
static leader_result leader_file_move_aside_(leader_file *f) {
    char aside[LEADER_PATH_MAX + 40], line[2 * LEADER_PATH_MAX + 120];
    snprintf(aside, sizeof aside, "%s.corrupt-%lld", f->path, (long long)(leader_wall_us_() / 1000));
    if (link(f->path, aside) != 0 || unlink(f->path) != 0) return leader_file_errno_(f, "cannot move aside", f->path);
    snprintf(line, sizeof line, "%s was no lease record: moved to %s", f->path, aside);
    f->host.log(f->host.core, LEADER_LOG_WARN, line);
    return LEADER_OK;
}

/* -- operations -- */

static void leader_file_tell_(const leader_lease_ *r, int64_t rest, leader_record *seen) {
    memcpy(seen->holder, r->holder, sizeof seen->holder);
    seen->token = r->token;
    seen->expires_in_ms = rest;
}

/* Writes the record that begins a term of ours on top of `base`. */
static leader_result leader_file_take_(leader_file *f, int dir, const leader_request *q, uint64_t base, leader_record *seen) {
    char text[LEADER_FILE_TEXT_MAX_];
    uint64_t number = base + 1, clock = (uint64_t)leader_max_(1, leader_wall_us_() / 1000000 + 1) * 1000;
    bool doubt = leader_file_in_doubt_(f, q);
    if ((base == 0 || doubt) && number < clock) number = clock;
    if (number < q->min_token) number = q->min_token;
    if (number > LEADER_NUMBER_MAX_)
        return leader_file_fail_(f, LEADER_E_CORRUPT, "%s: no number is left above %llu",
                                 leader_file_tail_(f->dir), (unsigned long long)base);
    leader_file_take_lock_(f, dir);
    leader_time_text_(f->acquired, leader_wall_us_());
    f->my_token = number;
    f->my_seq = q->seq;
    f->my_number = 0;
    leader_file_text_(f, q, q->identity, text, sizeof text);
    leader_result result = leader_file_write_(f, dir, base, number, text, LEADER_OP_ACQUIRE_);
    if (result != LEADER_OK) return result;
    if (leader_file_local_(dir)) leader_file_names_(dir, leader_file_sweep_name_, f);
    if (doubt) seen->hold_off_ms = leader_file_full_lease_(f, q);
    f->hold_until_ms = doubt ? f->host.now_ms(f->host.core) + seen->hold_off_ms : LEADER_NEVER_;
    f->forgot_ms = LEADER_NEVER_;
    f->saw_holder = true;
    f->longest_ms = leader_max_(f->longest_ms, q->lease_ms);
    f->my_number = f->seen_number = f->sure_number = number;
    memcpy(seen->holder, q->identity, strlen(q->identity) + 1);
    seen->token = number;
    seen->expires_in_ms = q->lease_ms;
    return LEADER_OK;
}

/* No record: the first election here, or a store that was wiped. */
static leader_result leader_file_take_empty_(leader_file *f, int *dir, const leader_request *q, leader_record *seen) {
    leader_lease_ r;
    leader_result at_path = leader_file_look_at_path_(f, &r);
    if (at_path == LEADER_OK) {                 /* a copy without its record: whoever wrote it may still lead     */
        if (r.holder[0]) f->forgot_ms = f->host.now_ms(f->host.core);
        f->longest_ms = leader_max_(f->longest_ms, (int64_t)r.lease_ms);
    } else if (at_path == LEADER_E_CORRUPT) {
        if (r.form != f->seen_form || !f->seen_since_ms) { f->seen_form = r.form; f->seen_since_ms = f->host.now_ms(f->host.core); }
        seen->expires_in_ms = leader_max_(0, f->seen_since_ms + leader_file_full_lease_(f, q) + 1 - f->host.now_ms(f->host.core));
        if (seen->expires_in_ms > 0) return at_path;
        if (leader_file_move_aside_(f) != LEADER_OK) return LEADER_E_IO;
    } else if (at_path != LEADER_LOST) {
        return at_path;
    }
    if (f->host.config->cautious_start) f->forgot_ms = f->host.now_ms(f->host.core);
    if (*dir < 0) {
        mode_t mode = (mode_t)(f->mode | (f->mode & 0444) >> 2);
        if (mkdir(f->dir, mode) == 0) { if (chmod(f->dir, mode) != 0) return leader_file_errno_(f, "cannot set the mode of", f->dir); }
        else if (errno != EEXIST) return leader_file_errno_(f, "cannot make", f->dir);
        leader_result entered = leader_file_enter_(f, dir);
        if (entered != LEADER_OK) return entered == LEADER_LOST ? LEADER_E_IO : entered;
    }
    if (at_path == LEADER_OK && r.token >= q->min_token && r.token < LEADER_NUMBER_MAX_) {
        leader_request above = *q;
        above.min_token = r.token + 1;
        return leader_file_take_(f, *dir, &above, 0, seen);
    }
    return leader_file_take_(f, *dir, q, 0, seen);
}

/* How long the records below the highest keep others out. Normally there are none, or what the holder replaced just now. */
static int64_t leader_file_rest_below_(leader_file *f, int dir, const leader_lease_ *top, const leader_listing_ *listing,
                                       const leader_request *q) {
    int64_t longest = listing->count > LEADER_LISTED_MAX_ ? leader_file_rest_(f, NULL, leader_file_full_lease_(f, q)) : 0;
    for (int i = 0; i < listing->count && i < LEADER_LISTED_MAX_; i++) {
        leader_lease_ r;
        int fd = -1;
        if (listing->numbers[i] == top->number) continue;
        leader_result result = leader_file_read_number_(f, dir, listing->numbers[i], &r, &fd);
        leader_file_shut_(&fd);
        if (result == LEADER_LOST) continue;
        if (result == LEADER_OK && (!r.holder[0] || r.nonce == top->nonce || leader_file_dead_(f, dir, &r))) continue;
        int64_t rest = result == LEADER_OK ? leader_file_rest_(f, &r, 0) : leader_file_rest_(f, NULL, leader_file_full_lease_(f, q));
        longest = leader_max_(longest, rest);
    }
    return longest;
}

/* One look at the record, and a write if it may be taken. LOST: somebody was faster, look again. */
static leader_result leader_file_try_(leader_file *f, int *dir, const leader_request *q, leader_record *seen) {
    leader_lease_ r;
    leader_listing_ listing;
    memset(&r, 0, sizeof r);
    listing.count = 0;
    leader_result result = *dir < 0 ? LEADER_LOST : leader_file_present_(f, *dir, &r, &listing);
    if (result != LEADER_OK && result != LEADER_LOST && result != LEADER_E_CORRUPT) return result;
    leader_file_sight_(f, &r, result, listing.count);
    if (result == LEADER_LOST) return leader_file_take_empty_(f, dir, q, seen);
    if (result == LEADER_E_CORRUPT && r.number == 0) { seen->expires_in_ms = -1; return result; }

    bool corrupt = result == LEADER_E_CORRUPT, same_name = !corrupt && strcmp(r.holder, q->identity) == 0;
    bool own = !corrupt && r.nonce == q->nonce && r.seq <= q->seq;
    int64_t rest = corrupt ? leader_file_rest_(f, NULL, leader_file_full_lease_(f, q)) : r.holder[0] ? leader_file_rest_(f, &r, 0) : 0;
    bool sooner = !corrupt && (own || (same_name && q->reclaim) || leader_file_dead_(f, *dir, &r));
    int64_t below = listing.count > 1 ? leader_file_rest_below_(f, *dir, &r, &listing, q) : 0;
    if ((rest == 0 || sooner) && below == 0) {
        if (rest > 0 && r.hold_off_ms > 0) f->forgot_ms = f->host.now_ms(f->host.core);   /* its holder held off: so must its heir */
        return leader_file_take_(f, *dir, q, r.number, seen);
    }
    leader_file_tell_(&r, leader_max_(sooner ? 0 : rest, below), seen);
    if (corrupt) return result;
    if (f->lock_closed > 0 && --f->lock_closed >= 0 && seen->expires_in_ms > 2)
        seen->expires_in_ms = 2;                /* the lock goes just after its notice                            */
    return same_name ? leader_file_fail_(f, LEADER_E_DUPLICATE, "another process leads under our identity: %s", q->identity) : LEADER_HELD;
}

static leader_result leader_file_acquire_(void *self, const leader_request *q, leader_record *seen) {
    leader_file *f = (leader_file *)self;
    int dir = -1;
    f->nonce = q->nonce;
    leader_result result = leader_file_enter_(f, &dir);
    if (result == LEADER_OK || result == LEADER_LOST) {
        result = LEADER_LOST;
        for (int tries = 0; tries < 4 && result == LEADER_LOST; tries++) result = leader_file_try_(f, &dir, q, seen);
        if (result == LEADER_LOST) { result = LEADER_HELD; seen->expires_in_ms = -1; }
    }
    if (result != LEADER_OK) leader_file_shut_(&f->base_fd);
    leader_file_shut_(&dir);
    return result;
}

static leader_result leader_file_observe_(void *self, const leader_request *q, leader_record *seen) {
    leader_file *f = (leader_file *)self;
    leader_lease_ r;
    leader_listing_ listing;
    int dir = -1;
    (void)q;
    memset(&r, 0, sizeof r);
    listing.count = 0;
    leader_result result = leader_file_enter_(f, &dir);
    if (result == LEADER_OK) result = leader_file_present_(f, dir, &r, &listing);
    if (result == LEADER_OK || result == LEADER_LOST) {
        bool held = result == LEADER_OK && r.holder[0];
        leader_file_sight_(f, &r, result, listing.count);
        int64_t rest = held ? leader_file_rest_(f, &r, 0) : 0;
        if (held && leader_file_dead_(f, dir, &r)) rest = 0;
        if (result == LEADER_OK) leader_file_tell_(&r, rest, seen);
        result = rest > 0 ? LEADER_HELD : LEADER_OK;
    }
    leader_file_shut_(&f->base_fd);
    leader_file_shut_(&dir);
    return result;
}

/* Puts the next record on top of our own: a renewal, or, with an empty holder, the release. An earlier one of unknown
   outcome may stand there already: then the next goes on top of that. */
static leader_result leader_file_replace_(leader_file *f, const leader_request *q, const char *holder, leader_record *seen) {
    char text[LEADER_FILE_TEXT_MAX_];
    leader_lease_ r;
    leader_listing_ listing;
    int dir = -1;
    leader_result result = leader_file_enter_(f, &dir);
    if (result == LEADER_LOST) { f->my_number = 0; f->forgot_ms = f->host.now_ms(f->host.core); }
    if (result != LEADER_OK) return result;
    leader_file_text_(f, q, holder, text, sizeof text);
    for (int tries = 0; tries < 2; tries++) {
        if (f->my_number >= LEADER_NUMBER_MAX_) {
            result = leader_file_fail_(f, LEADER_E_CORRUPT, "%s: no number is left", leader_file_tail_(f->dir));
            break;
        }
        result = leader_file_write_(f, dir, f->my_number, f->my_number + 1, text, holder[0] ? LEADER_OP_RENEW_ : LEADER_OP_RELEASE_);
        if (result == LEADER_OK) f->my_number = f->seen_number = f->sure_number = f->my_number + 1;
        if (result != LEADER_LOST) break;
        memset(&r, 0, sizeof r);
        leader_result present = leader_file_present_(f, dir, &r, &listing);
        if (present == LEADER_OK && r.nonce == f->nonce && r.token == f->my_token && r.holder[0] && r.number > f->my_number) {
            f->my_number = r.number;
            continue;
        }
        if (present == LEADER_OK || present == LEADER_LOST) leader_file_sight_(f, &r, present, listing.count);
        if (present == LEADER_OK) leader_file_tell_(&r, r.holder[0] ? leader_file_rest_(f, &r, 0) : 0, seen);
        f->my_number = 0;
        break;
    }
    close(dir);
    return result;
}

static leader_result leader_file_renew_(void *self, const leader_request *q, leader_record *seen) {
    leader_file *f = (leader_file *)self;
    return f->my_number ? leader_file_replace_(f, q, q->identity, seen) : LEADER_LOST;
}

static leader_result leader_file_release_(void *self, const leader_request *q, leader_record *seen) {
    leader_file *f = (leader_file *)self;
    leader_lease_ r;
    leader_listing_ listing;
    int dir = -1;
    if (leader_file_in_doubt_(f, q)) return LEADER_LOST;    /* what we wrote, if anything, is left to expire      */
    if (!f->my_number) {                        /* an acquire of unknown outcome may have left a record of ours   */
        leader_result result = leader_file_enter_(f, &dir);
        if (result == LEADER_OK) result = leader_file_present_(f, dir, &r, &listing);
        leader_file_shut_(&dir);
        if (result != LEADER_OK) return result;
        if (!r.holder[0] || r.nonce != q->nonce || r.seq > q->seq) return LEADER_LOST;
        if (listing.count > 1) return LEADER_LOST;          /* one that counts may stand below: ours is left to expire */
        f->my_number = r.number;
        f->my_token = r.token;
        f->my_seq = r.seq;
    }
    leader_result result = leader_file_replace_(f, q, "", seen);
    if (result == LEADER_OK) f->my_number = 0;
    return result;
}

/* Reads the notices: a new number is a new record, and a lock file that was closed may be a death. */
static bool leader_file_poll_(void *self) {
    leader_file *f = (leader_file *)self;
    bool changed = false;
#if defined(__linux__)
    union { struct inotify_event align; char bytes[4096]; } buf;
    char lock[LEADER_FILE_NAME_MAX_];
    leader_file_name_(lock, "lock", f->holder_nonce);
    for (ssize_t got; f->notify_fd >= 0 && (got = read(f->notify_fd, buf.bytes, sizeof buf.bytes)) > 0;) {
        struct inotify_event event;
        for (ssize_t at = 0; at < got; at += (ssize_t)(sizeof event + event.len)) {
            memcpy(&event, buf.bytes + at, sizeof event);
            const char *name = event.len ? buf.bytes + at + sizeof event : "";
            bool closed = (event.mask & IN_CLOSE_WRITE) != 0;
            if (event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) f->watch_inode = 0;
            if (closed && strcmp(name, lock) == 0) f->lock_closed = 3;
            if (event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_Q_OVERFLOW)) changed = true;
            if (closed ? strcmp(name, lock) == 0 : leader_file_number_(name) != 0) changed = true;
        }
    }
#else
    (void)f;
#endif
    return changed;
}

static const char *leader_file_open_(void *self, const leader_host *host) {
    leader_file *f = (leader_file *)self;
    char cwd[LEADER_PATH_MAX + 1];
    if (f->wrong) return f->wrong;
    if (f->mode & ~0777) return "leader_file.mode has bits beyond 0777";
    if (f->path[0] != '/') {                    /* a later chdir must not move the lease                          */
        size_t n = getcwd(cwd, sizeof cwd) ? strlen(cwd) : 0, m = strlen(f->path);
        if (n == 0) return "leader_file_backend: the working directory has no name; give an absolute path";
        if (n + 1 + m > LEADER_PATH_MAX) return "leader_file_backend: path is longer than LEADER_PATH_MAX with the working directory before it";
        memmove(f->path + n + 1, f->path, m + 1);
        memcpy(f->path, cwd, n);
        f->path[n] = '/';
    }
    /* nothing of an earlier election */
    memset((char *)f + offsetof(leader_file, nonce), 0, offsetof(leader_file, path) - offsetof(leader_file, nonce));
    memcpy(f->dir, f->path, strlen(f->path));
    memcpy(f->dir + strlen(f->path), ".d", 3);
    f->host = *host;
    f->forgot_ms = f->hold_until_ms = LEADER_NEVER_;
    return NULL;
}

static void leader_file_close_(void *self) {
    leader_file *f = (leader_file *)self;
    char name[LEADER_FILE_NAME_MAX_];
    if (f->notify_fd >= 0) f->host.fd(f->host.core, f->notify_fd, 0);
    leader_file_shut_(&f->notify_fd);
    leader_file_shut_(&f->base_fd);
    if (f->lock_fd >= 0) {
        /* The name goes first: a lock that turns free under its name would tell standbys that we are dead, although the
           lease may have been kept on purpose or work may still go on. If it cannot go, the lock stays ours until we die. */
        int dir = open(f->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        leader_file_name_(name, "draft", f->nonce);
        if (dir >= 0) unlinkat(dir, name, 0);   /* if it could not be removed when it had served                  */
        leader_file_name_(name, "lock", f->nonce);
        bool gone = dir < 0 ? errno == ENOENT : unlinkat(dir, name, 0) == 0 || errno == ENOENT;
        leader_file_shut_(&dir);
        if (gone || !f->my_number) close(f->lock_fd);
        f->lock_fd = -1;
    }
    f->ready = false;
}

LEADER_API leader_backend leader_file_backend(leader_file *f, const char *path) {
    leader_backend b = {f, leader_file_acquire_, leader_file_renew_, leader_file_release_, leader_file_observe_,
                        leader_file_poll_, NULL, leader_file_open_, leader_file_close_};
    memset(f, 0, sizeof *f);
    f->mode = 0600;
    f->notify_fd = f->lock_fd = f->base_fd = -1;
    size_t n = path ? strlen(path) : 0;
    if (n == 0) f->wrong = "leader_file_backend: path is missing";
    else if (n > LEADER_PATH_MAX) f->wrong = "leader_file_backend: path is longer than LEADER_PATH_MAX (1023)";
    else if (path[n - 1] == '/') f->wrong = "leader_file_backend: path names a directory; name the file in it";
    else memcpy(f->path, path, n + 1);
    return b;
}

#endif /* _WIN32 */
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

/* ------------------------------------------------------------------------------------------------------------------
   This software is available under two licences: choose whichever you prefer.

   ALTERNATIVE A - MIT License

   Copyright (c) 2026 the leader.h authors

   Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
   documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
   rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
   persons to whom the Software is furnished to do so, subject to the following conditions: The above copyright notice and
   this permission notice shall be included in all copies or substantial portions of the Software.

   THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
   WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
   COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
   OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.

   ALTERNATIVE B - Public Domain (unlicense.org)

   This is free and unencumbered software released into the public domain. Anyone is free to copy, modify, publish, use,
   compile, sell, or distribute this software, either in source code form or as a compiled binary, for any purpose,
   commercial or non-commercial, and by any means. In jurisdictions that recognize copyright laws, the author or authors
   of this software dedicate any and all copyright interest in the software to the public domain. We make this dedication
   for the benefit of the public at large and to the detriment of our heirs and successors. We intend this dedication to be
   an overt act of relinquishment in perpetuity of all present and future rights to this software under copyright law.

   THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
   WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS BE
   LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT
   OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
   ------------------------------------------------------------------------------------------------------------------ */
