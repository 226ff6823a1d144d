/* One machine today, several tomorrow: the same program, and only the backend says which. Without a lease
   file it is alone and always leader; with one it competes.

       single_node [LEASE-FILE] */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include <stdio.h>

static void on_log(void *user, leader_level level, const char *text) {
    (void)user;
    if (level <= LEADER_LOG_WARN) {
        fprintf(stderr, "%s\n", text);
    }
}

int main(int argc, char **argv) {
    char name[LEADER_IDENTITY_MAX + 1];
    leader_file file;
    leader_config cfg = {0};
    leader_t me;
    cfg.identity = leader_make_identity(name, sizeof name, "app");
    cfg.backend = argc > 1 ? leader_file_backend(&file, argv[1]) : leader_single_backend();
    cfg.on_log = on_log;  // a forgotten backend line would be warned of here
    if (leader_init(&me, &cfg) != LEADER_OK) {
        return fprintf(stderr, "%s\n", leader_error(&me)), 1;
    }
    leader_result r = leader_wait(&me, 2000);
    printf("%s: %s\n", argc > 1 ? argv[1] : "single node", r == LEADER_OK ? "leader" : leader_strerror(r));
    return leader_close(&me, 1000) != LEADER_OK;
}
