/* Feeds every input of tests/fuzz/corpus/<target>.pack to its target, with any compiler: the regression
   test of the fuzzers.

     all CORPUS [TARGET...]

   An input that ends the process is a failure; the rest goes on in another process. The last line is "N
   passed, N failed". */
#define LEADER_WITH_REDIS
#define LEADER_WITH_K8S
#define LLVMFuzzerTestOneInput all_config
#include "config.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput all_core
#include "core.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput all_file_record
#include "file_record.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput all_k8s_answer
#include "k8s_answer.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput all_k8s_kubeconfig
#include "k8s_kubeconfig.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput all_k8s_lease
#include "k8s_lease.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput all_k8s_settings
#include "k8s_settings.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput all_k8s_watch
#include "k8s_watch.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput all_redis_dns
#include "redis_dns.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput all_redis_reply
#include "redis_reply.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput all_redis_settings
#include "redis_settings.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput all_redis_stream
#include "redis_stream.c"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/wait.h>

static const struct { const char *name; int (*run)(const uint8_t *, size_t); } all_targets[] = {
    {"config", all_config},
    {"core", all_core},
    {"file_record", all_file_record},
    {"k8s_answer", all_k8s_answer},
    {"k8s_kubeconfig", all_k8s_kubeconfig},
    {"k8s_lease", all_k8s_lease},
    {"k8s_settings", all_k8s_settings},
    {"k8s_watch", all_k8s_watch},
    {"redis_dns", all_redis_dns},
    {"redis_reply", all_redis_reply},
    {"redis_settings", all_redis_settings},
    {"redis_stream", all_redis_stream}};
enum {
    ALL_TARGETS = sizeof all_targets / sizeof all_targets[0],
    ALL_INPUT_LIMIT_S = 60,
    ALL_INPUTS_MAX = 4096
};

/* One line of a pack: see tests/fuzz/pack. */
typedef struct {
    const char *name;
    const char *text;
} all_input;

typedef struct {
    char *bytes;
    all_input inputs[ALL_INPUTS_MAX];
    int count;
} all_pack;

static char *all_read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        return NULL;
    }
    MUST(fseek(file, 0, SEEK_END) == 0);
    long size = ftell(file);
    MUST(size >= 0 && fseek(file, 0, SEEK_SET) == 0);
    char *bytes = (char *)malloc((size_t)size + 1);
    MUST(bytes);
    MUST(fread(bytes, 1, (size_t)size, file) == (size_t)size);
    bytes[size] = 0;
    fclose(file);
    return bytes;
}

/* Cuts the pack into its lines; a pack that is not there has none. */
static void all_open_pack(all_pack *pack, const char *path) {
    pack->count = 0;
    pack->bytes = all_read_file(path);
    char *line = pack->bytes;
    while (line && *line) {
        char *tab = strchr(line, '\t'), *end = strchr(line, '\n');
        MUST(tab && end && tab < end && pack->count < ALL_INPUTS_MAX);
        *tab = 0;
        *end = 0;
        all_input input = {line, tab + 1};
        pack->inputs[pack->count++] = input;
        line = end + 1;
    }
}

static uint8_t all_escaped(const char **at) {
    static const char letters[] = "ntr\\", values[] = "\n\t\r\\";
    char kind = *(*at)++;
    const char *known = strchr(letters, kind);
    if (known && kind) {
        return (uint8_t)values[known - letters];
    }
    unsigned value = 0;
    MUST(kind == 'x' && sscanf(*at, "%2x", &value) == 1);
    *at += 2;
    return (uint8_t)value;
}

static void all_feed(int target, const char *text) {
    uint8_t *data = (uint8_t *)malloc(strlen(text) + 1);
    MUST(data);
    size_t size = 0;
    while (*text) {
        char c = *text++;
        data[size++] = c == '\\' ? all_escaped(&text) : (uint8_t)c;
    }
    data = (uint8_t *)realloc(data, size ? size : 1);           // the sanitizer sees a read past its end
    MUST(data);
    alarm(ALL_INPUT_LIMIT_S);
    (void)all_targets[target].run(data, size);
    alarm(0);
    free(data);
}

/* The inputs of one target, in as many processes as it takes; answers how many failed. */
static int all_inputs(int target, const char *path, const all_pack *pack) {
    int *at = (int *)mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(at != MAP_FAILED);
    int failed = 0;
    for (*at = 0; *at < pack->count; ++*at) {
        fflush(stdout);
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            for (; *at < pack->count; ++*at) {
                all_feed(target, pack->inputs[*at].text);
            }
            exit(0);  // here the sanitizer looks for what was not freed
        }
        int status = 0;
        MUST(waitpid(child, &status, 0) == child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            break;
        }
        failed++;
        if (*at < pack->count) {
            printf("FAIL  %s: %s\n", path, pack->inputs[*at].name);
        } else {
            printf("FAIL  %s: memory was not freed\n", path);
        }
    }
    (void)munmap(at, sizeof *at);
    return failed;
}

static bool all_wanted(const char *name, char **words, int count) {
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], name) == 0) {
            return true;
        }
    }
    return count == 0;
}

/* Nothing lies in the corpus but one pack for each target: a new target belongs into the list above. */
static bool all_listed(const char *corpus) {
    struct dirent **files = NULL;
    int count = scandir(corpus, &files, NULL, alphasort), known = 0;
    for (int i = 0; i < count; i++) {
        bool hidden = files[i]->d_name[0] == '.';
        bool listed = hidden;
        for (int target = 0; target < ALL_TARGETS; target++) {
            size_t length = strlen(all_targets[target].name);
            bool same = strncmp(files[i]->d_name, all_targets[target].name, length) == 0;
            listed = listed || (same && strcmp(files[i]->d_name + length, ".pack") == 0);
        }
        if (!listed) {
            printf("FAIL  %s/%s is no target's pack: tests/fuzz/pack makes one\n", corpus, files[i]->d_name);
        }
        known += listed;
        free(files[i]);
    }
    free(files);
    return count > 0 && known == count;
}

int main(int argc, char **argv) {
    static all_pack pack;
    if (argc < 2) {
        fprintf(stderr, "usage: %s CORPUS [TARGET...]\n", argv[0]);
        return 2;
    }
    int passed = 0, failed = 0;
    for (int target = 0; target < ALL_TARGETS; target++) {
        const char *name = all_targets[target].name;
        if (!all_wanted(name, argv + 2, argc - 2)) {
            continue;
        }
        char path[700];
        snprintf(path, sizeof path, "%s/%s.pack", argv[1], name);
        all_open_pack(&pack, path);
        int bad = pack.count > 0 ? all_inputs(target, path, &pack) : 1;
        printf("%s  %-16s %4d inputs\n", bad ? "FAIL" : "ok  ", name, pack.count);
        passed += pack.count > bad ? pack.count - bad : 0;
        failed += bad;
        free(pack.bytes);
    }
    if (argc == 2 && !all_listed(argv[1])) {
        failed++;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
