/* The settings of the Kubernetes backend, from the program and from a pod's environment: what is accepted
   is an https:// server (http:// on this machine, without a token) and DNS names; a refusal names a field
   and never repeats a token.

   The input: one line for each of the settings below; an empty line leaves it unset. */
#ifndef LEADER_WITH_K8S
#  define LEADER_WITH_K8S
#endif
#include "fuzz.h"

enum {
    SETTING_HOST,
    SETTING_PORT,
    SETTING_NAMESPACE_VARIABLE,
    SETTING_POD,
    SETTING_SERVER,
    SETTING_NAME,
    SETTING_NAMESPACE,
    SETTING_TOKEN,
    SETTING_TOKEN_FILE,
    SETTING_CA,
    SETTING_CERT,
    SETTING_KEY,
    SETTING_TIMES,
    SETTINGS
};
static const char *const settings_variables[] = {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT",
                                                 "POD_NAMESPACE", "POD_NAME"};

static bool settings_is_name(const char *text, size_t max, bool dots) {
    size_t n = strlen(text);
    if (n == 0 || n > max
        || strspn(text,
                  dots ? "abcdefghijklmnopqrstuvwxyz0123456789-." : "abcdefghijklmnopqrstuvwxyz0123456789-")
               != n)
        return false;
    if (strchr("-.", text[0]) || strchr("-.", text[n - 1])) return false;
    return !strstr(text, "..") && !strstr(text, ".-") && !strstr(text, "-.");
}

/* The settings as the backend would take them; what is wrong with them, or "". */
static void settings_try(char *const *line, const char *token, char *wrong, size_t cap) {
    static leader_k8s store;
    leader_k8s_config where;
    leader_host host = fuzz_host();
    leader_result in_pod = leader_k8s_config_from_env(&where, line[SETTING_NAME]);
    MUST(in_pod == LEADER_OK ? strncmp(where.env_server, "https://", 8) == 0 : !where.env_server[0]);
    MUST(strlen(where.env_server) < sizeof where.env_server
         && strlen(where.env_namespace) < sizeof where.env_namespace && !where.env_kubeconfig[0]);
    where.token_file = line[SETTING_TOKEN_FILE][0] ? line[SETTING_TOKEN_FILE] : NULL;
    where.token = token[0] ? token : NULL;
    if (line[SETTING_SERVER][0]) where.server = line[SETTING_SERVER];
    if (line[SETTING_NAMESPACE][0]) where.lease_namespace = line[SETTING_NAMESPACE];
    if (line[SETTING_CA][0]) where.ca_file = line[SETTING_CA];
    if (line[SETTING_CERT][0]) where.cert_file = line[SETTING_CERT];
    if (line[SETTING_KEY][0]) where.key_file = line[SETTING_KEY];
    where.leader_h_only = strchr(line[SETTING_TIMES], '!') != NULL;
    leader_backend backend = leader_k8s_backend(&store, &where);
    MUST(backend.self == &store.engine);
    store.host = host;
    fuzz_config.lease_ms = strtol(line[SETTING_TIMES], NULL, 10) % 1000000;
    if (fuzz_config.lease_ms < 30) fuzz_config.lease_ms = 15000;
    fuzz_config.renew_deadline_ms = fuzz_config.lease_ms * 2 / 3;
    const char *problem = leader_k8s_check_(&store);
    snprintf(wrong, cap, "%s", problem ? problem : "");
    if (problem) return;

    const char *server = store.http.server;
    bool https = strncmp(server, "https://", 8) == 0, here = strncmp(server, "http://127.", 11) == 0
                                                             || strncmp(server, "http://[::1]", 12) == 0
                                                             || strncmp(server, "http://localhost", 16) == 0;
    MUST(https || (here && !store.token[0] && !store.token_file[0]));
    MUST(strcspn(server + (https ? 8 : 7), "/") > 0 && !strpbrk(server, "@?#")
         && server[strlen(server) - 1] != '/');
    for (const char *p = server; *p; p++) MUST((unsigned char)*p > ' ' && *p != 0x7f);
    MUST(settings_is_name(store.name, 253, true) && settings_is_name(store.name_space, 63, false));
    MUST(!store.token[0] || !store.token_file[0]);
    MUST(!strpbrk(store.token, " \r\n\t") && strcmp(store.token, token) == 0);
    leader_http_close_(&store.http);
    MUST(where.leader_h_only
         || fuzz_config.renew_deadline_ms + 1000 <= (fuzz_config.lease_ms + 999) / 1000 * 1000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const fields[] = {
        "server:",  "lease_name:", "lease_namespace:", "token:",    "token, token_file:", "token_file:",
        "ca_file:", "cert_file",   "key_file:",        "lease_ms:", "renew_deadline_ms"};
    fuzz_input in = fuzz_open(data, size);
    char *line[SETTINGS], wrong[400], again[400], name[LEADER_IDENTITY_MAX + 1];
    static bool started;
    if (!started)
        MUST(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK && unsetenv("KUBECONFIG") == 0
             && setenv("HOME", "/nonexistent", 1) == 0);
    started = true;
    fuzz_reset();
    for (int i = 0; i < SETTINGS; i++) {
        line[i] = fuzz_line(&in);
        if (i <= SETTING_POD && line[i][0]) MUST(setenv(settings_variables[i], line[i], 1) == 0);
        else if (i <= SETTING_POD) MUST(unsetenv(settings_variables[i]) == 0);
    }
    settings_try(line, line[SETTING_TOKEN], wrong, sizeof wrong);
    if (wrong[0]) {
        bool named = false;
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
            named = named || strncmp(wrong, fields[i], strlen(fields[i])) == 0;
        MUST(named);
    }
    /* Another token of the same kind must make no difference to what is said. */
    for (char *p = line[SETTING_TOKEN]; *p; p++)
        if ((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9'))
            *p = (char)(*p ^ 1) == '`' || (char)(*p ^ 1) == '{' ? 'q' : (char)(*p ^ 1);
    settings_try(line, line[SETTING_TOKEN], again, sizeof again);
    MUST(strcmp(wrong, again) == 0);

    memset(name, 'x', sizeof name);
    MUST(leader_k8s_identity(name, 12) == name && memchr(name, 0, 12) != NULL && name[12] == 'x');
    if (line[SETTING_POD][0]) MUST(strncmp(name, line[SETTING_POD], strlen(name)) == 0);
    for (int i = 0; i < SETTINGS; i++) free(line[i]);
    return 0;
}
