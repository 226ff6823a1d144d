/* The settings of the Kubernetes backend, from the program and from a pod's environment: what is accepted is an https:// server
   and DNS names; a refusal names a field and never repeats a token.

   The input: one line for each of the settings below; an empty line leaves it unset. */
#ifndef LEADER_WITH_K8S
#  define LEADER_WITH_K8S
#endif
#include "fuzz.h"

enum { SETTING_HOST, SETTING_PORT, SETTING_NAMESPACE_VARIABLE, SETTING_POD, SETTING_SERVER, SETTING_NAME, SETTING_NAMESPACE, SETTING_TOKEN, SETTING_TOKEN_FILE,
       SETTING_CA, SETTING_CERT, SETTING_KEY, SETTING_TIMES, SETTINGS };
static const char *const settings_variables[] = {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "POD_NAMESPACE", "POD_NAME"};

static bool settings_is_name(const char *text, size_t max, bool dots) {
    size_t n = strlen(text);
    if (n == 0 || n > max || strspn(text, dots ? "abcdefghijklmnopqrstuvwxyz0123456789-." : "abcdefghijklmnopqrstuvwxyz0123456789-") != n) return false;
    if (strchr("-.", text[0]) || strchr("-.", text[n - 1])) return false;
    return !strstr(text, "..") && !strstr(text, ".-") && !strstr(text, "-.");
}

/* The settings as the backend would take them; what is wrong with them, or "". */
static void settings_try(char *const *line, const char *token, char *wrong, size_t cap) {
    static leader_k8s store;
    leader_k8s_config where;
    leader_host host = fuzz_host();
    leader_result in_pod = leader_k8s_from_env(&where, line[SETTING_NAME]);
    MUST(in_pod == LEADER_OK ? strncmp(where.pod_server_, "https://", 8) == 0 : !where.pod_server_[0]);
    MUST(strlen(where.pod_server_) < sizeof where.pod_server_ && strlen(where.pod_namespace_) < sizeof where.pod_namespace_);
    where.token_file = line[SETTING_TOKEN_FILE][0] ? line[SETTING_TOKEN_FILE] : NULL;
    where.token = token[0] ? token : NULL;
    if (line[SETTING_SERVER][0]) where.server = line[SETTING_SERVER];
    if (line[SETTING_NAMESPACE][0]) where.lease_namespace = line[SETTING_NAMESPACE];
    if (line[SETTING_CA][0]) where.ca_file = line[SETTING_CA];
    if (line[SETTING_CERT][0]) where.cert_file = line[SETTING_CERT];
    if (line[SETTING_KEY][0]) where.key_file = line[SETTING_KEY];
    where.leader_h_only = strchr(line[SETTING_TIMES], '!') != NULL;
    leader_backend backend = leader_k8s_backend(&store, &where);
    MUST(backend.self == &store);
    store.host_ = host;
    fuzz_config.lease_ms = strtol(line[SETTING_TIMES], NULL, 10) % 1000000;
    if (fuzz_config.lease_ms < 30) fuzz_config.lease_ms = 15000;
    fuzz_config.renew_deadline_ms = fuzz_config.lease_ms * 2 / 3;
    const char *problem = leader_k8s_check_(&store);
    snprintf(wrong, cap, "%s", problem ? problem : "");
    if (problem) return;

    char url[1024];
    leader_k8s_url_(&store, url, sizeof url, true);
    MUST(strlen(url) < sizeof url - 1 && strncmp(url, "https://", 8) == 0);
    size_t host_length = strcspn(store.server_ + 8, "/");
    MUST(host_length > 0 && !strpbrk(store.server_, "@?#") && store.server_[strlen(store.server_) - 1] != '/');
    for (const char *p = store.server_; *p; p++) MUST((unsigned char)*p > ' ' && *p != 0x7f);
    MUST(settings_is_name(store.name_, 253, true) && settings_is_name(store.namespace_, 63, false));
    MUST(!store.token_[0] || !store.token_file_[0]);
    MUST(!strpbrk(store.token_, " \r\n\t") && strcmp(store.token_, token) == 0);
    MUST(where.leader_h_only || fuzz_config.renew_deadline_ms + 1000 <= (fuzz_config.lease_ms + 999) / 1000 * 1000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const fields[] = {"server:", "lease_name:", "lease_namespace:", "token:", "token, token_file:", "token_file:", "ca_file:", "cert_file", "key_file:", "lease_ms:",
                                         "renew_deadline_ms"};
    fuzz_input in = fuzz_open(data, size);
    char *line[SETTINGS], wrong[256], again[256], name[LEADER_IDENTITY_MAX + 1];
    fuzz_reset();
    for (int i = 0; i < SETTINGS; i++) {
        line[i] = fuzz_line(&in);
        if (i <= SETTING_POD && line[i][0]) MUST(setenv(settings_variables[i], line[i], 1) == 0);
        else if (i <= SETTING_POD) MUST(unsetenv(settings_variables[i]) == 0);
    }
    settings_try(line, line[SETTING_TOKEN], wrong, sizeof wrong);
    if (wrong[0]) {
        bool named = false;
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) named = named || strncmp(wrong, fields[i], strlen(fields[i])) == 0;
        MUST(named);
    }
    /* Another token of the same kind must make no difference to what is said. */
    for (char *p = line[SETTING_TOKEN]; *p; p++) if ((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9')) *p = (char)(*p ^ 1) == '`' || (char)(*p ^ 1) == '{' ? 'q' : (char)(*p ^ 1);
    settings_try(line, line[SETTING_TOKEN], again, sizeof again);
    MUST(strcmp(wrong, again) == 0);

    memset(name, 'x', sizeof name);
    MUST(leader_k8s_identity(name, 12) == name && memchr(name, 0, 12) != NULL && name[12] == 'x');
    if (line[SETTING_POD][0]) MUST(strncmp(name, line[SETTING_POD], strlen(name)) == 0);
    for (int i = 0; i < SETTINGS; i++) free(line[i]);
    return 0;
}
