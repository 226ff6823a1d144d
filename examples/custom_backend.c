/* A store of your own: two functions.

       cc -I. examples/custom_backend.c -o custom_backend -pthread && ./custom_backend

   The store is one row of a table; here the table is plain memory, so that the example runs anywhere.
   Each function is one statement to a database: SELECT * FROM lease, and UPDATE lease SET ... WHERE
   version = $old. The engine in leader.h decides all the rest. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include <stdio.h>
#include <string.h>

static leader_result row_read(void *self, const leader_call *call, leader_entry *found) {
    (void)call;
    *found = *(const leader_entry *)self;
    return LEADER_OK;
}

static leader_result row_write(void *self, const leader_call *call, const leader_entry *next,
                               leader_entry *stored) {
    leader_entry *row = (leader_entry *)self;
    (void)call;
    if (strcmp(row->version, next->version) != 0) {
        return LEADER_LOST;                     // somebody wrote since we read it
    }
    *row = *next;
    snprintf(row->version, sizeof row->version, "%llu", (unsigned long long)next->renewal);
    *stored = *row;
    return LEADER_OK;
}

int main(void) {
    static leader_entry row;                    // all zero: there is no record yet
    static leader_engine engines[2];
    static leader_t me[2];
    static const char *const names[2] = {"ann", "bob"};
    leader_register store = {&row, row_read, row_write, NULL, NULL, NULL, NULL, "row"};
    for (int i = 0; i < 2; i++) {
        leader_config config;
        memset(&config, 0, sizeof config);
        config.identity = names[i];
        config.backend = leader_register_backend(&engines[i], &store);
        config.lease_ms = 1000;
        if (leader_init(&me[i], &config) != LEADER_OK) {
            printf("%s\n", leader_error(&me[i]));
            return 1;
        }
    }
    for (int i = 0; i < 2; i++) {               // ann leads and hands over, then bob leads
        if (leader_wait(&me[i], 10000) != LEADER_OK) {
            printf("%s does not lead: %s\n", names[i], leader_error(&me[i]));
            return 1;
        }
        printf("%s leads, token %llu\n", names[i], (unsigned long long)leader_token(&me[i]));
        leader_close(&me[i], 1000);
    }
    return 0;
}
