# SPDX-License-Identifier: Apache-2.0
"""Builds the package tutti_torch against the PyTorch that is installed.

libtutti is taken from TUTTI_PREFIX (an installed Tutti) if that is set, else built from the source tree
around this folder with CMake, and put into the package.
"""

import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
SUPPORTED = (2, 15)  # the PyTorch release whose c10d headers this was written for


def fail(*lines):
    sys.exit("\n".join(("tutti_torch: " + lines[0],) + tuple("  " + line for line in lines[1:])))


try:
    import torch
except ImportError:
    fail("PyTorch is not installed in this environment, and the package is built against it:",
         "pip install 'torch==2.15.*' setuptools", "pip install --no-build-isolation ./bindings/torch")

version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
if version != SUPPORTED:
    fail(f"PyTorch {torch.__version__} is not supported by this release; expected {SUPPORTED[0]}.{SUPPORTED[1]}.",
         "PyTorch promises no stable interface for process-group backends, so each release needs its own build.")

from setuptools import setup  # noqa: E402
from torch.utils.cpp_extension import BuildExtension, CppExtension  # noqa: E402


def tutti_version():
    header = (TREE / "include/tutti/base.h").read_text()
    part = {line.split()[1]: line.split()[2] for line in header.splitlines()
            if line.startswith("#define TT_VERSION_")}
    return ".".join(part["TT_VERSION_" + name] for name in ("MAJOR", "MINOR", "PATCH"))


def build_library():
    """(include folders, folder of libtutti.so) of the library built from the source tree."""
    build = pathlib.Path(os.environ.get("TUTTI_BUILD", TREE / "build/torch-lib"))
    jobs = os.environ.get("MAX_JOBS", str(os.cpu_count() or 1))
    if shutil.which("cmake") is None:
        fail("cmake is missing, which builds libtutti; or set TUTTI_PREFIX to an installed Tutti")
    subprocess.run(["cmake", "-S", TREE, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DTUTTI_TESTS=OFF"]
                   + (["-G", "Ninja"] if shutil.which("ninja") else []), check=True)
    subprocess.run(["cmake", "--build", build, "--parallel", jobs], check=True)
    return TREE / "include", build


def find_library():
    prefix = os.environ.get("TUTTI_PREFIX")
    if not prefix:
        return build_library()
    prefix = pathlib.Path(prefix)
    if not (prefix / "include/tutti/tutti.h").exists():
        fail(f"TUTTI_PREFIX={prefix} has no include/tutti/tutti.h; expected an installed Tutti")
    for folder in (prefix / "lib", *(prefix / "lib").glob("*-linux-gnu")):
        if list(folder.glob("libtutti.so*")):
            return prefix / "include", folder
    fail(f"TUTTI_PREFIX={prefix} has no lib/libtutti.so")


class Build(BuildExtension):
    """Finds the library when something is built, not when only the name is asked for."""

    def build_extensions(self):
        include, library = find_library()
        for extension in self.extensions:
            extension.include_dirs.append(str(include))
            extension.library_dirs.append(str(library))
        self.copy_library(library)
        super().build_extensions()

    def copy_library(self, folder):
        target = pathlib.Path(self.get_ext_fullpath("tutti_torch._C")).parent
        target.mkdir(parents=True, exist_ok=True)
        real = sorted(folder.glob("libtutti.so*"))[0].resolve()
        soname = subprocess.run(["readelf", "-d", real], check=True, capture_output=True, text=True).stdout
        name = next(line.split("[")[1].rstrip("]") for line in soname.splitlines() if "SONAME" in line)
        shutil.copy2(real, target / name)


setup(
    name="tutti-torch",
    version=tutti_version(),
    description="Tutti's collectives for PyTorch programs on CPUs: init_process_group('tutti')",
    license="Apache-2.0",
    packages=["tutti_torch"],
    package_dir={"": "python"},  # not beside setup.py, where a shell in this folder would import it unbuilt
    python_requires=">=3.10",
    install_requires=[f"torch=={SUPPORTED[0]}.{SUPPORTED[1]}.*"],
    ext_modules=[CppExtension(
        "tutti_torch._C",
        sorted(str(p.relative_to(HERE)) for p in (HERE / "csrc").glob("*.cpp")),
        libraries=["tutti"],
        extra_compile_args=["-O2", "-std=c++20", "-fvisibility=hidden", "-Wall", "-Wextra",
                            "-Wno-unused-parameter", "-g1"],
        extra_link_args=["-Wl,-rpath,$ORIGIN"],
    )],
    cmdclass={"build_ext": Build},
    entry_points={
        "torch.backends": ["tutti_torch = tutti_torch:_autoload"],
        "torch.distributed.backends": ["tutti = tutti_torch:register"],
    },
    zip_safe=False,
)
