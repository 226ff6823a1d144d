# The tools of the tests, and their own tests; lint, valgrind and coverage over the rest.
ALL_NEEDS := tools redis k8s pg examples loops compilers
ALL_SUITES  += 'run 300 tests/tools/test_run.sh'
ALL_SUITES  += $(foreach t,test_utest test_patience,$(call suite,$(t),300))
MEMCHECKED  := $(addprefix $(OUT)/plain/,test_terms test_handover test_standby test_loop test_file test_redis test_k8s)
ALL_SUITES  += 'house 60 tests/tools/house'
ALL_SUITES  += 'lint 600 tests/tools/lint'
ALL_SUITES  += '+memcheck 600 $(MAKE) -s $(MEMCHECKED) && tests/tools/memcheck $(OUT)/plain'
ALL_SUITES  += $(if $(COVERAGE),'+coverage 60 tests/tools/coverage $(OUT)/coverage')
