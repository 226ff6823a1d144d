# A majority of independent stores: the rules one by one, a simulation, real files and real servers.
NEEDS := redis
TEST_SUITES += $(call suite,test_quorum,300)
TEST_SUITES += $(call suite,quorum_sim,600,,--runs 100)
TEST_SUITES += $(call sharded,test_quorum_real,900,5)
ALL_SUITES  += 'quorum_sim_long 900 $(MAKE) -s $(OUT)/quorum_sim && $(OUT)/quorum_sim --runs 1000 --seed 1000'
ALL_SUITES  += 'quorum-mutation 1800 tests/quorum/mutation'

$(OUT)/quorum_sim: tests/quorum/quorum_sim.c $(HEADERS) Makefile | $(OUT)
	$(CC) $(C_FLAGS) $(SANITIZE) $< -o $@ $(LIBS)

$(OUT)/test_quorum_real: LIBS += -lhiredis
