"""A recipe for Conan 2: conan create examples/packages/conan. It packages the tree that it lies in."""
import os
import re

from conan import ConanFile
from conan.tools.files import copy, load

STORES = {"redis": ("hiredis/[>=1.0 <2]", "LEADER_WITH_REDIS"), "k8s": ("libcurl/[>=7.87 <9]", "LEADER_WITH_K8S"),
          "etcd": ("libcurl/[>=7.87 <9]", "LEADER_WITH_ETCD"), "pg": ("libpq/[>=13 <18]", "LEADER_WITH_PG")}


class Leader(ConanFile):
    name = "leader-h"
    description = "Leader election in one C header: a file, Redis, a Kubernetes Lease, etcd, PostgreSQL"
    license = "MIT OR Unlicense"
    package_type = "header-library"
    options = {store: [True, False] for store in STORES}
    default_options = {store: False for store in STORES}
    no_copy_source = True

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "..", "..", "..", "leader.h"))
        self.version = re.search(r'LEADER_VERSION +"(.*)"', header)[1]

    def export_sources(self):
        top = os.path.join(self.recipe_folder, "..", "..", "..")
        for pattern in ("leader.h", "backends/*.h", "LICENSE"):
            copy(self, pattern, top, self.export_sources_folder)

    def requirements(self):
        for package in sorted({package for store, (package, _) in STORES.items() if self.options.get_safe(store)}):
            self.requires(package)

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        copy(self, "*.h", self.source_folder, os.path.join(self.package_folder, "include", "leader"))

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "leader")
        self.cpp_info.set_property("cmake_target_name", "leader::leader")
        self.cpp_info.includedirs = ["include/leader"]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.defines = [definition for store, (_, definition) in STORES.items() if self.options.get_safe(store)]
        if self.settings.get_safe("os") in (None, "Linux"):
            self.cpp_info.system_libs = ["pthread"]
