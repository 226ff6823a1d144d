/* libleader: leader.h compiled once, with the stores whose libraries are there. See leader_lib.h. */
#define _GNU_SOURCE 1
#define LEADER_IMPLEMENTATION
#include "leader_lib.h"
#include "../../options.h"

typedef struct leader_opened {      // the election comes first: a leader_t * is a leader_opened *
    leader_t     me;
    store        where;
    leader_hooks hooks;
    char         urls[STORE_VOTES_MAX * 1100];
    char         name[LEADER_IDENTITY_MAX + 1];
} leader_opened;

static void leader_opened_started(void *user, uint64_t token) {
    const leader_hooks *hooks = &((const leader_opened *)user)->hooks;
    if (hooks->on_started_leading) {
        hooks->on_started_leading(hooks->user, token);
    }
}

static void leader_opened_stopped(void *user, uint64_t token, leader_result why) {
    const leader_hooks *hooks = &((const leader_opened *)user)->hooks;
    if (hooks->on_stopped_leading) {
        hooks->on_stopped_leading(hooks->user, token, (int)why);
    }
}

static void leader_opened_new_leader(void *user, const char *identity) {
    const leader_hooks *hooks = &((const leader_opened *)user)->hooks;
    if (hooks->on_new_leader) {
        hooks->on_new_leader(hooks->user, identity);
    }
}

static void leader_opened_log(void *user, leader_level level, const char *text) {
    const leader_hooks *hooks = &((const leader_opened *)user)->hooks;
    if (hooks->on_log) {
        hooks->on_log(hooks->user, (int)level, text);
    }
}

static bool leader_opened_healthy(void *user) {
    const leader_hooks *hooks = &((const leader_opened *)user)->hooks;
    return !hooks->is_healthy || hooks->is_healthy(hooks->user);
}

static bool leader_opened_drained(void *user) {
    const leader_hooks *hooks = &((const leader_opened *)user)->hooks;
    return !hooks->is_drained || hooks->is_drained(hooks->user);
}

static leader_t *leader_open_failed(leader_opened *o, const char *why, char *error, size_t error_cap) {
    if (error && error_cap > 0) {
        snprintf(error, error_cap, "%s", why);
    }
    if (o) {
        store_free(&o->where);
    }
    free(o);
    return NULL;
}

/* One URL, or several with spaces between them. NULL, or what is wrong. */
static const char *leader_open_store(leader_opened *o, const char *urls) {
    if (strlen(urls) >= sizeof o->urls) {
        return "the URL is too long";
    }
    memcpy(o->urls, urls, strlen(urls) + 1);
    for (char *url = strtok(o->urls, " "); url; url = strtok(NULL, " ")) {
        int last = o->where.url_count < STORE_VOTES_MAX ? o->where.url_count : STORE_VOTES_MAX;
        o->where.urls[last] = url;
        o->where.url_count++;
    }
    return store_mistake(&o->where);
}

/* The part of the hooks that this caller knows of; the rest stays NULL. */
static void leader_open_hooks(leader_opened *o, const leader_hooks *hooks) {
    if (!hooks) {
        return;
    }
    size_t known = hooks->size < sizeof o->hooks ? hooks->size : sizeof o->hooks;
    memcpy(&o->hooks, hooks, known);
}

static leader_t *leader_open_as(const char *url, const char *identity, int64_t lease_ms, bool observer,
                                const leader_hooks *hooks, char *error, size_t error_cap) {
    leader_config cfg;
    leader_opened *o = (leader_opened *)calloc(1, sizeof *o);
    if (!o) {
        return leader_open_failed(o, "out of memory", error, error_cap);
    }
    memset(&cfg, 0, sizeof cfg);
    leader_open_hooks(o, hooks);
    if (url && url[0]) {
        const char *mistake = leader_open_store(o, url);
        if (mistake) {
            return leader_open_failed(o, mistake, error, error_cap);
        }
        cfg.backend = store_backend(&o->where);
    } else {
        cfg.backend = leader_single_backend();
    }
    cfg.identity = identity ? identity : store_identity(&o->where, o->name);
    cfg.lease_ms = lease_ms;
    cfg.observe_only = observer;
    cfg.on_started_leading = leader_opened_started;
    cfg.on_stopped_leading = leader_opened_stopped;
    cfg.on_new_leader = leader_opened_new_leader;
    cfg.on_log = leader_opened_log;
    cfg.is_healthy = leader_opened_healthy;
    cfg.is_drained = leader_opened_drained;
    cfg.user = o;
    if (leader_init(&o->me, &cfg) != LEADER_OK) {
        return leader_open_failed(o, leader_error(&o->me), error, error_cap);
    }
    return &o->me;
}

LEADER_API leader_t *leader_open(const char *url, const char *identity, int64_t lease_ms,
                                 const leader_hooks *hooks, char *error, size_t error_cap) {
    return leader_open_as(url, identity, lease_ms, false, hooks, error, error_cap);
}

LEADER_API leader_t *leader_open_observer(const char *url, const leader_hooks *hooks, char *error,
                                          size_t error_cap) {
    return leader_open_as(url, NULL, 0, true, hooks, error, error_cap);
}

LEADER_API int leader_free(leader_t *me, int64_t timeout_ms) {
    if (!me) {
        return LEADER_OK;
    }
    leader_result result = leader_close(me, timeout_ms);
    store_free(&((leader_opened *)me)->where);
    free((leader_opened *)me);
    return (int)result;
}

LEADER_API const char *leader_version(void) { return LEADER_VERSION; }
LEADER_API const char *leader_result_text(int result) { return leader_strerror((leader_result)result); }
LEADER_API size_t leader_size(void) { return sizeof(leader_t); }
LEADER_API size_t leader_config_size(void) { return sizeof(leader_config); }
LEADER_API size_t leader_file_size(void) { return sizeof(leader_file); }
