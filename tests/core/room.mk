# The state machine, on a store and a clock of the tests' own; what a program does with threads, fork and malloc.
TEST_SUITES += $(foreach t,$(CORE),$(call covered,$(t),600))
ALL_SUITES  += $(foreach t,$(THREADS),$(call suite,$(t)-tsan,600,$(UNRANDOMIZED)))
TEST_SUITES += $(call suite,test_throw,300)
# Instruction by instruction: without sanitizers there are fewer.
TEST_SUITES += 'test_step 300 $(MAKE) -s $(OUT)/plain/test_step && $(OUT)/plain/test_step'

$(OUT)/test_throw: tests/core/test_throw.cpp $(HEADERS) Makefile | $(OUT)
	$(CXX) $(CXX_FLAGS) $(SANITIZE) $< -o $@ $(LDFLAGS) $(LIBS)
