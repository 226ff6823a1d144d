#!/bin/sh
# Tests of tests/tools/run on suites that pass, fail, crash, hang, keep silent or lie: a runner that loses a failure hides it from everybody.
# The last line is "N passed, N failed".

run=$(dirname "$0")/run
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
TEST_LOGS=$dir/logs TEST_PATIENCE=1
export TEST_LOGS TEST_PATIENCE
passed=0 failed=0

# expect WHAT STATUS LAST-LINE SUITE...: the run of these suites ends with that status and that line.
expect() {
    what=$1 want_status=$2 want_last=$3
    shift 3
    "$run" "$@" >"$dir/out" 2>&1
    status=$?
    last=$(tail -n 1 "$dir/out")
    if [ "$status" -eq "$want_status" ] && [ "$last" = "$want_last" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $what: status $status, last line \"$last\"; wanted $want_status, \"$want_last\""
        cat "$dir/out"
    fi
}

# says WHAT TEXT: the output of the last run has it.
says() {
    if grep -qF -- "$2" "$dir/out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1: nowhere in the output: $2"
        cat "$dir/out"
    fi
}

# check WHAT COMMAND...
check() {
    what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $what"
        cat "$dir/out"
    fi
}

good='good 60 echo "[  PASSED  ] 3 tests."'
bad='bad 60 echo "[  PASSED  ] 2 tests."; echo "[  FAILED  ] 1 tests, listed below:"; echo "[  FAILED  ] pond.duck"; exit 1'

expect 'a utest suite that passes'                    0 '3 passed, 0 failed' "$good"
expect 'a utest suite with a failure'                 1 '2 passed, 1 failed' "$bad"
says   'the log of a failed suite is shown'           '| [  FAILED  ] pond.duck'
says   'the failed suites are named at the end'       'failed: bad'
expect 'a plain closing line'                         0 '7 passed, 0 failed' 'plain 60 echo "7 passed, 0 failed"'
expect 'a plain closing line with failures'           1 '5 passed, 2 failed' 'plain 60 echo "5 passed, 2 failed"'
expect 'a closing line overrides the programs within' 0 '9 passed, 0 failed' 'both 60 echo "[  PASSED  ] 3 tests."; echo "9 passed, 0 failed"'
expect 'two programs in one suite add up'             0 '7 passed, 0 failed' 'two 60 echo "[  PASSED  ] 3 tests."; echo "[  PASSED  ] 4 tests."'
expect 'suites add up, a failure stops none of them'  1 '8 passed, 1 failed' "$good" "$bad" "next 60 ${good#* 60 }"
expect 'colours do not hide the count'                0 '3 passed, 0 failed' 'colour 60 printf "\033[32m[  PASSED  ]\033[0m 3 tests.\n"'
expect 'an exit status without a failure'             1 '3 passed, 1 failed' 'status 60 echo "[  PASSED  ] 3 tests."; exit 7'
says   'its status is named'                          'exit status 7'
expect 'a failure that exits with 0'                  1 '0 passed, 4 failed' 'liar 60 echo "[  FAILED  ] 4 tests, listed below:"'
expect 'a crash'                                      1 '0 passed, 1 failed' 'crash 60 kill -SEGV $$'
expect 'a crash after all passed'                     1 '3 passed, 1 failed' 'crash 60 echo "[  PASSED  ] 3 tests."; kill -ABRT $$'
expect 'a silent suite'                               1 '0 passed, 1 failed' 'silent 60 true'
says   'it is said to be silent'                      'reported no count'
expect 'a suite that ran nothing'                     1 '0 passed, 1 failed' 'empty 60 echo "[  PASSED  ] 0 tests."'
expect 'a command that does not exist'                1 '0 passed, 1 failed' 'absent 60 ./no/such/program'
expect 'a hanging suite'                              1 '0 passed, 1 failed' 'hang 1 sleep 1000'
says   'it is said to hang'                           'not over after 1 s'
expect 'one that hangs after its count'               1 '3 passed, 1 failed' 'hang 1 echo "[  PASSED  ] 3 tests."; sleep 1000'
expect 'a hanging suite leaves no process'            1 '0 passed, 1 failed' "orphan 1 sleep 1000 & echo \$! >$dir/pid; wait"
# Gone, or dead and not yet buried: either is soon so.
tries=0
while [ $tries -lt 100 ] && grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$(cat "$dir/pid")/status" 2>/dev/null; do
    sleep 0.1
    tries=$((tries + 1))
done
if [ $tries -lt 100 ]; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo "FAILED: a child of a hanging suite lives on"
    kill "$(cat "$dir/pid")"
fi
expect 'skipped tests are shown'                      0 '3 passed, 0 failed' 'skip 60 echo "[  PASSED  ] 3 tests."; echo "[  SKIPPED ] 2 tests, listed below:"'
says   'with their number'                            '2 skipped'
expect 'a suite reads no terminal'                    0 '1 passed, 0 failed' 'input 60 cat; echo "1 passed, 0 failed"'

# At the same time: each waits for the other to have begun. Alone: it sees the mark of no other.
meet() { echo "$1 60 touch $dir/$1; n=0; until [ -e $dir/$2 ]; do n=\$((n + 1)); [ \$n -lt 600 ] || exit 1; sleep 0.1; done; echo \"1 passed, 0 failed\""; }
alone() { echo "$1 60 touch $dir/busy-${1#+}; sleep 0.3; set -- $dir/busy-*; rm $dir/busy-${1#+}; [ \$# -eq 1 ] && echo \"1 passed, 0 failed\""; }
expect 'two suites run at a time'                     0 '2 passed, 0 failed' "$(meet one other)" "$(meet other one)"
TEST_JOBS=2 expect 'one that begins with + runs alone, and last' 0 '3 passed, 0 failed' "$(alone +last)" "$(meet here there)" "$(meet there here)"
check 'it was the last one'                           sh -c "grep -E '^ok' '$dir/out' | tail -n 1 | grep -q last"
TEST_JOBS=1 expect 'one at a time if wanted'          0 '3 passed, 0 failed' "$(alone first)" "$(alone second)" "$(alone third)"

TEST_JOBS=1 expect 'the longest one starts first'     0 '6 passed, 0 failed' "short ${good#good }" "long 90 ${good#good 60 }"
check 'it comes first'                                sh -c "grep -E '^ok' '$dir/out' | head -n 1 | grep -q long"

# A tests/deps of our own: "here" is installed, "gone" is not.
cat >"$dir/deps" <<'END'
#!/bin/sh
case " $* " in *" gone "*) echo "missing: a-package"; exit 1 ;; esac
END
chmod +x "$dir/deps"
TEST_DEPS=$dir/deps
export TEST_DEPS
expect 'what is needed and there is run'              0 '3 passed, 0 failed' --needs here "$good"
expect 'what is needed and missing is skipped'        0 '3 passed, 0 failed, 1 skipped' --needs here "$good" --needs 'here gone' "$bad"
says   'by name'                                      'skipped: bad'
says   'with what is missing'                         'missing: a-package'
expect 'a failure beside a skipped suite'             1 '2 passed, 1 failed, 1 skipped' "$bad" --needs gone "$good"
expect 'all of it skipped is no success'              1 '0 passed, 0 failed, 2 skipped' --needs gone "$good" "$bad"

expect 'no suite is a mistake in use'                 2 "usage: tests/tools/run [--needs 'GROUP...'] 'NAME SECONDS COMMAND...' ..."

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
