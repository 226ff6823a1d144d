/* What the example programs with a command line share: which store, how long, and one clear line for a mistake.

       --file PATH | --redis URL --name NAME | --k8s [NAMESPACE/]NAME

   Redis and Kubernetes are there when LEADER_WITH_REDIS, LEADER_WITH_K8S are defined. Include leader.h first. */
#ifndef OPTIONS_H_INCLUDED
#define OPTIONS_H_INCLUDED

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is argv[*i] this option? Then *value is what belongs to it, from "--name=value" or from the next argument (NULL: missing). */
static inline bool option_is(char **argv, int *i, const char *name, const char **value) {
    size_t n = strlen(name);
    if (strncmp(argv[*i], name, n) != 0 || (argv[*i][n] != 0 && argv[*i][n] != '=')) return false;
    *value = argv[*i][n] == '=' ? argv[*i] + n + 1 : argv[*i + 1] ? argv[++*i] : NULL;
    return true;
}

/* "15s", "500ms", "2m", "1h": a whole number and its unit. */
static inline bool option_duration(const char *text, int64_t *ms) {
    static const struct { const char *name; int64_t ms; } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    size_t digits = text ? strspn(text, "0123456789") : 0;
    if (digits == 0 || digits > 9) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + digits, units[i].name) != 0) continue;
        *ms = strtoll(text, NULL, 10) * units[i].ms;
        return *ms > 0;
    }
    return false;
}

typedef struct store {
    const char *file, *redis, *name, *k8s;      /* as given; exactly one of file, redis and k8s                           */
    leader_file in_file;
#if defined(LEADER_WITH_REDIS)
    leader_redis          redis_client;
    leader_redis_election in_redis;
#endif
#if defined(LEADER_WITH_K8S)
    leader_k8s_config     pod;
    leader_k8s            in_k8s;
    char                  k8s_namespace[64];
#endif
} store;

/* Takes argv[*i] if it chooses the store. */
static inline bool store_option(store *s, char **argv, int *i, const char **value) {
    const struct { const char *name; const char **to; } options[] = {{"--file", &s->file}, {"--redis", &s->redis}, {"--name", &s->name}, {"--k8s", &s->k8s}};
    for (size_t k = 0; k < sizeof options / sizeof options[0]; k++) {
        if (!option_is(argv, i, options[k].name, value)) continue;
        *options[k].to = *value;
        return true;
    }
    return false;
}

/* What is wrong with the choice, in words for the user; NULL: nothing. */
static inline const char *store_mistake(const store *s) {
    int chosen = (s->file != NULL) + (s->redis != NULL) + (s->k8s != NULL);
    if (chosen == 0) return "which store? give --file PATH, --redis URL --name NAME, or --k8s [NAMESPACE/]NAME";
    if (chosen > 1)  return "--file, --redis and --k8s exclude each other";
    if (s->redis && (!s->name || !s->name[0])) return "--redis needs --name NAME, the name of the election";
    if (s->name && !s->redis) return "--name goes with --redis; a file is named by its path, a Lease by --k8s";
#if !defined(LEADER_WITH_REDIS)
    if (s->redis) return "--redis: this program was built without Redis (LEADER_WITH_REDIS)";
#endif
#if defined(LEADER_WITH_K8S)
    const char *slash = s->k8s ? strchr(s->k8s, '/') : NULL;
    if (slash && (slash == s->k8s || (size_t)(slash - s->k8s) >= sizeof s->k8s_namespace)) return "--k8s: the namespace before the slash has 1 to 63 characters";
#else
    if (s->k8s) return "--k8s: this program was built without Kubernetes (LEADER_WITH_K8S)";
#endif
    return NULL;
}

/* What the election is called: for messages, LEADER_NAME and metrics. */
static inline const char *store_election(const store *s) { return s->file ? s->file : s->redis ? s->name : s->k8s; }

/* The backend of a choice without mistakes. `store` has to outlive the election. */
static inline leader_backend store_backend(store *s) {
#if defined(LEADER_WITH_REDIS)
    if (s->redis) {
        leader_redis_settings how;
        memset(&how, 0, sizeof how);
        how.url = s->redis;
        if (strcmp(s->redis, "env") == 0) leader_redis_from_env(&s->redis_client);     /* a password does not show in ps      */
        else leader_redis_init(&s->redis_client, &how);
        return leader_redis_backend(&s->in_redis, &s->redis_client, s->name);
    }
#endif
#if defined(LEADER_WITH_K8S)
    if (s->k8s) {
        const char *slash = strchr(s->k8s, '/');
        leader_k8s_from_env(&s->pod, slash ? slash + 1 : s->k8s);   /* not in a pod: leader_init says so                       */
        if (slash) {
            memcpy(s->k8s_namespace, s->k8s, (size_t)(slash - s->k8s));
            s->pod.lease_namespace = s->k8s_namespace;
        }
        return leader_k8s_backend(&s->in_k8s, &s->pod);
    }
#endif
    return leader_file_backend(&s->in_file, s->file);
}

/* A name for this process: the pod's, or one made of the host's. */
static inline const char *store_identity(const store *s, char buf[LEADER_IDENTITY_MAX + 1]) {
#if defined(LEADER_WITH_K8S)
    if (s->k8s) return leader_k8s_identity(buf, LEADER_IDENTITY_MAX + 1);
#endif
    (void)s;
    return leader_make_identity(buf, LEADER_IDENTITY_MAX + 1, NULL);
}

#endif /* OPTIONS_H_INCLUDED */
