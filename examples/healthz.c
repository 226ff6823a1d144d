/* A service with health endpoints: the election and its HTTP server share one poll loop.

       healthz --store URL | --file PATH | --redis URL --name NAME | --k8s [NAMESPACE/]NAME ...   [--http
       ADDRESS:PORT] [--id NAME] [--lease 15s] [--renew-retries N|none] [--tolerance 2s]
               [--silence 1m]

   /healthz  200 while ticks and renewals are on time or we stand by, 503 when they are late by more than
   the tolerance;
             to a client that accepts application/json it names the role and the leader
   /readyz   leader or standby, who leads, with which token, and how old that knowledge is, as JSON;
             503 when the store has been silent for longer than --silence
   /metrics  what leader_get_stats() counts, for Prometheus */
#define _GNU_SOURCE 1  // ppoll
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "http.h"
#include "options.h"
#include <signal.h>

static leader_t me;
static void on_signal(int number) {
    (void)number;
    leader_stop(&me);
}

/* Became leader, lost, standing by, and what went wrong, each with its time. */
static void on_log(void *user, leader_level level, const char *text) {
    char when[32];
    time_t now = time(NULL);
    struct tm utc;
    (void)user;
    if (level > LEADER_LOG_INFO) {
        return;
    }
    gmtime_r(&now, &utc);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    fprintf(stderr, "%s %s\n", when, text);
}

static void on_new_leader(void *user, const char *identity) {
    char line[LEADER_IDENTITY_MAX + 40];
    printf("leader: %s\n", identity[0] ? identity : "nobody");
    snprintf(line, sizeof line, "standing by, %s leads", identity);
    if (identity[0] && !leader_is_leader(&me)) {
        on_log(user, LEADER_LOG_INFO, line);
    }
}

static int mistake(const char *what, const char *about) {
    fprintf(stderr, "healthz: %s%s%s\n", about, about[0] ? ": " : "", what);
    return 2;
}

int main(int argc, char **argv) {
    static store where;
    static http_server server;
    char name[LEADER_IDENTITY_MAX + 1];
    const char *address = "127.0.0.1:8080";
    const char *identity = NULL;
    const char *value = NULL;
    int64_t lease_ms = 15000;
    int64_t tolerance_ms = 0;
    int64_t silence_ms = 0;
    int renew_retries = 0;

    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        bool good = true;
        if (store_option(&where, argv, &i, &value)) {
        } else if (option_is(argv, &i, "--http", &value)) {
            address = value;
        } else if (option_is(argv, &i, "--id", &value)) {
            identity = value;
        } else if (option_is(argv, &i, "--lease", &value)) {
            good = option_duration(value, &lease_ms);
        } else if (option_is(argv, &i, "--renew-retries", &value)) {
            good = option_retries(value, &renew_retries);
        } else if (option_is(argv, &i, "--tolerance", &value)) {
            good = option_duration(value, &tolerance_ms);
        } else if (option_is(argv, &i, "--silence", &value)) {
            good = option_duration(value, &silence_ms);
        } else {
            return mistake("unknown option", option);
        }
        if (!value) {
            return mistake("a value is missing", option);
        }
        if (!good) {
            return mistake("not a duration such as 15s or 500ms, or not a number of retries", value);
        }
    }
    const char *wrong = store_mistake(&where);
    if (wrong) {
        return mistake(wrong, "");
    }

    leader_config cfg = {0};
    cfg.identity = identity ? identity : store_identity(&where, name);
    cfg.lease_ms = lease_ms;
    cfg.renew_retries = renew_retries;
    cfg.backend = store_backend(&where);
    cfg.on_new_leader = on_new_leader;
    cfg.on_log = on_log;
    if (leader_init(&me, &cfg) != LEADER_OK) {
        return mistake(leader_error(&me), "");
    }
    http_election election = {&me, store_election(&where), cfg.identity,
                              tolerance_ms ? tolerance_ms : lease_ms / 6, silence_ms};
    wrong = http_open(&server, address, http_election_answer, &election);
    if (wrong) {
        return mistake(wrong, address);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);

    sigset_t ends;
    sigset_t during_poll;  // signals come in ppoll alone: none is lost between tick and sleep
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, &during_poll);
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);

    while (!leader_is_stopped(&me)) {
        struct pollfd fds[LEADER_FDS_MAX + HTTP_FDS_MAX];
        int wait_ms = leader_tick(&me);  // the work of a leader goes here: if (leader_is_leader(&me)) ...
        int n = http_leader_fds(&me, fds);
        n += http_fds(&server, fds + n, &wait_ms);
        struct timespec wait = {wait_ms / 1000, wait_ms % 1000 * 1000000L};
        ppoll(fds, (nfds_t)n, &wait, &during_poll);
        http_serve(&server);
    }
    http_close(&server);
    bool released = leader_close(&me, 1000) == LEADER_OK;
    store_free(&where);
    return !released;
}
