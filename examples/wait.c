/* A program that does nothing until it leads: wait, work, lose, wait again. Ctrl-C hands over and ends.

       wait NAME [LEASE-FILE] */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include <signal.h>
#include <stdio.h>

static leader_t me;
static void on_signal(int sig) {
    (void)sig;
    leader_stop(&me);
}

/* One small piece of work. It is short, so asking before each piece is enough. */
static void work(int piece) {
    printf("piece %d with token %llu\n", piece, (unsigned long long)leader_token(&me));
}

int main(int argc, char **argv) {
    leader_file file;
    leader_config cfg = {0};
    char name[LEADER_IDENTITY_MAX + 1];
    cfg.identity = argc > 1 ? argv[1] : leader_make_identity(name, sizeof name, "wait");
    cfg.backend = leader_file_backend(&file, argc > 2 ? argv[2] : "job.lease");
    if (leader_init(&me, &cfg) != LEADER_OK) {
        return fprintf(stderr, "%s\n", leader_error(&me)), 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);

    for (int piece = 1; !leader_is_stopped(&me);) {
        leader_result r = leader_wait(&me, -1);
        if (r == LEADER_PENDING) {
            continue;  // a signal: leader_stop was called, the next wait sees it
        }
        if (r != LEADER_OK) {
            break;
        }
        puts("leading");
        while (leader_is_leader(&me)) {
            work(piece++);
            leader_tick(&me);
            leader_sleep(&me, 200);
        }
        puts("not leading any more");
    }
    return leader_close(&me, 1000) != LEADER_OK;
}
