/* The file store under the kit. Candidates of one process do not share a lock, so nothing ends a lease
   early. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/store/kit.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char        directory[64];
static leader_file files[STORE_SLOTS];

static bool start(void) {
    snprintf(directory, sizeof directory, "/tmp/leader-kit-XXXXXX");
    return mkdtemp(directory) != NULL;
}

static void stop(void) {
    char line[100];
    snprintf(line, sizeof line, "rm -rf '%s'", directory);
    if (system(line) != 0) {
        printf("%s is left behind\n", directory);
    }
}

static const char *path_of(const char *election) {
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", directory, election);
    return path;
}

static leader_backend backend(int slot, const char *election) {
    return leader_file_backend(&files[slot], path_of(election));
}

static void wipe(const char *election) {
    char line[600];
    snprintf(line, sizeof line, "rm -rf '%s.d'; rm -f '%s'", path_of(election), path_of(election));
    if (system(line) != 0) {
        printf("%s cannot be wiped\n", election);
    }
}

/* The record gets a text that cannot be read. Its old text would not do: a text is read once. */
static void corrupt(const char *election) {
    char place[300];
    char from[600];
    char to[900];
    unsigned long long token, nonce;
    snprintf(place, sizeof place, "%s.d", path_of(election));
    snprintf(from, sizeof from, "%s/record", place);
    DIR *records = opendir(from);
    struct dirent *entry = readdir(records);
    while (entry && sscanf(entry->d_name, "%llu.%16llx-", &token, &nonce) != 2) {
        entry = readdir(records);
    }
    if (!entry) {
        printf("%s has no record\n", election);
        abort();
    }
    snprintf(from, sizeof from, "%s/record/%s", place, entry->d_name);
    snprintf(to, sizeof to, "%s/record/%llu.%016llx-ff%s", place, token, nonce,
             strchr(strchr(entry->d_name, '-'), '.'));
    if (rename(from, to) != 0) {
        printf("%s cannot be renamed\n", from);
    }
    closedir(records);
    snprintf(to, sizeof to, "%s/term.%016llx.ff", place, nonce);
    FILE *text = fopen(to, "w");
    fputs("garbage", text);
    fclose(text);
}

static const store_under_test store = {
    "file", STORE_LACKS_NETWORK, NULL,
    start, stop, backend, wipe, corrupt, NULL, 0};
