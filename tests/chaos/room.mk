# Alone (+): its bounds are real time.
# Real processes killed, stopped and cut off. Short runs: make chaos has the long ones, and a new seed for each.
ALL_NEEDS := chaos redis k8s etcd
ALL_SUITES  += '+chaos_checker 180 $(MAKE) -s $(OUT)/chaos-candidate && tests/chaos/test_chaos.py'
ALL_SUITES  += '+chaos_proxy 180 tests/chaos/test_proxy.py'
ALL_SUITES  += '+chaos_stores 300 tests/chaos/test_stores.py'
ALL_SUITES  += $(foreach s,file redis redis-sentinel redis-quorum k8s,'+chaos_$(s) 180 $(MAKE) -s chaos STORE=$(s) SECONDS=12 SEED=1')
ALL_SUITES  += '+chaos_file-short-leases 180 $(MAKE) -s chaos SECONDS=12 LEASE=150 SEED=1'
