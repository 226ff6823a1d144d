#!/bin/sh
# Core and file tests on a processor of another kind, run by qemu: 32 bits (i386, armhf), big-endian (s390x).
#
#   tests/compile/test_qemu.sh i386|armhf|s390x
cd "$(dirname "$0")/../.." || exit 1
case $1 in
    i386)  qemu=qemu-i386-static  cc=i686-linux-gnu-gcc ;;
    armhf) qemu=qemu-arm-static   cc=arm-linux-gnueabihf-gcc ;;
    s390x) qemu=qemu-s390x-static cc=s390x-linux-gnu-gcc ;;
    *) echo "usage: tests/compile/test_qemu.sh i386|armhf|s390x" >&2; exit 2 ;;
esac
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
flags='-std=gnu99 -O1 -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 -static -pthread -I.'

passed=0 failed=0
for t in core/test_terms core/test_handover core/test_standby core/test_engine core/test_config core/test_speaks file/test_file; do
    source=tests/$t.c t=${t#*/}
    if $cc $flags "$source" -o "$dir/$t"; then
        timeout 600 "$qemu" "$dir/$t" >"$dir/log" 2>&1
        ok=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests.*/\1/p' "$dir/log")
        bad=$(grep -c '^\[  FAILED  \] .*)$' "$dir/log")
    else
        ok= bad=0
    fi
    [ -n "$ok" ] && [ "$ok" -gt 0 ] || bad=$((bad + 1))       # it did not build, did not start, or did not come to its end
    [ "$bad" -eq 0 ] || grep -B 5 '^\[  FAILED  \] .*)$' "$dir/log"
    echo "$t: ${ok:-0} passed, $bad failed"
    passed=$((passed + ${ok:-0})) failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
