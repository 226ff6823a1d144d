/* One thread ticks, many ask. The questions are safe from any thread and cost about as much as reading the
   clock.

       threads NAME [LEASE-FILE] [SECONDS] */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORKERS = 4 };

static leader_t me;
typedef struct worker {
    pthread_t thread;
    long did, skipped;
} worker;

static void nap_ms(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Asks before each piece of work, and again how long there is before one that takes long. */
static void *run(void *arg) {
    worker *w = (worker *)arg;
    while (!leader_is_stopped(&me)) {
        const int64_t piece_ms = 2;
        if (leader_is_leader(&me) && leader_remaining_ms(&me) > piece_ms) {
            w->did++;
        } else {
            w->skipped++;
        }
        nap_ms((long)piece_ms);
    }
    return NULL;
}

static void on_signal(int sig) {
    (void)sig;
    leader_stop(&me);
}

int main(int argc, char **argv) {
    static worker workers[WORKERS];
    leader_file file;
    leader_config cfg = {0};
    cfg.identity = argc > 1 ? argv[1] : "node-a";
    cfg.backend = leader_file_backend(&file, argc > 2 ? argv[2] : "job.lease");
    if (leader_init(&me, &cfg) != LEADER_OK) {
        return fprintf(stderr, "%s\n", leader_error(&me)), 1;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    for (int i = 0; i < WORKERS; i++) {
        if (pthread_create(&workers[i].thread, NULL, run, &workers[i]) != 0) {
            return 1;
        }
    }

    time_t end = argc > 3 ? time(NULL) + atol(argv[3]) : 0;
    while (!leader_is_stopped(&me)) {  // this thread is the loop: ticks and sleeps, nothing else
        leader_tick(&me);
        leader_sleep(&me, 100);
        if (end && time(NULL) >= end) {
            leader_stop(&me);
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        printf("worker %d did %ld pieces as leader, skipped %ld\n", i, workers[i].did, workers[i].skipped);
    }
    return leader_close(&me, 1000) != LEADER_OK;
}
