/* At most K of N processes work: each slot is an election, and a process holds one slot at most.

       slots --id NAME --slots 3  --file PATH | --redis URL --name NAME | --store URL ...   [--lease 15s]

   A process without a slot goes for one that is free; on the others it defers. One that has a slot defers
   on all the rest for good. All slots go over one connection. The slot's token fences the work, slot by
   slot. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "options.h"
#include "family.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS_MAX = 64, WAIT_MS = 200, CLOSE_MS = 2000 };
static const int64_t FOR_GOOD_MS = INT64_C(1000) * 60 * 60 * 24 * 365;

typedef struct slot {
    leader_t election;
    family_member where;
} slot;

static slot slots[SLOTS_MAX];
static int slot_count = 3;
static volatile sig_atomic_t ending;

static void on_signal(int number) {
    (void)number;
    ending = 1;
}

/* The slot that this process holds and may work with; -1: none. */
static int my_slot(void) {
    for (int i = 0; i < slot_count; i++) {
        if (leader_is_leader(&slots[i].election)) {
            return i;
        }
    }
    return -1;
}

/* Goes for one free slot, beginning where nobody else does. More than one can be had by chance: the rest
   is given back. */
static void want_one(int from) {
    int mine = my_slot();
    bool wants = mine < 0;
    for (int k = 0; k < slot_count; k++) {
        int i = (from + k) % slot_count;
        leader_view seen = leader_get_view(&slots[i].election);
        bool is_free = seen.leader[0] == 0 && seen.age_ms >= 0;
        bool go = wants && is_free;
        leader_set_defer(&slots[i].election, go ? 0 : FOR_GOOD_MS);
        wants = wants && !go;
        if (i != mine && seen.leading) {
            leader_resign(&slots[i].election, 0);
        }
    }
}

/* Ticks what is due, and sleeps until the next is. */
static void turn(void) {
    int wait_ms = WAIT_MS;
    for (int i = 0; i < slot_count; i++) {
        int due_ms = leader_due_ms(&slots[i].election);
        if (due_ms == 0) {
            due_ms = leader_tick(&slots[i].election);
        }
        wait_ms = due_ms < wait_ms ? due_ms : wait_ms;
    }
    struct timespec t = {0, wait_ms * 1000000L};
    nanosleep(&t, NULL);
}

static void report(const char *id, int mine) {
    static int told = -2;
    if (mine == told) {
        return;
    }
    told = mine;
    if (mine < 0) {
        printf("%s has no slot\n", id);
    } else {
        printf("%s has slot %d, token %llu\n", id, mine,
               (unsigned long long)leader_token(&slots[mine].election));
    }
}

static const char *open_all(family *f, const char *id, int64_t lease_ms) {
    for (int i = 0; i < slot_count; i++) {
        leader_config cfg = {0};
        cfg.identity = id;
        cfg.lease_ms = lease_ms;
        cfg.defer_ms = FOR_GOOD_MS;
        cfg.backend = family_backend(f, &slots[i].where, i);
        if (leader_init(&slots[i].election, &cfg) != LEADER_OK) {
            return leader_error(&slots[i].election);
        }
    }
    return NULL;
}

static void close_all(void) {
    leader_t *elections[SLOTS_MAX];
    for (int i = 0; i < slot_count; i++) {
        elections[i] = &slots[i].election;
    }
    leader_close_all(elections, slot_count, CLOSE_MS);
}

static int mistake(const char *what, const char *about) {
    fprintf(stderr, "slots: %s%s%s\n", about, about[0] ? ": " : "", what);
    return 2;
}

int main(int argc, char **argv) {
    static store where;
    static family together;
    char name[LEADER_IDENTITY_MAX + 1];
    const char *id = NULL;
    int64_t lease_ms = 15000;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        const char *value = NULL;
        bool good = true;
        if (option_is(argv, &i, "--id", &value)) {
            id = value;
        } else if (option_is(argv, &i, "--slots", &value)) {
            slot_count = value ? atoi(value) : 0;
        } else if (option_is(argv, &i, "--lease", &value)) {
            good = option_duration(value, &lease_ms);
        } else {
            good = store_option(&where, argv, &i, &value);
        }
        if (!good || !value) {
            return mistake("unknown, or its value is missing or wrong", option);
        }
    }
    if (slot_count < 1 || slot_count > SLOTS_MAX) {
        return mistake("1 to 64", "--slots");
    }
    const char *wrong = store_mistake(&where);
    if (wrong) {
        return mistake(wrong, "");
    }
    if (!id) {
        id = store_identity(&where, name);
    }
    family_init(&together, &where);
    wrong = open_all(&together, id, lease_ms);
    if (wrong) {
        return mistake(wrong, "");
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (!ending) {
        want_one((int)(getpid() % slot_count));
        report(id, my_slot());  // with a slot: work, while leader_is_leader(&slots[mine].election)
        turn();
    }
    close_all();
    store_free(&where);
    return 0;
}
