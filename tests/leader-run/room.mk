# The program in examples/leader-run.
NEEDS := python redis k8s etcd
ALL_NEEDS := compilers pg install
leader_run = $(checked) $(OUT)/checked/leader-run && tests/leader-run/$(1) $(OUT)/checked/leader-run
TEST_SUITES += 'leader_run 600 $(call leader_run,test_leader_run.py)'
TEST_SUITES += 'leader_run_uses 300 $(call leader_run,test_jobs_and_services.py)'
ALL_SUITES  += 'leader_run_pg 300 $(call leader_run,test_jobs_and_services.py) --only pg_'
ALL_SUITES  += 'leader_run_zsh 120 $(call leader_run,test_jobs_and_services.py) --only completions'
ALL_SUITES  += 'leader_run_static 600 $(MAKE) -s leader-run-static && tests/leader-run/test_leader_run.py $(OUT)/leader-run-static --only _1 && tests/leader-run/test_jobs_and_services.py $(OUT)/leader-run-static'

$(OUT)/leader-run: $(wildcard examples/leader-run/*.h)

# One file that runs anywhere, also as the only one in an image: musl, file stores, no libraries.
leader-run-static: $(OUT)/leader-run-static
$(OUT)/leader-run-static: examples/leader-run/leader-run.c $(wildcard examples/leader-run/*.h) $(HEADERS) | $(OUT)
	musl-gcc -std=gnu99 -Os -s -static -Wall -Wextra -Werror -DLEADER_WITH_QUORUM -I. $(CPPFLAGS) $< -o $@ $(LDFLAGS)

.PHONY: leader-run-static
