/* A kubeconfig, in YAML or JSON: read without harm, refused with a reason, and never half believed. */
#ifndef LEADER_WITH_K8S
#  define LEADER_WITH_K8S
#endif
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static leader_k8s self;
    char *text = fuzz_text(data, size);
    fuzz_reset();
    memset(&self, 0, sizeof self);
    memcpy(self.kubeconfig, "dir/config", 11);
    self.host = fuzz_host();
    bool good = leader_k8s_import_kube_(&self, text, size);
    if (good) {
        MUST(self.name_space[0] && !self.problem[0] && self.context[0]);
        MUST(strlen(self.server) < sizeof self.server && strlen(self.token) < sizeof self.token);
        MUST(!self.token[0] || !self.token_file[0]);
        MUST(self.ca_file[0] == 0 || self.ca_file[0] == '/' || strncmp(self.ca_file, "dir/", 4) == 0);
    } else {
        MUST(strncmp(self.problem, "kubeconfig dir/config: ", 23) == 0 && strlen(self.problem) > 23);
    }
    leader_k8s_free_texts_(&self);
    free(text);
    return 0;
}
