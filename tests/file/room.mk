# The file backend, on a real file system.
ALL_NEEDS := disks
FILE := test_file test_file_stop
TEST_SUITES += $(foreach t,$(FILE),$(call sharded,$(t),600,4))
ALL_SUITES  += $(call covered,test_faults,900)
ALL_SUITES  += 'power 600 tests/file/test_power.py'
