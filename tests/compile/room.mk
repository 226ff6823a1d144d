# Every compiler, language standard and way to include leader.h; what make install leaves; Windows; other processors.
ALL_NEEDS := compilers redis k8s pg etcd install examples loops qemu
ALL_SUITES += 'matrix 900 tests/compile/matrix --all'
ALL_SUITES += $(foreach b,redis k8s,'$(b)_builds 300 tests/compile/test_backend_builds.sh $(b)')
ALL_SUITES += 'install 300 tests/compile/test_install.sh'
ALL_SUITES += 'wine 600 tests/compile/test_wine.sh'
ALL_SUITES += $(foreach m,i386 armhf s390x,'qemu_$(m) 600 tests/compile/test_qemu.sh $(m)')
