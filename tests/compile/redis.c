/* The Redis backend, used: for tests/test_backend_builds.sh, which compiles it in every form. */
#include "leader.h"
#ifdef DIRECTLY
#include "backends/leader_redis.h"
#endif
#if defined(LEADER_IMPLEMENTATION) && !defined(LEADER_REDIS_IMPLEMENTATION_DONE)
#error "the implementation was asked for and not compiled"
#endif
#include <string.h>
static leader_t me;
static leader_redis redis;
static leader_redis_election election;
int main(void) {
    leader_redis_settings how;
    leader_config cfg;
    memset(&how, 0, sizeof how);
    memset(&cfg, 0, sizeof cfg);
    how.url = "redis://127.0.0.1:1/2";
    leader_redis_from_env(&redis);
    leader_redis_init(&redis, &how);
    leader_redis_timing(&cfg);
    cfg.identity = "builds";
    cfg.backend = leader_redis_backend(&election, &redis, "job");
    if (leader_init(&me, &cfg) != LEADER_OK) return 1;
    leader_tick(&me);
    leader_close(&me, 0);
    return leader_is_leader(&me);
}
