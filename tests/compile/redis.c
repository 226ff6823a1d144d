/* The Redis backend, used: for tests/compile/test_backend_builds.sh, which compiles it in every form. */
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
static leader_redis_client client;
static leader_redis_election election;
int main(void) {
    leader_redis_config how;
    leader_config cfg;
    memset(&how, 0, sizeof how);
    memset(&cfg, 0, sizeof cfg);
    if (leader_redis_config_from_env(&how) != LEADER_OK) return 1;
    how.url = "redis://127.0.0.1:1/2";
    leader_redis_client_init(&client, &how);
    cfg.backend = leader_redis_shared_key_backend(&election, &client, "app:key");
    cfg.backend = leader_redis_shared_backend(&election, &client, "job");
    how.name = "job";
    leader_redis_timing(&cfg);
    cfg.identity = "builds";
    cfg.backend = leader_redis_backend(&redis, &how);
    if (leader_init(&me, &cfg) != LEADER_OK) return 1;
    leader_tick(&me);
    leader_close(&me, 0);
    return leader_is_leader(&me);
}
