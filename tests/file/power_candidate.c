/* A candidate for test_power.py: leads again and again, and says the token of each term as soon as it has
   begun. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include <stdio.h>
#include <stdlib.h>

static void say(void *user, uint64_t token) {
    (void)user;
    printf("%llu\n", (unsigned long long)token);
    fflush(stdout);
}

int main(int argc, char **argv) {
    leader_t me;
    leader_file file;
    leader_config config = {0};
    if (argc != 3) {
        return 2;
    }
    config.identity = "candidate";
    config.backend = leader_file_backend(&file, argv[1]);
    config.lease_ms = 1500;
    config.renew_deadline_ms = 1000;
    config.renew_ms = 10;
    config.on_started_leading = say;
    if (leader_init(&me, &config) != LEADER_OK) {
        fprintf(stderr, "%s\n", leader_error(&me));
        return 1;
    }
    for (int terms = atoi(argv[2]); terms > 0;) {
        leader_tick(&me);
        bool enough = leader_is_leader(&me) && leader_get_stats(&me).renewals % 5 == 4;
        if (enough) {
            leader_resign(&me, 1);
            terms--;
        }
        leader_sleep(&me, 10);
    }
    leader_close(&me, 1000);
    return 0;
}
