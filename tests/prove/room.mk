# Proofs within bounds: the shipped core and engine explored exhaustively, the file and quorum protocols by Spin.
ALL_NEEDS := prove python
TEST_SUITES += $(call suite,prove,300,,--quick)
ALL_SUITES  += 'prove_all 1800 $(MAKE) -s $(OUT)/prove && $(OUT)/prove'
ALL_SUITES  += 'prove_mutation 1800 tests/prove/mutation'

$(OUT)/prove: CFLAGS = -O2 -g
$(OUT)/prove: tests/prove/prove.c $(HEADERS) Makefile | $(OUT)
	$(CC) $(C_FLAGS) $< -o $@ $(LDFLAGS)
