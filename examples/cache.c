/* A leader-aware service: the pattern behind a replicated cache. Every copy serves from memory; the leader
   alone does what costs.

       cache NAME DIRECTORY [REFRESH-MS [SLOW-MS]] [--http ADDRESS:PORT] [--store URL | --file PATH |
       --redis URL --name NAME ...]

   DIRECTORY holds "source", the data source (lines "KEY VALUE", dear to read: SLOW-MS for each),
   "snapshot", what the leader saved for the others, "refresh", a request to the leader, and the lease,
   unless a store is named.

   Start     A snapshot that is there is served at once, also while the lease store does not answer. The
   leader loads the snapshot, or else
             the data source, and saves a snapshot. A follower loads the snapshot; it tries ten times more
             while the leader works on it. If it is promoted meanwhile, it goes to the data source itself.
   Schedule  Every REFRESH-MS the leader reads the data source and saves a snapshot. The others take that
   over when they see it.
   Demand    "refresh" on standard input of any copy, or GET /refresh, makes the leader read the data
   source. Also: "get KEY" and
             GET /get/KEY; "quit".

   Reading the data source goes on a line at a time between ticks: work that takes long must not keep the
   lease from being renewed. A snapshot carries the token of the term that wrote it, and never replaces one
   with a greater token. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "http.h"
#include "options.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ENTRIES_MAX = 1000, TRIES_MAX = 10, RETRY_MS = 500, LOOK_MS = 100 };
typedef struct table {
    int count;
    uint64_t token;
    struct {
        char key[64], value[64];
    } entries[ENTRIES_MAX];
} table;

typedef struct cache {
    leader_t me;
    char source[512], snapshot[512], draft[512], request[512];
    http_server http;
    int64_t next_look_ms;
    int64_t refresh_ms, slow_ms;
    table served, incoming;
    bool ready;
    int tries;  // of a follower, to get the snapshot
    int64_t next_try_ms, next_refresh_ms, next_line_ms;
    FILE *reading;       // the data source, while we read it
    uint64_t for_token;  // the term for which we read it; 0: for ourselves alone
} cache;

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* One line "KEY VALUE" more. False: the end, or no more room. */
static bool read_entry(FILE *from, table *to) {
    if (to->count == ENTRIES_MAX) {
        return false;
    }
    if (fscanf(from, "%63s %63s", to->entries[to->count].key, to->entries[to->count].value) != 2) {
        return false;
    }
    to->count++;
    return true;
}

static void serve(cache *c, const char *from) {
    c->served = c->incoming;
    if (!c->ready) {
        printf("ready: ");
    }
    printf("%d entries from the %s\n", c->served.count, from);
    c->ready = true;
    c->next_refresh_ms = now_ms() + c->refresh_ms;
}

static bool load_snapshot(cache *c, table *into) {
    unsigned long long token = 0;
    FILE *f = fopen(c->snapshot, "r");
    into->count = 0;
    bool good = f && fscanf(f, "token %llu", &token) == 1;
    while (good && read_entry(f, into)) {
    }
    into->token = token;
    if (f) {
        fclose(f);
    }
    return good;
}

static bool same(const table *a, const table *b) {
    if (a->token != b->token || a->count != b->count) {
        return false;
    }
    for (int i = 0; i < a->count; i++) {
        if (strcmp(a->entries[i].key, b->entries[i].key) != 0
            || strcmp(a->entries[i].value, b->entries[i].value) != 0) {
            return false;
        }
    }
    return true;
}

/* A follower takes over what the leader saved since. */
static void follow(cache *c) {
    bool newer = load_snapshot(c, &c->incoming) && c->incoming.token >= c->served.token;
    if (newer && !same(&c->incoming, &c->served)) {
        serve(c, "snapshot");
    }
}

/* Leader only. Asks once more just before the one step that others see, and leaves a later leader's
   snapshot alone. */
static void save_snapshot(cache *c) {
    static table other;
    FILE *f = fopen(c->draft, "w");
    bool good = f && fprintf(f, "token %llu\n", (unsigned long long)c->for_token) > 0;
    for (int i = 0; good && i < c->served.count; i++) {
        good = fprintf(f, "%s %s\n", c->served.entries[i].key, c->served.entries[i].value) > 0;
    }
    good = good && fflush(f) == 0 && fsync(fileno(f)) == 0;
    if (f) {
        fclose(f);
    }
    bool stale =
        (load_snapshot(c, &other) && other.token > c->for_token) || leader_token(&c->me) != c->for_token;
    good = good && !stale && rename(c->draft, c->snapshot) == 0;
    if (!good) {
        remove(c->draft);
    }
    puts(good    ? "saved a snapshot"
         : stale ? "no snapshot saved: not leader any more"
                 : "the snapshot could not be saved");
}

static void read_source(cache *c, const char *why) {
    if (c->reading) {
        return;  // under way already
    }
    c->reading = fopen(c->source, "r");
    c->incoming.count = 0;
    c->for_token = leader_token(&c->me);
    c->incoming.token = c->for_token;
    c->next_line_ms = now_ms() + c->slow_ms;
    printf(c->reading ? "reading the data source: %s\n" : "the data source cannot be read: %s\n", why);
}

static void read_source_line(cache *c) {
    if (now_ms() < c->next_line_ms) {
        return;
    }
    c->next_line_ms += c->slow_ms;
    if (read_entry(c->reading, &c->incoming)) {
        return;
    }
    fclose(c->reading);
    c->reading = NULL;
    serve(c, "data source");
    if (c->for_token) {
        save_snapshot(c);
    }
}

/* Any copy may ask; the one that leads when it is seen acts on it. */
static const char *ask_for_refresh(cache *c) {
    if (leader_is_leader(&c->me)) {
        read_source(c, "demand");
        return "reading the data source";
    }
    FILE *f = fopen(c->request, "w");
    if (f) {
        fclose(f);
    }
    return f ? "the leader is asked to refresh" : "the request could not be written";
}

/* Now and then: requests for the leader, news for the others. */
static void look_around(cache *c) {
    if (now_ms() < c->next_look_ms) {
        return;
    }
    c->next_look_ms = now_ms() + LOOK_MS;
    if (!leader_is_leader(&c->me)) {
        follow(c);
    } else if (remove(c->request) == 0) {
        read_source(c, "demand");
    }
}

/* Not ready yet. The role may change at any time: each turn asks again. */
static bool start(cache *c) {
    leader_view v = leader_get_view(&c->me);
    bool alone = v.age_ms < 0;  // no word from the lease store yet
    if (alone && load_snapshot(c, &c->incoming)) {
        const char *why = leader_error(&c->me);
        printf("the lease store has not answered%s%s: serving what there is\n", why[0] ? ": " : "", why);
        serve(c, "snapshot");
    } else if (v.leading) {
        if (load_snapshot(c, &c->incoming)) {
            serve(c, "snapshot");
        } else {
            read_source(c,
                        c->tries ? "promoted while waiting for the snapshot" : "leader without a snapshot");
        }
    } else if (v.leader[0] && now_ms() >= c->next_try_ms) {
        if (load_snapshot(c, &c->incoming)) {
            serve(c, "snapshot");
        } else if (c->tries == TRIES_MAX) {
            return false;
        } else {
            printf("waiting for %s to save a snapshot (%d of %d)\n", v.leader, ++c->tries, TRIES_MAX);
        }
        c->next_try_ms = now_ms() + RETRY_MS;
    }
    return true;
}

static void refresh_on_schedule(cache *c) {
    if (now_ms() < c->next_refresh_ms) {
        return;
    }
    c->next_refresh_ms = now_ms() + c->refresh_ms;
    if (leader_is_leader(&c->me)) {
        read_source(c, "schedule");
    }
}

static const char *lookup(const cache *c, const char *key) {
    for (int i = 0; i < c->served.count; i++) {
        if (strcmp(c->served.entries[i].key, key) == 0) {
            return c->served.entries[i].value;
        }
    }
    return NULL;
}

static void obey(cache *c, char *line) {
    line[strcspn(line, "\n")] = 0;
    if (strcmp(line, "quit") == 0) {
        leader_stop(&c->me);
    } else if (strcmp(line, "refresh") == 0) {
        puts(ask_for_refresh(c));
    } else if (strncmp(line, "get ", 4) == 0) {
        const char *value = lookup(c, line + 4);
        printf("%s = %s\n", line + 4, value ? value : "(nothing)");
    }
}

static int answer(void *user, const char *path, http_body *body) {
    cache *c = (cache *)user;
    if (strcmp(path, "/refresh") == 0) {
        http_print(body, "%s\n", ask_for_refresh(c));
        return 200;
    }
    const char *value = strncmp(path, "/get/", 5) == 0 ? lookup(c, path + 5) : NULL;
    if (!value) {
        return 404;
    }
    http_print(body, "%s\n", value);
    return 200;
}

/* Sleeps until something is to be done: a tick, a line of the source, a command. */
static void wait_and_obey(cache *c, int wait_ms) {
    static char line[256];
    static size_t length = 0;
    leader_fd theirs[LEADER_FDS_MAX];
    struct pollfd fds[1 + LEADER_FDS_MAX + HTTP_FDS_MAX] = {{STDIN_FILENO, POLLIN, 0}};
    int n = leader_fds(&c->me, theirs);
    for (int i = 0; i < n; i++) {
        fds[i + 1].fd = (int)theirs[i].fd;
        fds[i + 1].events = leader_poll_events(theirs[i].events);
    }
    n += http_fds(&c->http, fds + 1 + n, &wait_ms);
    if (c->ready && wait_ms > LOOK_MS) {
        wait_ms = LOOK_MS;
    }
    int64_t next = c->reading ? c->next_line_ms : c->ready ? c->next_refresh_ms : c->next_try_ms;
    int64_t left = next > now_ms() ? next - now_ms() : 1;
    int ready = poll(fds, (nfds_t)n + 1, left < wait_ms ? (int)left : wait_ms);
    http_serve(&c->http);
    if (ready <= 0 || !fds[0].revents) {
        return;
    }
    char byte;  // a byte at a time: poll knows nothing of what stdio has read ahead
    if (read(STDIN_FILENO, &byte, 1) != 1) {
        leader_stop(&c->me);
        return;
    }
    if (length < sizeof line - 1) {
        line[length++] = byte;
    }
    if (byte != '\n') {
        return;
    }
    line[length] = 0;
    length = 0;
    obey(c, line);
}

int main(int argc, char **argv) {
    static cache c;
    static store where;
    leader_config cfg = {0};
    char path[512];
    const char *address = NULL;
    const char *value = NULL;
    int words = 0;
    for (int i = 0; i < argc; i++) {  // the words come to the front
        bool option = strncmp(argv[i], "--", 2) == 0;
        if (!option) {
            argv[words++] = argv[i];
        } else if (!store_option(&where, argv, &i, &value) && !option_is(argv, &i, "--http", &address)) {
            return fprintf(stderr, "cache: unknown option %s\n", argv[i]), 2;
        }
    }
    argc = words;
    if (argc < 3) {
        return fprintf(stderr, "usage: cache NAME DIRECTORY [REFRESH-MS [SLOW-MS]] [--http ADDRESS:PORT] "
                               "[store options]\n"),
               2;
    }
    snprintf(path, sizeof path, "%s/lease", argv[2]);
    snprintf(c.source, sizeof c.source, "%s/source", argv[2]);
    snprintf(c.snapshot, sizeof c.snapshot, "%s/snapshot", argv[2]);
    snprintf(c.request, sizeof c.request, "%s/refresh", argv[2]);
    snprintf(c.draft, sizeof c.draft, "%s/snapshot.%ld", argv[2], (long)getpid());
    c.refresh_ms = argc > 3 ? atoll(argv[3]) : 60000;
    c.slow_ms = argc > 4 ? atoll(argv[4]) : 0;
    if (c.refresh_ms < 1 || c.slow_ms < 0) {
        return fprintf(stderr, "cache: REFRESH-MS is at least 1, SLOW-MS at least 0\n"), 2;
    }
    cfg.identity = argv[1];
    cfg.lease_ms = 3000;
    if (store_mistake(&where) && !value) {
        where.file = path;  // none was named
    }
    const char *wrong = store_mistake(&where);
    if (wrong) {
        return fprintf(stderr, "cache: %s\n", wrong), 2;
    }
    cfg.backend = store_backend(&where);
    c.http.listener = -1;
    wrong = address ? http_open(&c.http, address, answer, &c) : NULL;
    if (wrong) {
        return fprintf(stderr, "cache: %s: %s\n", address, wrong), 2;
    }
    if (leader_init(&c.me, &cfg) != LEADER_OK) {
        return fprintf(stderr, "cache: %s\n", leader_error(&c.me)), 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);

    while (!leader_is_stopped(&c.me)) {
        int wait_ms = leader_tick(&c.me);
        if (c.ready && !c.reading) {
            look_around(&c);
        }
        if (c.reading) {
            read_source_line(&c);
        } else if (c.ready) {
            refresh_on_schedule(&c);
        } else if (!start(&c)) {
            puts("no snapshot came: giving up");
            break;
        }
        wait_and_obey(&c, wait_ms);
    }
    http_close(&c.http);
    leader_close(&c.me, 1000);
    store_free(&where);
    return !c.ready;
}
