# The Redis backend, on servers that the tests start.
NEEDS := redis
TEST_SUITES += $(call sharded,test_redis,900,6)
TEST_SUITES += $(call sharded,test_redis_attack,900,3)
TEST_SUITES += $(call suite,test_redis_names,60)
ALL_SUITES  += $(call suite,test_redis-tsan,300,$(UNRANDOMIZED),"--filter=threads.*")
ALL_SUITES  += $(call suite,test_redis_faults,300)

# TLS is the adapter's own, over OpenSSL.
$(addprefix $(OUT)/,test_redis test_redis-tsan plain/test_redis test_redis_attack \
    test_redis_names): LIBS += -lhiredis -lssl -lcrypto
