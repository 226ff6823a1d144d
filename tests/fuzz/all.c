/* Feeds every file of tests/fuzz/corpus/<target>/ to its target, with any compiler: the regression test of the fuzzers.

     all CORPUS [TARGET...]

   A file that ends the process is a failure; the rest goes on in another process. The last line is "N passed, N failed". */
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
    {"config", all_config}, {"core", all_core}, {"file_record", all_file_record}, {"k8s_answer", all_k8s_answer}, {"k8s_lease", all_k8s_lease},
    {"k8s_settings", all_k8s_settings}, {"k8s_watch", all_k8s_watch}, {"redis_dns", all_redis_dns}, {"redis_reply", all_redis_reply}, {"redis_settings", all_redis_settings},
    {"redis_stream", all_redis_stream}};
enum { ALL_TARGETS = sizeof all_targets / sizeof all_targets[0], ALL_FILE_LIMIT_S = 60 };

static int all_visible(const struct dirent *e) { return e->d_name[0] != '.'; }

static void all_feed(int target, const char *path) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = (uint8_t *)malloc(1 << 20);
    MUST(file && data);
    size_t size = fread(data, 1, 1 << 20, file);
    fclose(file);
    data = (uint8_t *)realloc(data, size ? size : 1);           /* the sanitizer sees a read beyond its end                   */
    alarm(ALL_FILE_LIMIT_S);
    (void)all_targets[target].run(data, size);
    alarm(0);
    free(data);
}

/* The files of one target, in as many processes as it takes; answers how many failed. */
static int all_files(int target, const char *dir, struct dirent **files, int count) {
    int *at = (int *)mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), failed = 0, status = 0;
    char path[1024];
    MUST(at != MAP_FAILED);
    for (*at = 0; *at < count;) {
        fflush(stdout);
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            for (; *at < count; ++*at) {
                snprintf(path, sizeof path, "%s/%s", dir, files[*at]->d_name);
                all_feed(target, path);
            }
            exit(0);                                            /* here the sanitizer looks for what was not freed            */
        }
        MUST(waitpid(child, &status, 0) == child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
        failed++;
        if (*at < count) printf("FAIL  %s/%s\n", dir, files[*at]->d_name);
        else printf("FAIL  %s: memory was not freed\n", dir);
        ++*at;
    }
    (void)munmap(at, sizeof *at);
    return failed;
}

int main(int argc, char **argv) {
    int passed = 0, failed = 0;
    if (argc < 2) return fprintf(stderr, "usage: %s CORPUS [TARGET...]\n", argv[0]), 2;
    for (int target = 0; target < ALL_TARGETS; target++) {
        char dir[700];
        struct dirent **files = NULL;
        bool wanted = argc == 2;
        for (int i = 2; i < argc; i++) wanted = wanted || strcmp(argv[i], all_targets[target].name) == 0;
        if (!wanted) continue;
        snprintf(dir, sizeof dir, "%s/%s", argv[1], all_targets[target].name);
        int count = scandir(dir, &files, all_visible, alphasort), bad = count > 0 ? all_files(target, dir, files, count) : 1;
        printf("%s  %-16s %4d files\n", bad ? "FAIL" : "ok  ", all_targets[target].name, count > 0 ? count : 0);
        passed += (count > 0 ? count : 1) - (bad < count ? bad : count > 0 ? count : 1);
        failed += bad;
        for (int i = 0; i < count; i++) free(files[i]);
        free(files);
    }
    if (argc == 2) {                                            /* a new target belongs into the list above                   */
        struct dirent **dirs = NULL;
        int count = scandir(argv[1], &dirs, all_visible, alphasort);
        if (count != ALL_TARGETS) printf("FAIL  %d directories in %s for %d targets\n", count, argv[1], ALL_TARGETS);
        failed += count != ALL_TARGETS;
        for (int i = 0; i < count; i++) free(dirs[i]);
        free(dirs);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
