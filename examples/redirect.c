/* A service whose followers send their clients to the leader.

       redirect --http 127.0.0.1:8001 --url http://127.0.0.1:8001 --id NAME  --file PATH | --redis URL
       --name NAME | ...

   Each candidate says with its lease where it can be reached (cfg.value). The leader answers; the others
   answer 307 with that place, so that clients find the leader whomever they ask, and find the next one
   after a crash:

       curl --location http://127.0.0.1:8002/ */
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

/* What others wrote goes into a header: no spaces, no line ends. */
static bool is_plain(const char *text) {
    for (const char *c = text; *c; c++) {
        if (*c <= ' ' || *c > '~') {
            return false;
        }
    }
    return text[0] != 0;
}

static int answer(void *user, const char *path, http_body *body) {
    const char *identity = (const char *)user;
    uint64_t token = leader_token(&me);  // 0: not the leader
    if (token) {
        http_print(body, "%s answers, token %llu\n", identity, (unsigned long long)token);
        return 200;
    }
    leader_view seen = leader_get_view(&me);  // name, token and value of one term
    if (!is_plain(seen.value) || !is_plain(path)) {
        http_print(body, "nobody leads\n");
        return 503;
    }
    snprintf(body->location, sizeof body->location, "%s%s", seen.value, path);
    http_print(body, "%s leads\n", seen.leader);
    return 307;
}

static int mistake(const char *what, const char *about) {
    fprintf(stderr, "redirect: %s%s%s\n", about, about[0] ? ": " : "", what);
    return 2;
}

int main(int argc, char **argv) {
    static store where;
    static http_server server;
    char name[LEADER_IDENTITY_MAX + 1];
    const char *address = "127.0.0.1:8080";
    const char *url = "http://127.0.0.1:8080";
    const char *identity = NULL;
    int64_t lease_ms = 15000;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        const char *value = NULL;
        bool good = true;
        if (option_is(argv, &i, "--http", &value)) {
            address = value;
        } else if (option_is(argv, &i, "--url", &value)) {
            url = value;
        } else if (option_is(argv, &i, "--id", &value)) {
            identity = value;
        } else if (option_is(argv, &i, "--lease", &value)) {
            good = option_duration(value, &lease_ms);
        } else {
            good = store_option(&where, argv, &i, &value);
        }
        if (!good || !value) {
            return mistake("unknown, or its value is missing or wrong", option);
        }
    }
    const char *wrong = store_mistake(&where);
    if (wrong) {
        return mistake(wrong, "");
    }
    leader_config cfg = {0};
    cfg.identity = identity ? identity : store_identity(&where, name);
    cfg.value = url;
    cfg.lease_ms = lease_ms;
    cfg.backend = store_backend(&where);
    if (leader_init(&me, &cfg) != LEADER_OK) {
        return mistake(leader_error(&me), "");
    }
    wrong = http_open(&server, address, answer, (void *)cfg.identity);
    if (wrong) {
        return mistake(wrong, address);
    }

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
        int wait_ms = leader_tick(&me);
        int n = http_leader_fds(&me, fds);
        n += http_fds(&server, fds + n, &wait_ms);
        struct timespec wait = {wait_ms / 1000, wait_ms % 1000 * 1000000L};
        ppoll(fds, (nfds_t)n, &wait, &during_poll);
        http_serve(&server);
    }
    http_close(&server);
    leader_result end = leader_close(&me, 1000);
    store_free(&where);
    return end != LEADER_OK;
}
