# The simulator: whole elections in virtual time, and proof that it notices each broken rule.
NEEDS := sim
ALL_NEEDS := python
TEST_SUITES += $(call suite,sim,700,,--runs 96 --seeds tests/sim/seeds)
ALL_SUITES  += 'sim_long 1200 $(MAKE) -s $(OUT)/sim && $(OUT)/sim --runs 12000 --seed 1000000'
ALL_SUITES  += 'mutation 1200 tests/sim/mutation'

# The real hiredis, whose system calls and allocations end in the simulator. Addresses are the same in every run, and so is the run.
$(OUT)/sim-hiredis.a: tests/sim/hiredis.syms | $(OUT)
	objcopy --redefine-syms=$< $(shell $(CC) -print-file-name=libhiredis.a) $@
$(OUT)/sim: $(OUT)/sim-hiredis.a
$(OUT)/sim: LIBS = $(OUT)/sim-hiredis.a -llua5.1 -lm -pthread
$(OUT)/sim: LDFLAGS += -no-pie
$(OUT)/sim: CPPFLAGS += $(PG_FLAGS)
