#!/bin/sh
# The Redis backend in every form in which it is used: C99 and C++11, gcc and clang, in one file, in several, static, included directly, strict
# warnings as errors. The last line is "N passed, N failed".

cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
strict='-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror -I.'
passed=0 failed=0

cat >"$dir/main.c" <<'C'
#include "leader.h"
#ifdef DIRECTLY
#include "backends/leader_redis.h"
#endif
#if defined(LEADER_IMPLEMENTATION) && !defined(LEADER_REDIS_IMPLEMENTATION_DONE)
#error "the implementation was asked for and not compiled"
#endif
#include <string.h>
static leader_t me;
static leader_redis redis;
static leader_redis_election election;
int main(void) {
    leader_redis_settings how;
    leader_config cfg;
    memset(&how, 0, sizeof how);
    memset(&cfg, 0, sizeof cfg);
    how.url = "redis://127.0.0.1:1/2";
    leader_redis_from_env(&redis);
    leader_redis_init(&redis, &how);
    leader_redis_timing(&cfg);
    cfg.identity = "builds";
    cfg.backend = leader_redis_backend(&election, &redis, "job");
    if (leader_init(&me, &cfg) != LEADER_OK) return 1;
    leader_tick(&me);
    leader_close(&me, 0);
    return leader_is_leader(&me);
}
C
cat >"$dir/impl.c" <<'C'
#define LEADER_IMPLEMENTATION
#include "leader.h"
C
printf '#include "backends/leader_redis.h"\nint main(void) { return 0; }\n' >"$dir/alone.c"

# form NAME COMMAND...: builds and runs
form() {
    name=$1
    shift
    if "$@" -o "$dir/program" -lhiredis -pthread >"$dir/log" 2>&1 && "$dir/program" >>"$dir/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name: $*"
        cat "$dir/log"
    fi
}

for compiler in 'gcc -std=c99' 'clang -std=c99' 'g++ -x c++ -std=c++11' 'clang++ -x c++ -std=c++11'; do
    form 'one file'  $compiler $strict -O2 -DLEADER_WITH_REDIS -DLEADER_IMPLEMENTATION "$dir/main.c"
    form 'two files' $compiler $strict -O0 -DLEADER_WITH_REDIS "$dir/main.c" "$dir/impl.c"
    form 'static'    $compiler $strict -O1 -DLEADER_WITH_REDIS -DLEADER_STATIC "$dir/main.c"
    form 'directly'  $compiler $strict -O0 -DDIRECTLY -DLEADER_IMPLEMENTATION "$dir/main.c"
done

# Without leader.h before it, one clear word.
if gcc -I. -c "$dir/alone.c" -o "$dir/alone.o" >"$dir/log" 2>&1 || ! grep -q 'include leader.h before' "$dir/log"; then
    failed=$((failed + 1))
    echo 'FAILED: the header alone must be refused with #error'
    cat "$dir/log"
else
    passed=$((passed + 1))
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
