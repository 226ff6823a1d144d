/* Stores in memory for the tests of the quorum. A shelf is one store that keeps one record; every
   candidate reaches it through the real register engine. A shelf can be down, hang, or be wiped. */
#ifndef QUORUM_SHELF_H
#define QUORUM_SHELF_H

#include "leader.h"
#include "tests/tools/utest.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STORES_MAX = 7, LEASE_MS = 15000, DEADLINE_MS = 10000, RETRY_MS = 2000, TIMEOUT_MS = 2000 };

typedef struct shelf {
    leader_entry row;
    unsigned     writes;
    int          reads;
    bool         down;          // answers E_IO
    bool         hangs;         // never answers
    bool         hangs_on_write;
} shelf;

typedef struct candidate {
    leader_quorum  quorum;
    leader_engine  engines[STORES_MAX];
    leader_backend backend;
    leader_config  config;
    leader_request request;
    leader_record  seen;
    char           log[4000];
} candidate;

static int64_t now_ms;
static shelf   shelves[STORES_MAX];

static inline leader_result shelf_read(void *self, const leader_call *call, leader_entry *found) {
    (void)call;
    shelf *s = (shelf *)self;
    if (s->hangs) {
        return LEADER_PENDING;
    }
    if (s->down) {
        return LEADER_E_IO;
    }
    s->reads++;
    *found = s->row;
    return LEADER_OK;
}

static inline leader_result shelf_write(void *self, const leader_call *call, const leader_entry *next,
                                        leader_entry *stored) {
    (void)call;
    shelf *s = (shelf *)self;
    if (s->hangs || s->hangs_on_write) {
        return LEADER_PENDING;
    }
    if (s->down) {
        return LEADER_E_IO;
    }
    if (strcmp(next->version, s->row.version) != 0) {
        return LEADER_LOST;
    }
    s->row = *next;
    s->writes++;
    snprintf(s->row.version, sizeof s->row.version, "v%u", s->writes);
    *stored = s->row;
    return LEADER_OK;
}

static inline int64_t read_clock(void *core) {
    (void)core;
    return now_ms;
}

static inline void keep_log(void *core, leader_level level, const char *text) {
    candidate *c = (candidate *)core;
    size_t n = strlen(c->log);
    snprintf(c->log + n, sizeof c->log - n, "%c %s\n", "?EWID"[level], text);
}

static inline void wipe(int at) {
    memset(&shelves[at].row, 0, sizeof shelves[at].row);
}

/* A record as an orderly release leaves it behind. */
static inline void put_released(int at, uint64_t token) {
    shelf *s = &shelves[at];
    memset(&s->row, 0, sizeof s->row);
    s->row.token = token;
    s->row.lease_ms = LEASE_MS;
    s->row.origin = 77;
    s->row.renewal = ++s->writes;
    snprintf(s->row.version, sizeof s->row.version, "v%u", s->writes);
}

static inline void put_held(int at, const char *holder, uint64_t token) {
    put_released(at, token);
    snprintf(shelves[at].row.holder, sizeof shelves[at].row.holder, "%s", holder);
    shelves[at].row.nonce = 99;
    shelves[at].row.seq = 1;
}

static inline bool holds(int at, const char *holder) {
    return strcmp(shelves[at].row.holder, holder) == 0;
}

static inline leader_backend shelf_backend(leader_engine *engine, int at) {
    leader_register store;
    memset(&store, 0, sizeof store);
    store.self = &shelves[at];
    store.read = shelf_read;
    store.write = shelf_write;
    return leader_register_backend(engine, &store);
}

static inline const char *open_quorum(candidate *c, const leader_backend *stores, int count) {
    leader_host host = {c, &c->config, NULL, NULL, keep_log, read_clock, NULL};
    c->backend = leader_quorum_backend(&c->quorum, stores, count);
    return c->backend.open(c->backend.self, &host);
}

static inline void name_candidate(candidate *c, const char *name, uint64_t nonce) {
    memset(c, 0, sizeof *c);
    c->config.identity = name;
    c->config.lease_ms = LEASE_MS;
    c->config.renew_deadline_ms = DEADLINE_MS;
    c->config.retry_ms = RETRY_MS;
    c->config.retry_max_ms = 60000;
    c->request.identity = name;
    c->request.nonce = nonce;
    c->request.lease_ms = LEASE_MS;
    c->request.timeout_ms = TIMEOUT_MS;
    c->request.min_token = 1;
    c->request.value = "";
    c->request.heir = "";
    c->request.value = "";
    c->request.heir = "";
}

static inline void join(candidate *c, const char *name, uint64_t nonce, int count) {
    leader_backend stores[STORES_MAX];
    name_candidate(c, name, nonce);
    for (int i = 0; i < count; i++) {
        stores[i] = shelf_backend(&c->engines[i], i);
    }
    if (open_quorum(c, stores, count) != NULL) {
        abort();
    }
}

typedef leader_result (*operation)(void *self, const leader_request *, leader_record *);

/* The same request once more. */
static inline leader_result look_again(candidate *c, operation what) {
    memset(&c->seen, 0, sizeof c->seen);
    return what(c->backend.self, &c->request, &c->seen);
}

static inline leader_result ask(candidate *c, operation what) {
    c->request.seq++;
    c->request.now_ms = now_ms;
    leader_result result = look_again(c, what);
    if (result == LEADER_OK && c->seen.token >= c->request.min_token) {
        c->request.min_token = c->seen.token + 1;   // as the core does after a success
    }
    return result;
}

#define ACQUIRE(c) ask(&(c), (c).backend.acquire)
#define RENEW(c)   ask(&(c), (c).backend.renew)
#define RELEASE(c) ask(&(c), (c).backend.release)
#define OBSERVE(c) ask(&(c), (c).backend.observe)

#endif
