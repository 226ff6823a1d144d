/* The settings of the Redis backend. What is accepted reads the same when it is written as a URL again; a
   refusal names what is wrong, and another password of the same length makes no difference to what it
   says.

   The input: a URL, a line with sentinels, a line with a host, and then lines such as REDIS_PORT=6379 for
   the environment. */
#ifndef LEADER_WITH_REDIS
#  define LEADER_WITH_REDIS
#endif
#include "fuzz.h"

static const char *const redis_variables[] = {"HOST",
                                              "PORT",
                                              "PREFIX",
                                              "SENTINEL_HOST",
                                              "SENTINEL_PORT",
                                              "SENTINEL_NAME",
                                              "USERNAME",
                                              "PASSWORD",
                                              "PASSWORD_FILE",
                                              "DB",
                                              "URL"};
enum { REDIS_VARIABLES = sizeof redis_variables / sizeof redis_variables[0] };

/* Other letters for letters and other digits for digits, except where they stand for another byte. */
static void redis_disguise(char *at, const char *end) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklm";
    for (; at < end; at++) {
        if (*at == '%' && end - at > 2) at += 2;
        else if (*at >= 'a' && *at <= 'z') *at = letters[*at - 'a' + 13];
        else if (*at >= '0' && *at <= '9') *at = (char)('0' + ('9' - *at));
    }
}

/* Where a URL has its password: from the first colon to the last @ of what comes before the path. */
static bool redis_password_in(char *url, char **at, char **end) {
    char *start = strstr(url, "://"), *stop;
    if (!start) return false;
    start += 3;
    stop = start + strcspn(start, "/?#");
    while (stop > start && stop[-1] != '@') stop--;
    if (stop == start) return false;
    *end = stop - 1;
    *at = (char *)memchr(start, ':', (size_t)(*end - start));
    return *at != NULL && ++*at <= *end;
}

static void redis_encode(char *out, size_t cap, const char *text, const char *plain) {
    size_t n = strlen(out);
    for (; *text && n + 4 < cap; text++)
        n += (size_t)snprintf(out + n, cap - n, strchr(plain, *text) ? "%c" : "%%%02X", (unsigned char)*text);
}

static void redis_same(const leader_redis_client *a, const leader_redis_client *b) {
    MUST(strcmp(a->server.host, b->server.host) == 0 && a->server.port == b->server.port
         && strcmp(a->path, b->path) == 0 && a->db == b->db && a->tls == b->tls);
    MUST(strcmp(a->username, b->username) == 0 && strcmp(a->sentinels, b->sentinels) == 0
         && a->sentinel_count == b->sentinel_count);
}

static void redis_check(const leader_redis_client *r) {
    MUST(r->server.port >= 1 && r->server.port <= 65535 && r->server.host[0] && r->db >= 0 && !r->tls);
    MUST(!r->username[0] || r->password[0] || r->password_file[0]);
    MUST(r->sentinel_count >= 0 && (r->sentinel_count > 0) == (r->sentinels[0] != 0)
         && (!r->sentinel_count || r->sentinel_name[0]));
    for (int i = 0; i < r->sentinel_count; i++) {
        leader_redis_place_ at;
        MUST(leader_redis_read_sentinels_(r, i, &at) == i && at.host[0] && at.port >= 1 && at.port <= 65535
             && !strpbrk(at.host, " /@,"));
    }
}

static void redis_url(char *url) {
    static leader_redis_client r, again;
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    leader_redis_config s;
    char copy[4000] = "", *at, *end;
    memset(&s, 0, sizeof s);
    s.url = url;
    leader_redis_client_init(&r, &s);
    if (r.mistake[0]) {
        MUST(strncmp(r.mistake, "url", 3) == 0 || strncmp(r.mistake, "username", 8) == 0
             || strncmp(r.mistake, "tls", 3) == 0);
        MUST(fuzz_is_utf8(r.mistake, strlen(r.mistake)));
    } else {
        redis_check(&r);
        MUST(!strchr(url, '#') && strncmp(url, r.path[0] ? "unix:///" : "redis://", r.path[0] ? 5 : 8) == 0
             && (!r.path[0] || r.path[0] == '/'));
        snprintf(copy, sizeof copy, r.path[0] ? "unix://" : "redis://");
        redis_encode(copy, sizeof copy, r.username, "");
        if (r.password[0]) strcat(copy, ":");
        redis_encode(copy, sizeof copy, r.password, "");
        if (r.password[0]) strcat(copy, "@");
        bool brackets = strchr(r.server.host, ':') || r.server.host[0] == '[';
        if (r.path[0]) redis_encode(copy, sizeof copy, r.path, plain);
        else
            snprintf(copy + strlen(copy), sizeof copy - strlen(copy), "%s%s%s:%d", brackets ? "[" : "",
                     r.server.host, brackets ? "]" : "", r.server.port);
        snprintf(copy + strlen(copy), sizeof copy - strlen(copy), "?db=%d", r.db);
        s.url = copy;
        leader_redis_client_init(&again, &s);
        MUST(!again.mistake[0]);
        redis_same(&r, &again);
        MUST(strcmp(r.password, again.password) == 0);
    }
    if (!redis_password_in(url, &at, &end)) return;
    redis_disguise(at, end);
    s.url = url;
    leader_redis_client_init(&again, &s);
    MUST(strcmp(r.mistake, again.mistake) == 0);
    if (!r.mistake[0]) redis_same(&r, &again);
}

static void redis_lists(const char *sentinels, const char *host) {
    static leader_redis_client r;
    leader_redis_config s;
    memset(&s, 0, sizeof s);
    if (sentinels[0]) { s.sentinels = sentinels; s.sentinel_name = "mymaster"; }
    else if (host[0]) s.host = host;
    leader_redis_client_init(&r, &s);
    if (r.mistake[0]) MUST(strncmp(r.mistake, sentinels[0] ? "sentinels" : "host", 4) == 0);
    else redis_check(&r);
}

static void redis_from_env(leader_redis_client *client) {
    leader_redis_config config;
    memset(&config, 0, sizeof config);
    leader_result result = leader_redis_config_from_env(&config);
    MUST(result == (config.mistake[0] ? LEADER_E_CONFIG : LEADER_OK));
    leader_redis_client_init(client, &config);
    MUST(!config.mistake[0] || strcmp(client->mistake, config.mistake) == 0);
}

static void redis_environment(fuzz_input *in) {
    static leader_redis_client r, again;
    char name[64], *secret = NULL;
    for (int i = 0; i < REDIS_VARIABLES * 2; i++) {
        snprintf(name, sizeof name, "%s_%s", i % 2 ? "MUTEX_REDIS" : "REDIS", redis_variables[i / 2]);
        MUST(unsetenv(name) == 0);
    }
    while (in->at < in->end) {
        char *line = fuzz_line(in), *equals = strchr(line, '=');
        if (equals && (strncmp(line, "REDIS_", 6) == 0 || strncmp(line, "MUTEX_REDIS_", 12) == 0)) {
            *equals = 0;
            MUST(setenv(line, equals + 1, 1) == 0);
            if (strcmp(line, "REDIS_PASSWORD") == 0) {
                free(secret);
                secret = fuzz_text(equals + 1, strlen(equals + 1));
            }
        }
        free(line);
    }
    redis_from_env(&r);
    const char *own_url = getenv("MUTEX_REDIS_URL"), *own_host = getenv("MUTEX_REDIS_HOST"),
               *prefix = getenv("MUTEX_REDIS_PREFIX");
    if (r.mistake[0]) {
        static const char *const starts[] = {"REDIS_",   "MUTEX_REDIS_", "url",    "host", "sentinel",
                                             "username", "password",     "prefix", "path", "tls"};
        bool named = false;
        for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
            named = named || strncmp(r.mistake, starts[i], strlen(starts[i])) == 0;
        MUST(named);
    } else {
        redis_check(&r);
        if (prefix && prefix[0]) MUST(strcmp(r.prefix, prefix) == 0);
        if ((!own_url || !own_url[0]) && own_host && own_host[0] && !r.sentinel_count)
            MUST(strcmp(r.server.host, own_host) == 0);
    }
    if (!secret) return;
    redis_disguise(secret, secret + strlen(secret));
    MUST(setenv("REDIS_PASSWORD", secret, 1) == 0);
    redis_from_env(&again);
    MUST(strcmp(r.mistake, again.mistake) == 0);
    redis_same(&r, &again);
    free(secret);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = fuzz_open(data, size);
    fuzz_reset();
    char *url = fuzz_line(&in), *sentinels = fuzz_line(&in), *host = fuzz_line(&in);
    redis_url(url);
    redis_lists(sentinels, host);
    redis_environment(&in);
    free(url);
    free(sentinels);
    free(host);
    return 0;
}
