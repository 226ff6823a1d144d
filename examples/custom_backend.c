/* A store of your own: three functions, about thirty lines.

       cc -I. examples/custom_backend.c -o custom_backend -pthread && ./custom_backend

   The store is one row of a table. Here the table is plain memory under a mutex, so that the example runs anywhere; each function is
   what would be one statement to a database, such as

       UPDATE lease SET owner = $me, token = token + 1, expires = now() + $lease WHERE name = 'job' AND (owner = $me OR expires <= now())

   The one duty of a backend: after a successful acquire or renew the store keeps everybody else out for lease_ms, even if the holder
   and its connection vanish. That is why the row has an expiry by the *store's* clock, and why a lock that drops with the connection
   would not do. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct row {
    pthread_mutex_t lock;
    char     owner[LEADER_IDENTITY_MAX + 1];
    uint64_t nonce, seq;                        /* which process of that name, and which of its acquires          */
    uint64_t token;                             /* survives every release: a term's token is above all earlier    */
    int64_t  expires_ms;
} row;

static int64_t store_clock_ms(void) {           /* one clock for all, and not one that people set                 */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Ours is what our own nonce wrote. A request that arrives after a later one of ours (seq) may touch nothing. */
static bool row_is_mine(const row *it, const leader_request *r) { return it->nonce == r->nonce && it->seq <= r->seq; }

static leader_result row_acquire(void *self, const leader_request *r, leader_record *seen) {
    row *it = (row *)self;
    pthread_mutex_lock(&it->lock);
    int64_t now = store_clock_ms();
    bool same_name = strcmp(it->owner, r->identity) == 0;
    bool free = it->expires_ms <= now || row_is_mine(it, r) || (same_name && r->reclaim);
    if (free) {
        snprintf(it->owner, sizeof it->owner, "%s", r->identity);
        it->nonce = r->nonce;
        it->seq = r->seq;
        it->token = it->token + 1 > r->min_token ? it->token + 1 : r->min_token;
        it->expires_ms = now + r->lease_ms;
    }
    snprintf(seen->holder, sizeof seen->holder, "%s", it->owner);
    seen->token = it->token;
    seen->expires_in_ms = it->expires_ms - now;
    pthread_mutex_unlock(&it->lock);
    return free ? LEADER_OK : same_name ? LEADER_E_DUPLICATE : LEADER_HELD;
}

static leader_result row_change(row *it, const leader_request *r, int64_t lease_ms) {
    pthread_mutex_lock(&it->lock);
    bool mine = row_is_mine(it, r);             /* even if it has expired: nobody took it                         */
    if (mine) it->expires_ms = lease_ms ? store_clock_ms() + lease_ms : 0;
    if (mine && !lease_ms) it->nonce = 0;       /* released: free at once, and no late renewal brings it back     */
    pthread_mutex_unlock(&it->lock);
    return mine ? LEADER_OK : LEADER_LOST;
}
static leader_result row_renew(void *self, const leader_request *r, leader_record *seen) { (void)seen; return row_change((row *)self, r, r->lease_ms); }
static leader_result row_release(void *self, const leader_request *r, leader_record *seen) { (void)seen; return row_change((row *)self, r, 0); }

static leader_backend row_backend(row *it) {
    leader_backend b;
    memset(&b, 0, sizeof b);
    b.self = it;
    b.acquire = row_acquire;
    b.renew = row_renew;
    b.release = row_release;
    return b;
}

/* ---- three candidates share the row: one leads, hands over, the next one dies, the last one takes over -------------------------- */

int main(void) {
    static row job;
    static leader_t me[3];
    static const char *const names[3] = {"ann", "bob", "cid"};
    bool dead[3] = {false, false, false};
    int led = 0, last = -1;
    pthread_mutex_init(&job.lock, NULL);
    for (int i = 0; i < 3; i++) {
        leader_config cfg;
        memset(&cfg, 0, sizeof cfg);
        cfg.identity = names[i];
        cfg.backend = row_backend(&job);
        cfg.lease_ms = 600;                     /* short, for a demonstration: failover costs at most this        */
        if (leader_init(&me[i], &cfg) != LEADER_OK) return puts(leader_error(&me[i])), 1;
    }
    for (int64_t end = store_clock_ms() + 20000; led < 3 && store_clock_ms() < end;) {
        int leaders = 0;
        for (int i = 0; i < 3; i++) {
            if (!dead[i]) leader_tick(&me[i]);
            if (!leader_is_leader(&me[i])) continue;
            leaders++;
            if (i == last) continue;
            last = i;
            led++;
            printf("%s leads, token %llu\n", names[i], (unsigned long long)leader_token(&me[i]));
            if (led == 1) leader_resign(&me[i], 60000), printf("%s hands over\n", names[i]);
            if (led == 2) dead[i] = true, printf("%s is never heard of again\n", names[i]);
        }
        if (leaders > 1) return puts("two leaders"), 1;
        leader_sleep(&me[(last + 1) % 3], 10);
    }
    for (int i = 0; i < 3; i++) if (!dead[i]) leader_close(&me[i], 1000);
    return led == 3 ? 0 : 1;
}
