# The Kubernetes backend, on an API server in Python; make test-k8s with KUBE_URL and so on uses a real one.
NEEDS := k8s
ALL_NEEDS := kubectl
TEST_SUITES += $(call sharded,test_k8s,600,4)
TEST_SUITES += $(call suite,test_http,300)
TEST_SUITES += 'test_k8s_config 300 $(MAKE) -s $(OUT)/test_k8s_config && $(OUT)/test_k8s_config "--filter=kubeconfig.*" && $(OUT)/test_k8s_config "--filter=places.*"'
ALL_SUITES  += 'kubectl_proxy 300 $(MAKE) -s $(OUT)/test_k8s_config && $(OUT)/test_k8s_config "--filter=kubectl.*"'
ALL_SUITES  += $(call suite,test_k8s-tsan,300,$(UNRANDOMIZED),"--filter=threads.*")
ALL_SUITES  += $(call suite,test_k8s_faults,300)
ALL_SUITES  += $(foreach t,$(wildcard tests/k8s/test_k8s_*.py),'$(basename $(notdir $(t))) 300 python3 $(t)')
k8s_LIVE    := 'test_k8s-live 900 $(MAKE) -s $(OUT)/test_k8s && $(OUT)/test_k8s "--filter=live.*"'
$(OUT)/test_http $(OUT)/test_k8s_config: LIBS += -lcurl
