/* The election in a poll() loop beside what the program does anyway: here it answers each line on standard
   input.

       poll NAME [STORE]          who: who leads    resign: hand over    quit: end
       STORE: a lease file, a URL, or a majority of URLs, see options.h */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "options.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void on_new_leader(void *user, const char *identity) {
    (void)user;
    printf("leader: %s\n", identity[0] ? identity : "nobody");
}

static void answer(leader_t *me, const char *line) {
    leader_view v = leader_get_view(me);
    if (strncmp(line, "quit", 4) == 0) {
        leader_stop(me);
    } else if (strncmp(line, "resign", 6) == 0) {
        leader_resign(me, 1000);
    } else {
        printf("%s%s, token %llu, seen %lld ms ago\n", v.leader[0] ? v.leader : "nobody",
               v.leading ? " (that is me)" : "", (unsigned long long)v.token, (long long)v.age_ms);
    }
}

int main(int argc, char **argv) {
    static store where;
    leader_config cfg = {0};
    leader_t me;
    cfg.identity = argc > 1 ? argv[1] : "node-a";
    cfg.backend = store_of_argument(&where, argc > 2 ? argv[2] : "job.lease");
    cfg.on_new_leader = on_new_leader;
    if (leader_init(&me, &cfg) != LEADER_OK) {
        return fprintf(stderr, "%s\n", leader_error(&me)), 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);

    while (!leader_is_stopped(&me)) {
        int wait_ms = leader_tick(&me);
        leader_fd theirs[LEADER_FDS_MAX];
        int n = leader_fds(&me, theirs);  // ask after every tick: they may have changed
        struct pollfd fds[LEADER_FDS_MAX + 1] = {{STDIN_FILENO, POLLIN, 0}};
        for (int i = 0; i < n; i++) {
            fds[i + 1].fd = (int)theirs[i].fd;
            fds[i + 1].events = leader_poll_events(theirs[i].events);
        }
        if (poll(fds, (nfds_t)n + 1, wait_ms) <= 0) {
            continue;
        }
        if (fds[0].revents) {
            char line[256];
            ssize_t got = read(STDIN_FILENO, line, sizeof line - 1);
            line[got > 0 ? got : 0] = 0;
            answer(&me, got > 0 ? line : "quit");
        }
    }
    return leader_close(&me, 1000) != LEADER_OK;
}
