/* leader_lib.h - entry points for other languages on top of leader.h, as built into libleader.so by `make
   lib`.

   A binding copies no struct of leader.h and no size: leader_open() allocates what an election needs and
   answers a leader_t *, which every function of leader.h takes; leader_free() ends it. Strings in, numbers
   out.

       leader_t *me = leader_open("file:///var/lib/job.lease", "node-a", 15000, NULL, error, sizeof error);
       while (running) {
           int wait_ms = leader_tick(me);
           if (leader_is_leader(me)) work(leader_token(me));
           leader_sleep(me, wait_ms);
       }
       leader_free(me, 1000);

   These names and their arguments do not change within a major version; leader_hooks only grows at its
   end, and `size` says how much of it a caller knows. */
#ifndef LEADER_LIB_H_INCLUDED
#define LEADER_LIB_H_INCLUDED

#include "leader.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leader_hooks {       // what a binding wants to hear; each may be NULL
    size_t size;                    // sizeof(leader_hooks) as the caller knows it
    void  *user;
    void (*on_started_leading)(void *user, uint64_t token);
    void (*on_stopped_leading)(void *user, uint64_t token, int why);    // why: a leader_result
    void (*on_new_leader)(void *user, const char *identity);            // "": nobody
    void (*on_log)(void *user, int level, const char *text);
    bool (*is_healthy)(void *user);
    bool (*is_drained)(void *user);
} leader_hooks;

/* store: file:///PATH, redis://host[:port][/db]#NAME (rediss://, unix://), postgres://host/db#NAME,
   etcd://host[:port][,host...]#NAME (etcds://), k8s://[NAMESPACE/]NAME; three, five or seven of these with
   spaces between them, for a majority; or "" for a single node. identity NULL: one is made. lease_ms 0:
   15000. hooks NULL: none. On failure NULL, with the reason in error. */
LEADER_API leader_t *leader_open(const char *store, const char *identity, int64_t lease_ms,
                                 const leader_hooks *hooks, char *error, size_t error_cap);
// never competes
LEADER_API leader_t *leader_open_observer(const char *store, const leader_hooks *hooks, char *error,
                                          size_t error_cap);
LEADER_API int leader_free(leader_t *, int64_t timeout_ms);     // leader_close, and the memory. NULL is fine
LEADER_API const char *leader_version(void);                    // LEADER_VERSION of the library
LEADER_API const char *leader_result_text(int result);          // leader_strerror for a plain number

/* For those who place the structs themselves. */
LEADER_API size_t leader_size(void);                            // sizeof(leader_t)
LEADER_API size_t leader_config_size(void);
LEADER_API size_t leader_file_size(void);

#ifdef __cplusplus
}
#endif
#endif // LEADER_LIB_H_INCLUDED
