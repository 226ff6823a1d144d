/* Thousands of elections in one loop, one for each shard of something. An election is a struct of 2 KB and
   a store; none needs a thread. Each says when it is due, so a pass over all of them costs little more
   than a clock reading for each.

       many NAME DIRECTORY [SHARDS] [SECONDS] */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

typedef struct shard {
    leader_t election;
    leader_file file;
} shard;

static volatile sig_atomic_t ending;
static void on_signal(int sig) {
    (void)sig;
    ending = 1;
}

static bool open_shard(shard *s, const char *name, const char *dir, int number) {
    char path[512];
    leader_config cfg = {0};
    snprintf(path, sizeof path, "%s/shard-%d", dir, number);
    cfg.identity = name;
    cfg.lease_ms = 60000;  // many: let each renewal be rare
    cfg.backend = leader_file_backend(&s->file, path);
    if (leader_init(&s->election, &cfg) == LEADER_OK) {
        return true;
    }
    fprintf(stderr, "%s: %s\n", path, leader_error(&s->election));
    return false;
}

/* One pass: tick what is due, count what we lead, and find out how long all of them can be left alone. */
static int pass(shard *shards, int count, int *led) {
    int wait_ms = 1000;
    *led = 0;
    for (int i = 0; i < count; i++) {
        leader_t *e = &shards[i].election;
        int due_ms = leader_due_ms(e);
        if (due_ms == 0) {
            due_ms = leader_tick(e);
        }
        if (due_ms < wait_ms) {
            wait_ms = due_ms;
        }
        *led += leader_is_leader(e);
    }
    return wait_ms;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        return fprintf(stderr, "usage: %s NAME DIRECTORY [SHARDS] [SECONDS]\n", argv[0]), 2;
    }
    int count = argc > 3 ? atoi(argv[3]) : 1000;
    int led = 0;
    int told = -1;
    time_t end = argc > 4 ? time(NULL) + atol(argv[4]) : 0;
    struct rlimit files;  // a few descriptors for each
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    shard *shards = count > 0 ? (shard *)calloc((size_t)count, sizeof *shards) : NULL;
    if (!shards) {
        return fprintf(stderr, "SHARDS: %s\n", count > 0 ? "not enough memory" : "not a number above 0"), 1;
    }
    for (int i = 0; i < count; i++) {
        if (!open_shard(&shards[i], argv[1], argv[2], i)) {
            return 1;
        }
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);

    while (!ending && (!end || time(NULL) < end)) {
        int wait_ms = pass(shards, count, &led);
        if (led != told) {
            printf("%s leads %d of %d shards\n", argv[1], led, count);
        }
        told = led;
        struct timespec t = {wait_ms / 1000, wait_ms % 1000 * 1000000L};
        nanosleep(&t, NULL);
    }
    for (int i = 0; i < count; i++) {
        leader_close(&shards[i].election, 1000);
    }
    free(shards);
    return 0;
}
