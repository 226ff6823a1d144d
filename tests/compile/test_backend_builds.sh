#!/bin/sh
# A backend in every form in which it is used: C99 and C++11, gcc and clang, in one file, in several, static, included directly, strict
# warnings as errors. The last line is "N passed, N failed".
#
#   tests/compile/test_backend_builds.sh redis|k8s

case $1 in
    redis) define=LEADER_WITH_REDIS library=-lhiredis ;;
    k8s)   define=LEADER_WITH_K8S library=-lcurl ;;
    *)     echo "usage: $0 redis|k8s" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/../.." || exit 1
main=tests/compile/$1.c
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
strict='-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror -I.'
passed=0 failed=0

cat >"$dir/impl.c" <<'C'
#define LEADER_IMPLEMENTATION
#include "leader.h"
C
printf '#include "backends/leader_%s.h"\nint main(void) { return 0; }\n' "$1" >"$dir/alone.c"

# form NAME COMMAND...: builds and runs
form() {
    name=$1
    shift
    if "$@" -o "$dir/program" $library -pthread >"$dir/log" 2>&1 && "$dir/program" >>"$dir/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name: $*"
        cat "$dir/log"
    fi
}

for compiler in 'gcc -std=c99' 'clang -std=c99' 'g++ -x c++ -std=c++11' 'clang++ -x c++ -std=c++11'; do
    form 'one file'  $compiler $strict -O2 -D$define -DLEADER_IMPLEMENTATION $main
    form 'two files' $compiler $strict -O0 -D$define $main "$dir/impl.c"
    form 'static'    $compiler $strict -O1 -D$define -DLEADER_STATIC $main
    form 'directly'  $compiler $strict -O0 -DDIRECTLY -DLEADER_IMPLEMENTATION $main
done

# Without leader.h before it, one clear word.
if gcc -I. -c "$dir/alone.c" -o "$dir/alone.o" >"$dir/log" 2>&1 || ! grep -q 'include leader.h' "$dir/log"; then
    failed=$((failed + 1))
    echo 'FAILED: the header alone must be refused with #error'
    cat "$dir/log"
else
    passed=$((passed + 1))
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
