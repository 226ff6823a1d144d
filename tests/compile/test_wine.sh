#!/bin/sh
# Cross-built for Windows and run under wine: the tests of the state machine that need no signals, and those of the file
# backend on Windows, which start processes of their own.
cd "$(dirname "$0")/../.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'WINEPREFIX="$dir/prefix" wineserver -k 2>/dev/null; rm -rf "$dir"' EXIT
WINEPREFIX=$dir/prefix WINEDEBUG=-all TMPDIR=$dir          # wineserver leaves a directory there
export WINEPREFIX WINEDEBUG TMPDIR

passed=0 failed=0
for t in core/test_terms core/test_handover core/test_standby file/windows; do
    source=tests/$t.c t=${t#*/}
    if x86_64-w64-mingw32-gcc -std=gnu99 -O1 -I. "$source" -o "$dir/$t.exe"; then
        timeout 300 wine "$dir/$t.exe" 2>&1 | tr -d '\r' >"$dir/log"
        ok=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests.*/\1/p' "$dir/log")
        bad=$(grep -c '^\[  FAILED  \] .*)$' "$dir/log")
    else
        ok= bad=0
    fi
    [ -n "$ok" ] && [ "$ok" -gt 0 ] || bad=$((bad + 1))       # it did not build, did not start, or did not come to its end
    [ "$bad" -eq 0 ] || grep -B 3 '^\[  FAILED  \] .*)$' "$dir/log"
    echo "$t: ${ok:-0} passed, $bad failed"
    passed=$((passed + ${ok:-0})) failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
