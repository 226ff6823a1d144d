/* Leader election on Redis alone, set up by the environment.

       cc -I. examples/redis.c -o redis_job -lhiredis -pthread
       REDIS_URL=redis://127.0.0.1:6379 ./redis_job nightly-report

   Sentinels: REDIS_SENTINEL_HOST=a,b,c REDIS_SENTINEL_NAME=mymaster ./redis_job nightly-report
   The header backends/leader_redis.h names every variable. leader_redis_timing() asks for a lease of 30 s. */
#define LEADER_IMPLEMENTATION
#define LEADER_WITH_REDIS
#include "leader.h"
#include <signal.h>
#include <stdio.h>

static leader_t me;

static void on_signal(int number) {
    (void)number;
    leader_stop(&me);
}

int main(int argc, char **argv) {
    static leader_redis redis;
    char identity[LEADER_IDENTITY_MAX + 1];
    leader_redis_config where = {0};
    leader_config config = {0};
    if (leader_redis_config_from_env(&where) != LEADER_OK) {
        fprintf(stderr, "%s\n", where.mistake);
        return 1;
    }
    where.name = argc > 1 ? argv[1] : "job";
    config.identity = leader_make_identity(identity, sizeof identity, "worker");
    config.backend = leader_redis_backend(&redis, &where);
    leader_redis_timing(&config);
    if (leader_init(&me, &config) != LEADER_OK) {
        fprintf(stderr, "%s\n", leader_error(&me));
        return 1;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    bool led = false;
    while (!leader_is_stopped(&me)) {
        leader_tick(&me);
        bool leads = leader_is_leader(&me);
        if (leads != led) {
            printf("%s: %s\n", identity, leads ? "leading" : "standing by");
            fflush(stdout);
            led = leads;
        }
        leader_sleep(&me, 1000);
    }
    return leader_close(&me, 1000) != LEADER_OK;
}
