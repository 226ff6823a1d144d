# The etcd backend on members that the tests start: one and three.
NEEDS := etcd
ALL_NEEDS := chaos
TEST_SUITES += $(call covered,test_etcd,600)
ALL_SUITES += '+chaos_etcd 180 $(MAKE) -s chaos STORE=etcd SECONDS=12 SEED=1'

$(OUT)/test_etcd: LIBS += -lcurl
$(OUT)/chaos-candidate: CPPFLAGS += $(if $(call has_header,curl/curl.h),-DLEADER_WITH_ETCD)
