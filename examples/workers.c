/* Worker threads that sleep until this process leads.

       cc -I. examples/workers.c -o workers -pthread && ./workers node-a

   The main thread ticks; two workers wait on a condition variable. The callbacks run inside leader_tick, so
   they only set a flag and wake the workers. A worker asks leader_is_leader() before each piece of work, and
   is_drained keeps the lease until the last piece is over: a hand-over never overlaps. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

enum { WORKERS = 2 };

static leader_t me;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool leading;
static bool ending;
static int busy;

static void set_leading(bool now) {
    pthread_mutex_lock(&lock);
    leading = now;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void on_started(void *user, uint64_t token) {
    (void)user;
    printf("leading, token %llu\n", (unsigned long long)token);
    set_leading(true);
}

static void on_stopped(void *user, uint64_t token, leader_result why) {
    (void)user;
    printf("term %llu is over: %s\n", (unsigned long long)token, leader_strerror(why));
    set_leading(false);
}

static bool is_drained(void *user) {
    (void)user;
    pthread_mutex_lock(&lock);
    bool idle = busy == 0;
    pthread_mutex_unlock(&lock);
    return idle;
}

/* Waits until this process leads. False: the program ends. */
static bool begin_piece(void) {
    pthread_mutex_lock(&lock);
    while (!leading && !ending) {
        pthread_cond_wait(&changed, &lock);
    }
    bool go = !ending;
    if (go) {
        busy++;
    }
    pthread_mutex_unlock(&lock);
    return go;
}

static void end_piece(void) {
    pthread_mutex_lock(&lock);
    busy--;
    pthread_mutex_unlock(&lock);
}

static void *work(void *name) {
    struct timespec piece = {0, 200000000};
    while (begin_piece()) {
        if (leader_is_leader(&me)) {
            printf("%s works\n", (const char *)name);
        }
        nanosleep(&piece, NULL);
        end_piece();
    }
    return NULL;
}

static void on_signal(int number) {
    (void)number;
    leader_stop(&me);
}

int main(int argc, char **argv) {
    static char names[WORKERS][16];
    pthread_t threads[WORKERS];
    leader_file file;
    leader_config config = {0};
    config.identity = argc > 1 ? argv[1] : "node-a";
    config.backend = leader_file_backend(&file, "workers.lease");
    config.on_started_leading = on_started;
    config.on_stopped_leading = on_stopped;
    config.is_drained = is_drained;
    if (leader_init(&me, &config) != LEADER_OK) {
        fprintf(stderr, "%s\n", leader_error(&me));
        return 1;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    for (int i = 0; i < WORKERS; i++) {
        snprintf(names[i], sizeof names[i], "worker %d", i + 1);
        pthread_create(&threads[i], NULL, work, names[i]);
    }
    while (!leader_is_stopped(&me)) {
        leader_tick(&me);
        leader_sleep(&me, 1000);
    }
    pthread_mutex_lock(&lock);
    ending = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
    }
    return leader_close(&me, 0) != LEADER_OK;
}
