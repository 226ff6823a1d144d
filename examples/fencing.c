/* Why a token: a leader that stalls in the middle of a write comes back when another one leads, and its
   write is late. No clock can stop it: it asked, was told yes, and then lost the processor. The resource
   can: it remembers the highest token it has seen and rejects smaller ones. Both candidates live in this
   one process, so that the stall is easy to see. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include <stdio.h>

typedef struct resource {
    uint64_t highest;
    char value[64];
} resource;  // a database row, a device, a bucket

static bool store(resource *r, uint64_t token, const char *value) {
    if (token < r->highest) {
        printf("rejected: \"%s\" with token %llu, the resource has seen %llu\n", value,
               (unsigned long long)token, (unsigned long long)r->highest);
        return false;
    }
    r->highest = token;
    snprintf(r->value, sizeof r->value, "%s", value);
    printf("stored:   \"%s\" with token %llu\n", value, (unsigned long long)token);
    return true;
}

int main(int argc, char **argv) {
    leader_t a;
    leader_t b;
    leader_file file_a;
    leader_file file_b;
    resource row = {0, ""};
    const char *path = argc > 1 ? argv[1] : "fencing.lease";
    leader_config cfg = {0};
    cfg.lease_ms = 300;  // short, so that the show is
    cfg.identity = "a";
    cfg.backend = leader_file_backend(&file_a, path);
    if (leader_init(&a, &cfg) != LEADER_OK) {
        return puts(leader_error(&a)), 1;
    }
    cfg.identity = "b";
    cfg.backend = leader_file_backend(&file_b, path);
    if (leader_init(&b, &cfg) != LEADER_OK) {
        return puts(leader_error(&b)), 1;
    }

    if (leader_wait(&a, 5000) != LEADER_OK) {
        return puts(leader_error(&a)), 1;
    }
    uint64_t token = leader_token(&a);  // the answer: a leads ...
    store(&row, token, "a's first");

    puts("a stalls; nobody ticks it");  // ... and is stopped before its second write leaves
    if (leader_wait(&b, 5000) != LEADER_OK) {
        return puts(leader_error(&b)), 1;
    }
    store(&row, leader_token(&b), "b's first");

    puts("a goes on where it was");
    bool stored = store(&row, token, "a's second, late");
    printf("the resource holds \"%s\"; a, asked again: %s\n", row.value,
           leader_is_leader(&a) ? "leader" : "not leader");
    leader_close(&a, 1000);
    leader_close(&b, 1000);
    return stored ? 1 : 0;
}
