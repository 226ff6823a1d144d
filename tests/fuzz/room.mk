# Every parser, and the core, with arbitrary input: the corpus here, more with make fuzz.
NEEDS := redis k8s
ALL_NEEDS := python
TEST_SUITES += 'fuzz_corpus 300 $(MAKE) -s $(OUT)/fuzz/all && mkdir -p $(OUT)/fuzz/tmp && TMPDIR=$(OUT)/fuzz/tmp $(OUT)/fuzz/all tests/fuzz/corpus'
ALL_SUITES  += 'fuzz_mutation 1800 tests/fuzz/mutation'
