#!/bin/sh
# make install into a directory of its own, programs that find it with pkg-config and with CMake, and make uninstall.
#
#   tests/compile/test_install.sh                        the last line is "N passed, N failed"

top=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
passed=0 failed=0
root="$dir/a root"                              # DESTDIR may hold a space; PREFIX is what programs are told
prefix="$root/opt/leader"

check() {               # check WHAT COMMAND...
    what=$1
    shift
    if "$@" >"$dir/out" 2>&1; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $what: $*"
        sed 's/^/    /' "$dir/out"
    fi
}

in_top() { make -s -C "$top" "$@" DESTDIR="$root" PREFIX=/opt/leader; }
version=$(sed -n 's/^#define LEADER_VERSION  *"\(.*\)".*/\1/p' "$top/leader.h")

check 'make install' in_top install
for file in include/leader/leader.h bin/leader-run share/man/man1/leader-run.1 share/man/man3/leader.3 share/pkgconfig/leader.pc share/bash-completion/completions/leader-run share/zsh/site-functions/_leader-run share/cmake/leader/leader-config.cmake; do
    check "installed: $file" test -s "$prefix/$file"
done
for file in "$top"/backends/*.h; do
    [ -e "$file" ] && check "installed: ${file##*/}" cmp "$file" "$prefix/include/leader/backends/${file##*/}"
done
check 'leader-run can be run' [ "$("$prefix/bin/leader-run" --version)" = "leader-run $version" ]
check 'nothing of it names the directory it was made in' sh -c "! grep -rlF '$top' '$prefix/share' '$prefix/include'"
check 'no @ is left to fill in' sh -c "! grep -rn '@VERSION@' '$prefix'"
shown() { LC_ALL=C.UTF-8 MANWIDTH=150 MANPAGER=cat man -l "$prefix/share/man/$1" | sed 's/.\x08//g'; }
for page in man1/leader-run.1 man3/leader.3; do
    check "$page is clean" sh -c "[ -z \"\$(LC_ALL=C.UTF-8 MANROFFSEQ= man --warnings -E UTF-8 -l -Tutf8 -Z '$prefix/share/man/$page' 2>&1 >/dev/null)\" ]"
done
shown man1/leader-run.1 >"$dir/leader-run.txt"
shown man3/leader.3 >"$dir/leader.txt"
check 'man 1 leader-run says what it is' grep -q 'run a command while this process is leader' "$dir/leader-run.txt"
check 'man 3 leader says what it is' grep -q "leader.h - leader election in one C header" "$dir/leader.txt"
for text in 'HOW DO I STOP THE WORK IN TIME?' 'fprintf(stderr, "%s\n", leader_error(&me));' 'LEADER_E_DUPLICATE' 'int64_t renew_deadline_ms;' "leader.h $version"; do
    check "man 3 leader has: $text" grep -qF -- "$text" "$dir/leader.txt"
done
public=$(sed '/Stop here if you only want the API/q' "$top/leader.h" | sed -n 's/^LEADER_API.*[ *]\(leader_[a-z_0-9]*\)(.*/\1/p')
check 'there are public functions' [ "$(echo "$public" | wc -l)" -gt 30 ]
for function in $public; do
    check "man 3 leader has $function" grep -q "$function(" "$dir/leader.txt"
done

# ---- programs ---------------------------------------------------------------------------------------------------------------------------
cd "$dir" || exit 1
cat >election.c <<'END'
#define LEADER_IMPLEMENTATION
#include "leader.h"
END
cat >app.c <<'END'
#include "leader.h"
#include <stdio.h>
int main(void) {
    leader_file file;
    leader_config cfg = {0};
    leader_t me;
    cfg.identity = "app";
    cfg.backend = leader_file_backend(&file, "app.lease");
    if (leader_init(&me, &cfg) != LEADER_OK) return puts(leader_error(&me)), 1;
    leader_wait(&me, 60000);
    puts(leader_is_leader(&me) ? "leader " LEADER_VERSION : "not leader");
#if defined(LEADER_WITH_REDIS)
    puts("with Redis");
#endif
#if defined(LEADER_WITH_K8S)
    puts("with Kubernetes");
#endif
#if defined(LEADER_WITH_PG)
    puts("with PostgreSQL");
#endif
#if defined(LEADER_WITH_ETCD)
    puts("with etcd");
#endif
#if defined(LEADER_WITH_QUORUM)
    puts("with a quorum");
#endif
    return leader_close(&me, 1000) != LEADER_OK;
}
END
export PKG_CONFIG_PATH="$prefix/share/pkgconfig"
check 'pkg-config: version' [ "$(pkg-config --modversion leader)" = "$version" ]

ways=leader:leader
[ -e "$top/backends/leader_redis.h" ] && ways="$ways leader-redis:redis"
[ -e "$top/backends/leader_k8s.h" ] && ways="$ways leader-k8s:k8s"
[ -e "$top/backends/leader_pg.h" ] && ways="$ways leader-pg:pg"
[ -e "$top/backends/leader_etcd.h" ] && ways="$ways leader-etcd:etcd"
[ -e "$top/backends/leader_quorum.h" ] && ways="$ways leader-quorum:quorum"
for way in $ways; do
    module=${way%:*} target=${way#*:}
    case $target in redis) says='with Redis' ;; k8s) says='with Kubernetes' ;; pg) says='with PostgreSQL' ;; etcd) says='with etcd' ;;
    quorum) says='with a quorum' ;; *) says="leader $version" ;; esac
    check "pkg-config: $module builds" sh -c "eval \"\${CC:-cc} election.c app.c -o app-$target \$(pkg-config --cflags --libs $module)\""
    check "pkg-config: $module runs" sh -c "./app-$target | grep -qx '$says'"
    mkdir "cmake-$target"
    cat >"cmake-$target/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.10)
project(app C)
find_package(leader ${version%.*} REQUIRED $([ "$target" = leader ] || echo "COMPONENTS $target"))
add_executable(app ../election.c ../app.c)
target_link_libraries(app leader::$target)
END
    check "CMake: leader::$target configures" cmake -S "cmake-$target" -B "cmake-$target/build" -DCMAKE_PREFIX_PATH="$prefix"
    check "CMake: leader::$target builds" cmake --build "cmake-$target/build"
    check "CMake: leader::$target runs" sh -c "'cmake-$target/build/app' | grep -qx '$says'"
done

mkdir other
cat >other/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.10)
project(app C)
find_package(leader 99 REQUIRED)
END
check 'CMake: another major version is refused' sh -c "! cmake -S other -B other/build -DCMAKE_PREFIX_PATH='$prefix'"

check 'make uninstall' in_top uninstall
check 'nothing is left' sh -c "[ -z \"\$(find '$root' -type f)\" ] && [ ! -e '$prefix/include/leader' ] && [ ! -e '$prefix/share/cmake/leader' ]"
check 'make uninstall, once more' in_top uninstall

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
