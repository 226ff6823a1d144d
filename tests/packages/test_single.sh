#!/bin/sh
# make single: one file that is the same to the compiler as the separate ones, for every choice of stores, and from which the examples are built.
#
#   tests/packages/test_single.sh                        the last line is "N passed, N failed"

top=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
passed=0 failed=0
cc=${CC:-cc}

check() {               # check WHAT COMMAND...
    what=$1
    shift
    if "$@" >"$dir/out" 2>&1; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $what: $*"
        tail -n 20 "$dir/out" | sed 's/^/    /'
    fi
}

stores=
for header in "$top"/backends/leader_*.h; do
    name=${header##*/leader_}
    [ "$name" = http.h ] || stores="$stores ${name%.h}"
done
printf '#define LEADER_IMPLEMENTATION\n#include "leader.h"\nint main(void) { return 0; }\n' >"$dir/app.c"

define() { echo "-DLEADER_WITH_$(echo "$1" | tr a-z A-Z)"; }
# assert() names file and line, which is all that may differ: hence NDEBUG.
tokens() { $cc -E -P -DNDEBUG -I"$1" $(pkg-config --cflags libpq 2>/dev/null) $2 "$dir/app.c" >"$3"; }

same() {                # same STORE...: the one file with these stores, alone in a directory, and leader.h with backends/
    mkdir -p "$dir/one"
    (cd "$top" && awk -v stores="$*" -f examples/packages/single.awk leader.h) >"$dir/one/leader.h" || return 1
    flags=
    for store do flags="$flags $(define "$store")"; done
    tokens "$dir/one" "$flags" "$dir/a.i" && tokens "$top" "$flags" "$dir/b.i" && cmp "$dir/a.i" "$dir/b.i"
}

check 'the file store alone' same
for store in $stores; do
    check "with $store" same "$store"
done
check 'with all of them' same $stores

cd "$top" || exit 1
check 'make single' make -s single
check 'make single made what was compared' cmp build/leader_all.h "$dir/one/leader.h"

# ---- the examples, from a directory that has nothing of leader.h but the one file ---------------------------------------------------------
mkdir "$dir/src"
cp -r examples "$dir/src/examples"
cp build/leader_all.h "$dir/src/leader.h"
cd "$dir/src" || exit 1
for example in minimal poll epoll wait threads single_node fencing many custom_backend healthz; do
    check "builds: $example" $cc -std=gnu99 -O1 -I. "examples/$example.c" -o "$dir/$example" -pthread
done
check 'builds: leader-run' $cc -std=gnu99 -O1 -I. examples/leader-run/leader-run.c -o "$dir/leader-run" -pthread
cd "$dir" || exit 1
check 'runs: single_node' sh -c '[ "$(./single_node)" = "single node: leader" ]'
check 'runs: fencing' ./fencing x.lease
check 'runs: leader-run' sh -c '[ "$(./leader-run --file y.lease echo ran)" = ran ]'

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
