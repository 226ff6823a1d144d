#!/bin/sh
# A consumer project for each way to take leader.h in: CMake (add_subdirectory, FetchContent, installed), Meson, libleader from C, Python and Rust.
#
#   tests/packages/test_packages.sh         after `make lib`; the last line is "N passed, N failed"

top=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
passed=0 failed=0
cc=${CC:-cc}
version=$(sed -n 's/^#define LEADER_VERSION  *"\(.*\)".*/\1/p' "$top/leader.h")

check() {               # check WHAT COMMAND...
    what=$1
    shift
    if "$@" >"$dir/out" 2>&1; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $what: $*"
        tail -n 20 "$dir/out" | sed 's/^/    /'
    fi
}

cd "$dir" || exit 1
cat >election.c <<'END'
#define LEADER_IMPLEMENTATION
#include "leader.h"
END
cat >app.c <<'END'
#include "leader.h"
#include <stdio.h>
int main(void) {
    static leader_file file;
    static leader_config cfg;
    static leader_t me;
    cfg.identity = "app";
    cfg.backend = leader_file_backend(&file, "app.lease");
    if (leader_init(&me, &cfg) != LEADER_OK) {
        puts(leader_error(&me));
        return 1;
    }
    leader_wait(&me, 60000);
    puts(leader_is_leader(&me) ? "leader " LEADER_VERSION : "not leader");
#if defined(LEADER_WITH_REDIS)
    puts("redis");
#endif
#if defined(LEADER_WITH_K8S)
    puts("k8s");
#endif
#if defined(LEADER_WITH_ETCD)
    puts("etcd");
#endif
#if defined(LEADER_WITH_PG)
    puts("pg");
#endif
#if defined(LEADER_WITH_QUORUM)
    puts("quorum");
#endif
    return leader_close(&me, 1000) != LEADER_OK;
}
END
targets=leader
for header in "$top"/backends/leader_*.h; do
    name=${header##*/leader_}
    [ "$name" = http.h ] || targets="$targets ${name%.h}"
done
says() { [ "$1" = leader ] && echo "leader $version" || echo "$1"; }

# ---- CMake ------------------------------------------------------------------------------------------------------------------------------
consumer() {            # consumer DIRECTORY HOW-IT-COMES: one program for each target
    mkdir "$1"
    { echo 'cmake_minimum_required(VERSION 3.14)'; echo 'project(app C)'; echo "$2"
      for target in $targets; do
          echo "add_executable(app-$target ../election.c ../app.c)"
          echo "target_link_libraries(app-$target leader::$target)"
      done; } >"$1/CMakeLists.txt"
}
components=$(echo "$targets" | sed 's/leader//')
consumer sub "add_subdirectory($top leader)"
consumer fetch "include(FetchContent)
FetchContent_Declare(leader SOURCE_DIR $top)
FetchContent_MakeAvailable(leader)"
consumer found "find_package(leader $version REQUIRED COMPONENTS $components)"
check 'CMake: configures by itself' cmake -S "$top" -B self
check 'CMake: installs' cmake --install self --prefix "$dir/prefix"
check 'CMake: installs the header' cmp "$top/leader.h" prefix/include/leader/leader.h
for way in sub fetch found; do
    check "CMake, $way: configures" cmake -S $way -B "$way/build" -DCMAKE_PREFIX_PATH="$dir/prefix"
    check "CMake, $way: builds" cmake --build "$way/build"
    for target in $targets; do
        check "CMake, $way: leader::$target runs" sh -c "'$way/build/app-$target' | grep -qx '$(says "$target")'"
    done
done
check 'CMake: the same files as make install' sh -c "make -s -C '$top' install DESTDIR='$dir/made' PREFIX= && cd '$dir/prefix' && find . -type f | sort >'$dir/ours' \
    && cd '$dir/made' && find . -type f | grep -v -e bin/ -e share/man/ -e completion -e site-functions | sort | diff '$dir/ours' -"

# ---- Meson ------------------------------------------------------------------------------------------------------------------------------
mkdir -p meson/subprojects/leader
cp -r "$top/leader.h" "$top/backends" "$top/meson.build" meson/subprojects/leader/
cp election.c app.c meson/
{ echo "project('app', 'c')"
  for target in $targets; do
      [ "$target" = leader ] && name=leader variable=leader_dep || name=leader-$target variable=leader_${target}_dep
      echo "executable('app-$target', 'election.c', 'app.c', dependencies: dependency('$name', fallback: ['leader', '$variable']))"
  done; } >meson/meson.build
check 'Meson: configures' meson setup meson meson/build
check 'Meson: builds' ninja -C meson/build
for target in $targets; do
    check "Meson: leader-$target runs" sh -c "'meson/build/app-$target' | grep -qx '$(says "$target")'"
done
check 'Meson: the version is that of leader.h' grep -q "version: '$version'" "$top/meson.build"

# ---- the library ------------------------------------------------------------------------------------------------------------------------
lib=$top/build/lib
cat >uses.c <<'END'
#include "examples/packages/lib/leader_lib.h"
#include <stdio.h>
#include <string.h>
static int started;
static void on_started(void *user, uint64_t token) { *(int *)user += token > 0; }
int main(int argc, char **argv) {
    if (argc < 2) return 9;
    char error[200] = "";
    leader_hooks hooks;
    memset(&hooks, 0, sizeof hooks);
    hooks.size = sizeof hooks;
    hooks.user = &started;
    hooks.on_started_leading = on_started;
    if (leader_open("ftp://x", "a", 0, NULL, error, sizeof error) || !strstr(error, "must start with file:///")) return 1;
    if (leader_open("file:///tmp/x", "", 0, NULL, error, sizeof error) || !strstr(error, "identity is missing")) return 2;
    if (leader_size() != sizeof(leader_t) || leader_config_size() != sizeof(leader_config) || leader_file_size() != sizeof(leader_file)) return 3;
    if (strcmp(leader_version(), LEADER_VERSION) != 0 || strcmp(leader_result_text(LEADER_HELD), leader_strerror(LEADER_HELD)) != 0) return 4;
    leader_t *me = leader_open("", NULL, 0, &hooks, error, sizeof error);
    if (!me || leader_wait(me, 60000) != LEADER_OK || started != 1 || leader_free(me, 1000) != LEADER_OK) return 5;
    leader_t *watcher = leader_open_observer("file:///nonexistent/x", NULL, error, sizeof error);
    if (!watcher || leader_is_leader(watcher) || leader_free(watcher, 0) != LEADER_OK) return 6;
    char three[1000];
    snprintf(three, sizeof three, "file://%s/1.lease file://%s/2.lease file://%s/3.lease", argv[1], argv[1], argv[1]);
    if (leader_open("file:///a file:///b", "a", 0, NULL, error, sizeof error) || !strstr(error, "three, five or seven")) return 7;
    leader_t *majority = leader_open(three, "a", 600, NULL, error, sizeof error);
    if (!majority || leader_wait(majority, 60000) != LEADER_OK || leader_free(majority, 1000) != LEADER_OK) return 8;
    return leader_free(NULL, 0);
}
END
check 'library: shared, from C' sh -c "$cc -I'$top' uses.c -o uses -L'$lib' -lleader && LD_LIBRARY_PATH='$lib' ./uses '$dir'"
check 'library: static, from C' sh -c "$cc -I'$top' uses.c -o uses-static '$lib/libleader.a' -pthread \$(ldd '$lib/libleader.so' | sed -n 's/^[[:space:]]*lib\(hiredis\|curl\|pq\|ssl\|crypto\)\.so.*/-l\1/p') && ./uses-static '$dir'"
check 'library: nothing private is visible' sh -c "! nm -D --defined-only '$lib/libleader.so' | grep -v -e ' A ' -e ' leader_init_@' | grep -e '_@' -e ' [a-km-z]'"
for name in $(sed -n 's/^LEADER_API[a-z0-9_ ]*[ *]\(leader_[a-z0-9_]*[a-z0-9]\)(.*;.*/\1/p' "$top/leader.h" "$top/examples/packages/lib/leader_lib.h"); do
    nm -D --defined-only "$lib/libleader.so" | grep -q " $name@" || echo "$name"
done >missing
check "library: every public function is visible ($(tr '\n' ' ' <missing))" [ ! -s missing ]
check 'library: the soname has the major version' sh -c "readelf -d '$lib/libleader.so' | grep -q 'soname: \[libleader.so.${version%%.*}\]'"

hands_over() {          # hands_over WHAT COMMAND...: a first one leads for a while, then a second one; arguments are added
    name=$1
    shift
    "$@" "file://$dir/$name.lease" a 2 >first & 
    until grep -q 'leading with token' first || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
    "$@" "file://$dir/$name.lease" b 8 >second || return 1
    wait $! || return 1
    # On a slow machine either of them may have had more than one term.
    before=$(sed -n 's/leading with token //p' first | head -n 1)
    after=$(sed -n 's/leading with token //p' second | tail -n 1)
    [ "${before:-0}" -lt "${after:-0}" ]
}
check 'Python: two processes, one after the other' hands_over python python3 "$top/examples/packages/python/leader.py" "$lib/libleader.so"
check 'Python: a mistake is an exception with its text' sh -c "! python3 '$top/examples/packages/python/leader.py' '$lib/libleader.so' ftp://x a 2>err && grep -q 'must start with file:///' err"
if command -v rustc >/dev/null; then
    check 'Rust: builds' rustc -O -o rust-leader "$top/examples/packages/rust/leader.rs" -L "$lib"
    export LD_LIBRARY_PATH="$lib"
    check 'Rust: two processes, one after the other' hands_over rust ./rust-leader
    check 'Rust: a mistake is an error with its text' sh -c "! ./rust-leader ftp://x a 2>err && grep -q 'must start with file:///' err"
fi

# ---- recipes that cannot be run here ------------------------------------------------------------------------------------------------------
check 'vcpkg: the manifest is JSON, of this version' python3 -c "import json, sys; sys.exit(json.load(open('$top/examples/packages/vcpkg/vcpkg.json'))['version'] != '$version')"
check 'conan: the recipe is Python' python3 -c "import ast; ast.parse(open('$top/examples/packages/conan/conanfile.py').read())"

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
