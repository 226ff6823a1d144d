/* The store of examples/custom_backend.c under the kit: rows in memory, two functions. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/store/kit.h"
#include <stdio.h>
#include <string.h>

typedef struct row {
    char         election[64];
    leader_entry entry;
    bool         garbled;
} row;

static row           rows[4096];
static int           row_count;
static leader_engine engines[STORE_SLOTS];

static row *row_of(const char *election) {
    int i = 0;
    while (i < row_count && strcmp(rows[i].election, election) != 0) {
        i++;
    }
    if (i == row_count) {
        row_count++;
        snprintf(rows[i].election, sizeof rows[i].election, "%s", election);
    }
    return &rows[i];
}

static leader_result row_read(void *self, const leader_call *call, leader_entry *found) {
    const row *r = (const row *)self;
    (void)call;
    *found = r->entry;
    return r->garbled ? LEADER_E_CORRUPT : LEADER_OK;
}

static leader_result row_write(void *self, const leader_call *call, const leader_entry *next,
                               leader_entry *stored) {
    row *r = (row *)self;
    static unsigned long writes;
    (void)call;
    if (strcmp(r->entry.version, next->version) != 0) {
        return LEADER_LOST;
    }
    writes++;
    r->entry = *next;
    r->garbled = false;
    snprintf(r->entry.version, sizeof r->entry.version, "%lu", writes);
    *stored = r->entry;
    return LEADER_OK;
}

static bool start(void) {
    return true;
}

static void stop(void) {
}

static leader_backend backend(int slot, const char *election) {
    leader_register store = {row_of(election), row_read, row_write, NULL, NULL, NULL, NULL, "memory"};
    return leader_register_backend(&engines[slot], &store);
}

static void wipe(const char *election) {
    memset(&row_of(election)->entry, 0, sizeof(leader_entry));
}

static void corrupt(const char *election) {
    row *r = row_of(election);
    r->garbled = true;
    snprintf(r->entry.version, sizeof r->entry.version, "garbled");
}

static const store_under_test store = {
    "memory", STORE_LACKS_NOTICE | STORE_LACKS_NETWORK, NULL, start, stop, backend, wipe, corrupt, NULL, 0};
