/* The shortest complete program. Start it twice, in one directory, with two names; kill the one that works.

       build/examples/minimal node-a &
       build/examples/minimal node-b */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include <stdio.h>

int main(int argc, char **argv) {
    leader_file file;
    leader_config config = {0};
    config.identity = argc > 1 ? argv[1] : "node-a";
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
