/* What the example programs with a command line share: which store, how long, and one clear line for a
   mistake.

       --store URL | --file PATH | --redis URL --name NAME | --sentinels LIST --sentinel-name NAME --name NAME
     | --k8s [NAMESPACE/]NAME | --pg CONNINFO --name NAME | --etcd ENDPOINTS --name NAME

   A URL for --store is file:///PATH, k8s://[NAMESPACE/]NAME, or, each with --name or with #NAME at its
   end, redis://..., rediss://..., unix://..., postgres://...,
   etcd://[USER[:PASSWORD]@]HOST[:PORT][,HOST...], etcds://... (TLS). Three, five or seven times --store: a
   majority of them; --quorum URL,URL,URL says the same. A store is there when its LEADER_WITH_... is
   defined. Include leader.h first. */
#ifndef OPTIONS_H_INCLUDED
#define OPTIONS_H_INCLUDED

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- arguments ----------------------------------------------------------------------------------------- */

/* Is argv[*i] this option? Then *value is what belongs to it, from "--name=value" or from the next
   argument (NULL: missing). */
static inline bool option_is(char **argv, int *i, const char *name, const char **value) {
    size_t n = strlen(name);
    if (strncmp(argv[*i], name, n) != 0) {
        return false;
    }
    char after = argv[*i][n];
    if (after == '=') {
        *value = argv[*i] + n + 1;
        return true;
    }
    if (after != 0) {
        return false;
    }
    *value = argv[*i + 1];
    if (*value) {
        *i += 1;
    }
    return true;
}

/* "15s", "500ms", "2m", "1h", "1d": a whole number and its unit. */
static inline bool option_duration(const char *text, int64_t *ms) {
    static const struct { const char *name; int64_t ms; } units[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000},
    };
    size_t digits = text ? strspn(text, "0123456789") : 0;
    if (digits == 0 || digits > 9) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + digits, units[i].name) == 0) {
            *ms = strtoll(text, NULL, 10) * units[i].ms;
            return *ms > 0;
        }
    }
    return false;
}

/* How often a failed renewal is tried again: 1 to 1000, or "none". Without the option: until the deadline. */
static inline bool option_retries(const char *text, int *retries) {
    size_t digits = text ? strspn(text, "0123456789") : 0;
    if (text && strcmp(text, "none") == 0) {
        *retries = LEADER_NO_RETRIES;
        return true;
    }
    if (digits == 0 || digits > 4 || text[digits] != 0) {
        return false;
    }
    *retries = atoi(text);
    return *retries > 0 && *retries <= 1000;
}

/* ---- the store ----------------------------------------------------------------------------------------- */

enum { STORE_VOTES_MAX = 7 };

typedef struct store {
    const char *urls[STORE_VOTES_MAX + 1];                              // as given
    int         url_count;
    bool        is_majority;                    // by --quorum
    const char *file, *redis, *name, *k8s, *mode;
    const char *sentinels, *sentinel_name, *prefix, *redis_key;
    const char *password_file, *sentinel_password_file;
    const char *tls_ca, *tls_cert, *tls_key, *tls_name;
    const char *kubeconfig, *context, *k8s_server;
    const char *pg, *table;
    const char *etcd, *user;
    bool        events;
    bool        label_pod;
    bool        tls;
    bool        plain_http;
    char        text[1100];                     // parts of the URL
    char        endpoints[1400];                // of etcd
    char        password[256];                  // of etcd
    char        sentinel_password[256];
    struct store *votes;                        // of a majority, one for each URL; NULL: one store
    char        list[2000];                     // of --quorum, cut into its URLs
    leader_file in_file;
    /* Connections shared with other elections, which outlive this one. NULL: its own. */
#if defined(LEADER_WITH_REDIS)
    leader_redis          in_redis;
    leader_redis_client  *redis_client;
    leader_redis_election redis_election;
#endif
#if defined(LEADER_HTTP_H_INCLUDED)
    leader_http_client   *http_client;
#endif
#if defined(LEADER_WITH_PG)
    leader_pg_client     *pg_client;
#endif
#if defined(LEADER_WITH_K8S)
    leader_k8s_config     pod;
    leader_k8s            in_k8s;
    char                  k8s_namespace[64];
#endif
#if defined(LEADER_WITH_PG)
    leader_pg             in_pg;
#endif
#if defined(LEADER_WITH_ETCD)
    leader_etcd           in_etcd;
#endif
#if defined(LEADER_WITH_QUORUM)
    leader_quorum         quorum;
#endif
} store;

static inline bool store_flag(store *s, const char *option) {
    const struct { const char *name; bool *to; } flags[] = {
        {"--tls", &s->tls}, {"--events", &s->events}, {"--label-pod", &s->label_pod},
        {"--plain-http", &s->plain_http},
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (strcmp(option, flags[i].name) == 0) {
            *flags[i].to = true;
            return true;
        }
    }
    return false;
}

static inline bool store_begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static inline const char **store_field_of(store *s, const char *url) {
    const struct { const char *scheme; const char **to; } schemes[] = {
        {"file:///", &s->file}, {"k8s://", &s->k8s},
        {"redis://", &s->redis}, {"rediss://", &s->redis}, {"unix://", &s->redis},
        {"postgres://", &s->pg}, {"postgresql://", &s->pg}, {"etcd://", &s->etcd}, {"etcds://", &s->etcd},
    };
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (store_begins(url, schemes[i].scheme)) {
            return schemes[i].to;
        }
    }
    return NULL;
}

static inline void store_add_url(store *s, const char *url) {
    int last = s->url_count < STORE_VOTES_MAX ? s->url_count : STORE_VOTES_MAX;
    s->urls[last] = url;
    s->url_count++;
}

/* Cuts the list at each comma that a URL follows: other commas are part of one. */
static inline void store_add_list(store *s, const char *list) {
    if (strlen(list) >= sizeof s->list) {
        return;                                 // store_mistake finds that the stores are missing
    }
    strcpy(s->list, list);
    char *url = s->list;
    for (char *comma = strchr(url, ','); comma; comma = strchr(comma + 1, ',')) {
        if (store_field_of(s, comma + 1)) {
            *comma = 0;
            store_add_url(s, url);
            url = comma + 1;
        }
    }
    store_add_url(s, url);
}

/* Takes argv[*i] if it is about the store. */
static inline bool store_option(store *s, char **argv, int *i, const char **value) {
    const struct { const char *name; const char **to; } options[] = {
        {"--file", &s->file},
        {"--redis", &s->redis},
        {"--name", &s->name},
        {"--k8s", &s->k8s},
        {"--mode", &s->mode},
        {"--sentinels", &s->sentinels},
        {"--sentinel-name", &s->sentinel_name},
        {"--sentinel-password-file", &s->sentinel_password_file},
        {"--password-file", &s->password_file},
        {"--prefix", &s->prefix},
        {"--redis-key", &s->redis_key},
        {"--tls-ca", &s->tls_ca},
        {"--tls-cert", &s->tls_cert},
        {"--tls-key", &s->tls_key},
        {"--tls-name", &s->tls_name},
        {"--kubeconfig", &s->kubeconfig},
        {"--context", &s->context},
        {"--k8s-server", &s->k8s_server},
        {"--pg", &s->pg},
        {"--table", &s->table},
        {"--etcd", &s->etcd},
        {"--user", &s->user},
    };
    if (store_flag(s, argv[*i])) {
        *value = "";
        return true;
    }
    if (option_is(argv, i, "--store", value)) {
        store_add_url(s, *value);
        return true;
    }
    if (option_is(argv, i, "--quorum", value)) {
        s->is_majority = true;
        store_add_list(s, *value ? *value : "");
        return true;
    }
    for (size_t k = 0; k < sizeof options / sizeof options[0]; k++) {
        if (option_is(argv, i, options[k].name, value)) {
            *options[k].to = *value;
            return true;
        }
    }
    return false;
}

/* [USER[:PASSWORD]@]HOST[:PORT][,HOST...] as etcd's endpoints, each with this scheme. NULL, or what is
   wrong. */
static inline const char *store_split_etcd(store *s, char *hosts, const char *scheme) {
    char *at = strrchr(hosts, '@');
    size_t len = 0;
    if (at) {
        *at = 0;
        s->user = hosts;
        hosts = at + 1;
    }
    for (char *host = strtok(hosts, ","); host; host = strtok(NULL, ",")) {
        int more = snprintf(s->endpoints + len, sizeof s->endpoints - len, "%s%s%s", len > 0 ? "," : "",
                            scheme, host);
        len += (size_t)more;
        if (len >= sizeof s->endpoints) {
            return "--store: the URL is too long";
        }
    }
    s->etcd = s->endpoints;
    return NULL;
}

/* Takes a URL of --store apart. NULL, or what is wrong with it. */
static inline const char *store_split_url(store *s, const char *url) {
    size_t len = strlen(url);
    const char **field = store_field_of(s, url);
    if (!field) {
        return "--store: the URL must start with file:///, redis://, rediss://, unix://, postgres://, "
               "etcd://, etcds:// or k8s://";
    }
    if (len >= sizeof s->text) {
        return "--store: the URL is too long";
    }
    memcpy(s->text, url, len + 1);
    *field = s->text;
    if (field == &s->file) {
        s->file += strlen("file://");
        return NULL;
    }
    if (field == &s->k8s) {
        s->k8s += strlen("k8s://");
        return NULL;
    }
    char *fragment = strchr(s->text, '#');
    if (fragment) {
        *fragment = 0;
        s->name = fragment + 1;
    }
    if (field == &s->etcd) {
        const char *scheme = store_begins(url, "etcds") ? "https://" : "http://";
        return store_split_etcd(s, strstr(s->text, "://") + 3, scheme);
    }
    return NULL;
}

/* One line of a file, without its end. NULL, or what is wrong. */
static inline const char *store_read_secret(const char *path, char *to, size_t cap) {
    FILE *f = fopen(path, "re");
    if (!f) {
        return "the file cannot be opened";
    }
    size_t len = fread(to, 1, cap - 1, f);
    bool more = fgetc(f) != EOF;
    fclose(f);
    to[len] = 0;
    to[strcspn(to, "\r\n")] = 0;
    if (more) {
        return "the file is longer than a password may be";
    }
    return to[0] ? NULL : "the file holds no password";
}

static inline const char *store_redis_mistake(store *s) {
#if !defined(LEADER_WITH_REDIS)
    (void)s;
    return "--redis: this program was built without Redis (LEADER_WITH_REDIS)";
#else
    bool from_env = s->redis && strcmp(s->redis, "env") == 0;
    bool details =
        s->tls || s->tls_ca || s->tls_cert || s->tls_key || s->tls_name || s->password_file || s->prefix;
    if (s->redis_key && (s->name || s->prefix)) {
        return "--redis-key is the whole key, instead of --name and --prefix";
    }
    const char *named = s->redis_key ? s->redis_key : s->name;
    if (!named || !named[0]) {
        return "--redis needs --name NAME, the name of the election (#NAME behind a URL), or --redis-key KEY";
    }
    if (s->sentinels && !s->sentinel_name) {
        return "--sentinels needs --sentinel-name NAME, what they call the master";
    }
    if (from_env && details) {
        return "--redis env takes its settings from the environment alone: give a URL with the other options";
    }
    if (s->sentinel_password_file
        && store_read_secret(s->sentinel_password_file, s->sentinel_password, sizeof s->sentinel_password)) {
        return "--sentinel-password-file: the file cannot be read, or does not hold one line with a password";
    }
    return NULL;
#endif
}

static inline const char *store_pg_mistake(const store *s) {
#if !defined(LEADER_WITH_PG)
    (void)s;
    return "--pg: this program was built without PostgreSQL (LEADER_WITH_PG)";
#else
    bool named = s->name && s->name[0];
    return named ? NULL : "--pg needs --name NAME, the name of the election (#NAME behind a URL)";
#endif
}

static inline const char *store_etcd_mistake(store *s) {
#if !defined(LEADER_WITH_ETCD)
    (void)s;
    return "--etcd: this program was built without etcd (LEADER_WITH_ETCD)";
#else
    if (!s->name || !s->name[0]) {
        return "--etcd needs --name NAME, the name of the election (#NAME behind a URL)";
    }
    if (s->password_file && store_read_secret(s->password_file, s->password, sizeof s->password)) {
        return "--password-file: the file cannot be read, or does not hold one line with a password";
    }
    return NULL;
#endif
}

static inline const char *store_k8s_mistake(const store *s) {
#if !defined(LEADER_WITH_K8S)
    (void)s;
    return "--k8s: this program was built without Kubernetes (LEADER_WITH_K8S)";
#else
    const char *slash = strchr(s->k8s, '/');
    bool wrong = slash && (slash == s->k8s || (size_t)(slash - s->k8s) >= sizeof s->k8s_namespace);
    return wrong ? "--k8s: the namespace before the slash has 1 to 63 characters" : NULL;
#endif
}

static inline const char *store_file_mistake(const store *s) {
    bool octal =
        !s->mode || (s->mode[0] && strspn(s->mode, "01234567") == strlen(s->mode) && strlen(s->mode) <= 4);
    bool owner_can = !s->mode || (strtol(s->mode, NULL, 8) & 0600) == 0600;
    bool for_all = s->mode && (strtol(s->mode, NULL, 8) & 0002) != 0;
    if (!octal || !owner_can || for_all) {
        return "--mode: an octal mode for files, with 0600 for the owner and nothing to write for everybody, "
               "such as 0600 or 0660";
    }
    return NULL;
}

/* Options that belong to another store than the chosen one. */
static inline const char *store_stray_mistake(const store *s) {
    bool redis = s->redis || s->sentinels;
    bool of_redis = s->tls || s->tls_name || s->sentinel_name || s->redis_key;
    bool of_both = s->tls_ca || s->tls_cert || s->tls_key || s->password_file || s->prefix;
    bool of_k8s = s->kubeconfig || s->context || s->k8s_server || s->events || s->label_pod;
    if (s->mode && !s->file) {
        return "--mode goes with --file";
    }
    if (of_redis && !redis) {
        return "--tls, --tls-name, --redis-key and --sentinel-name go with --redis or --sentinels";
    }
    if (of_both && !redis && !s->etcd) {
        return "--tls-ca, --tls-cert, --tls-key, --password-file and --prefix go with --redis, --sentinels "
               "or --etcd";
    }
    if ((s->user || s->plain_http) && !s->etcd) {
        return "--user and --plain-http go with --etcd";
    }
    if (s->name && (s->file || s->k8s)) {
        return "--name goes with --redis, --pg and --etcd; a file is named by its path, a Lease by --k8s";
    }
    if (s->table && !s->pg) {
        return "--table goes with --pg";
    }
    if (of_k8s && !s->k8s) {
        return "--kubeconfig, --context, --k8s-server, --events and --label-pod go with --k8s";
    }
    return NULL;
}

static inline const char *store_kind_mistake(store *s) {
    if (s->redis || s->sentinels) {
        return store_redis_mistake(s);
    }
    if (s->pg) {
        return store_pg_mistake(s);
    }
    if (s->etcd) {
        return store_etcd_mistake(s);
    }
    return s->k8s ? store_k8s_mistake(s) : store_file_mistake(s);
}

static inline const char *store_votes_mistake(store *s);

/* What is wrong with the choice, in words for the user; NULL: nothing. To be asked once, before the
   backend. */
static inline const char *store_mistake(store *s) {
    int chosen = (s->url_count > 0 || s->is_majority) + (s->file != NULL) + (s->redis != NULL)
                 + (s->k8s != NULL) + (s->sentinels != NULL) + (s->pg != NULL) + (s->etcd != NULL);
    if (chosen == 0) {
        return "which store? give --file PATH, --redis URL --name NAME, --pg CONNINFO --name NAME, "
               "--etcd ENDPOINTS --name NAME, or --k8s [NAMESPACE/]NAME";
    }
    if (chosen > 1) {
        return "--store, --quorum, --file, --redis, --sentinels, --pg, --etcd and --k8s exclude each other";
    }
    if (s->url_count > 1 || s->is_majority) {
        return store_votes_mistake(s);
    }
    if (s->url_count == 1) {
        const char *wrong = store_split_url(s, s->urls[0]);
        if (wrong) {
            return wrong;
        }
    }
    const char *wrong = store_stray_mistake(s);
    return wrong ? wrong : store_kind_mistake(s);
}

/* Options that are not for the store of one URL are not given to it: the others may want them. */
static inline void store_make_vote(store *vote, const store *s, const char *url) {
    bool is_redis = store_begins(url, "redis") || store_begins(url, "unix:");
    bool is_etcd = store_begins(url, "etcd");
    bool is_pg = store_begins(url, "postgres");
    bool is_k8s = store_begins(url, "k8s:");
    vote->urls[0] = url;
    vote->url_count = 1;
    vote->name = is_redis || is_etcd || is_pg ? s->name : NULL;
    vote->mode = store_begins(url, "file:") ? s->mode : NULL;
    vote->table = is_pg ? s->table : NULL;
    if (is_redis || is_etcd) {
        vote->tls_ca = s->tls_ca;
        vote->tls_cert = s->tls_cert;
        vote->tls_key = s->tls_key;
        vote->password_file = s->password_file;
        vote->prefix = s->prefix;
    }
    if (is_redis) {
        vote->tls = s->tls;
        vote->tls_name = s->tls_name;
    }
    if (is_etcd) {
        vote->user = s->user;
        vote->plain_http = s->plain_http;
    }
    if (is_k8s) {
        vote->kubeconfig = s->kubeconfig;
        vote->context = s->context;
        vote->k8s_server = s->k8s_server;
        vote->events = s->events;
    }
}

static inline const char *store_votes_mistake(store *s) {
#if !defined(LEADER_WITH_QUORUM)
    (void)s;
    return "--store: this program was built without majorities (LEADER_WITH_QUORUM)";
#else
    int n = s->url_count;
    bool odd = n == 3 || n == 5 || n == 7;
    if (!odd) {
        return "--store, --quorum: for a majority give three, five or seven URLs";
    }
    if (s->label_pod) {
        return "--label-pod goes with one Lease: of a majority, a Lease is one vote";
    }
    if (!s->votes) {
        s->votes = (store *)calloc((size_t)n, sizeof *s->votes);
    }
    if (!s->votes) {
        return "out of memory";
    }
    for (int i = 0; i < n; i++) {
        store_make_vote(&s->votes[i], s, s->urls[i]);
        const char *wrong = store_mistake(&s->votes[i]);
        if (wrong) {
            return wrong;
        }
    }
    return NULL;
#endif
}

/* Gives the memory back, after leader_close. */
static inline void store_free(store *s) {
    free(s->votes);
    s->votes = NULL;
}

/* What the election is called: for messages, LEADER_NAME and metrics. */
static inline const char *store_election(const store *s) {
    if (s->votes) {
        return store_election(&s->votes[0]);
    }
    if (s->file) {
        return s->file;
    }
    if (s->redis_key) {
        return s->redis_key;
    }
    return s->k8s ? s->k8s : s->name;
}

/* ---- the backend --------------------------------------------------------------------------------------- */

#if defined(LEADER_WITH_REDIS)
static inline leader_redis_config store_redis_settings(store *s) {
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.url = s->redis;
    how.prefix = s->prefix;
    how.password_file = s->password_file;
    how.tls = s->tls;
    how.ca_file = s->tls_ca;
    how.cert_file = s->tls_cert;
    how.key_file = s->tls_key;
    how.server_name = s->tls_name;
    if (s->sentinels) {
        how.sentinels = s->sentinels;
        how.sentinel_name = s->sentinel_name;
        how.sentinel_password = s->sentinel_password[0] ? s->sentinel_password : NULL;
    }
    if (s->redis && strcmp(s->redis, "env") == 0) {
        memset(&how, 0, sizeof how);
        // a password does not show in ps; leader_init says what is wrong
        (void)leader_redis_config_from_env(&how);
    }
    how.name = s->name;
    if (s->redis_key) {
        how.key = s->redis_key;
        how.prefix = NULL;                              // of the environment: it goes with a name
    }
    return how;
}

static inline leader_backend store_redis_backend(store *s) {
    if (s->redis_client) {
        return leader_redis_shared_backend(&s->redis_election, s->redis_client, s->name);
    }
    leader_redis_config how = store_redis_settings(s);
    return leader_redis_backend(&s->in_redis, &how);
}
#endif

#if defined(LEADER_WITH_K8S)
/* From the environment of a pod, or from a kubeconfig. What is wrong is what leader_init says. */
static inline leader_backend store_k8s_backend(store *s) {
    const char *slash = strchr(s->k8s, '/');
    const char *name = slash ? slash + 1 : s->k8s;
    bool given = s->kubeconfig || s->k8s_server;
    if (given) {
        memset(&s->pod, 0, sizeof s->pod);
        s->pod.lease_name = name;
        s->pod.server = s->k8s_server;
        s->pod.kubeconfig = s->kubeconfig;
    } else {
        (void)leader_k8s_config_from_env(&s->pod, name);
    }
    s->pod.context = s->context ? s->context : s->pod.context;
    s->pod.events = s->events;
    s->pod.label_pod = s->label_pod;
    s->pod.client = s->http_client;
    if (slash) {
        memcpy(s->k8s_namespace, s->k8s, (size_t)(slash - s->k8s));
        s->pod.lease_namespace = s->k8s_namespace;
    }
    return leader_k8s_backend(&s->in_k8s, &s->pod);
}
#endif

#if defined(LEADER_WITH_PG)
static inline leader_backend store_pg_backend(store *s) {
    leader_pg_config how;
    memset(&how, 0, sizeof how);
    if (strcmp(s->pg, "env") == 0) {
        (void)leader_pg_config_from_env(&how);
    } else {
        how.conninfo = s->pg;
    }
    how.name = s->name;
    how.table = s->table ? s->table : how.table;
    how.client = s->pg_client;
    return leader_pg_backend(&s->in_pg, &how);
}
#endif

#if defined(LEADER_WITH_ETCD)
static inline leader_backend store_etcd_backend(store *s) {
    leader_etcd_config how;
    memset(&how, 0, sizeof how);
    if (strcmp(s->etcd, "env") == 0) {
        (void)leader_etcd_config_from_env(&how);
    } else {
        how.endpoints = s->etcd;
    }
    how.name = s->name;
    how.prefix = s->prefix;
    how.user = s->user ? s->user : how.user;
    how.password = s->password[0] ? s->password : how.password;
    how.ca_file = s->tls_ca ? s->tls_ca : how.ca_file;
    how.cert_file = s->tls_cert ? s->tls_cert : how.cert_file;
    how.key_file = s->tls_key ? s->tls_key : how.key_file;
    how.plain_http = s->plain_http;
    how.client = s->http_client;
    return leader_etcd_backend(&s->in_etcd, &how);
}
#endif

static inline leader_backend store_backend(store *s);

#if defined(LEADER_WITH_QUORUM)
static inline leader_backend store_quorum_backend(store *s) {
    leader_backend votes[STORE_VOTES_MAX];
    for (int i = 0; i < s->url_count; i++) {
        votes[i] = store_backend(&s->votes[i]);
    }
    return leader_quorum_backend(&s->quorum, votes, s->url_count);
}
#endif

/* The backend of a choice without mistakes. `store` has to outlive the election. */
static inline leader_backend store_backend(store *s) {
#if defined(LEADER_WITH_QUORUM)
    if (s->votes) {
        return store_quorum_backend(s);
    }
#endif
#if defined(LEADER_WITH_REDIS)
    if (s->redis || s->sentinels) {
        return store_redis_backend(s);
    }
#endif
#if defined(LEADER_WITH_K8S)
    if (s->k8s) {
        return store_k8s_backend(s);
    }
#endif
#if defined(LEADER_WITH_PG)
    if (s->pg) {
        return store_pg_backend(s);
    }
#endif
#if defined(LEADER_WITH_ETCD)
    if (s->etcd) {
        return store_etcd_backend(s);
    }
#endif
    leader_backend backend = leader_file_backend(&s->in_file, s->file);
    if (s->mode) {
        leader_file_mode(&s->in_file, (int)strtol(s->mode, NULL, 8));
    }
    return backend;
}

/* For programs with one argument for the store: a path, a URL of --store, or three, five or seven of them
   with commas between. A mistake is said, and ends the program. */
static inline leader_backend store_of_argument(store *s, const char *argument) {
    if (store_field_of(s, argument)) {
        store_add_list(s, argument);
    } else {
        s->file = argument;
    }
    const char *wrong = store_mistake(s);
    if (wrong) {
        fprintf(stderr, "%s: %s\n", argument, wrong);
        exit(2);
    }
    return store_backend(s);
}

/* The locks that stand for the life of this process, one for each file store. Answers how many. */
static inline int store_locks(const store *s, int fds[STORE_VOTES_MAX]) {
    int n = 0;
    for (int i = 0; s->votes && i < s->url_count; i++) {
        const store *vote = &s->votes[i];
        int fd = vote->file ? leader_file_lock_fd(&vote->in_file) : -1;
        if (fd >= 0) {
            fds[n] = fd;
            n++;
        }
    }
    if (s->file) {
        fds[n] = leader_file_lock_fd(&s->in_file);
        n += fds[n] >= 0 ? 1 : 0;
    }
    return n;
}

/* A name for this process: the pod's, or one made of the host's. */
static inline const char *store_identity(const store *s, char buf[LEADER_IDENTITY_MAX + 1]) {
#if defined(LEADER_WITH_K8S)
    if (s->k8s) {
        return leader_k8s_identity(buf, LEADER_IDENTITY_MAX + 1);
    }
#endif
    (void)s;
    return leader_make_identity(buf, LEADER_IDENTITY_MAX + 1, NULL);
}

#endif // OPTIONS_H_INCLUDED
