#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_DIR: installs into a temporary prefix, then builds and runs a program outside the tree
# against it, once through pkg-config and once through the CMake package.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

step() { echo "install: $1"; }

step "install into a temporary prefix"
cmake --install "$build" --prefix "$tmp/prefix" >/dev/null
step "install under DESTDIR keeps the prefix in tutti.pc"
DESTDIR=$tmp/dest cmake --install "$build" --prefix /opt/tutti >/dev/null
grep -qx 'prefix=/opt/tutti' "$tmp/dest/opt/tutti/lib/pkgconfig/tutti.pc"

mkdir "$tmp/user"
cp "$root"/tests/install/{main.c,CMakeLists.txt} "$tmp/user"
cd "$tmp/user"

step "pkg-config"
export PKG_CONFIG_PATH=$tmp/prefix/lib/pkgconfig
# The flags are words.
# shellcheck disable=SC2046
cc -std=c17 -Wall -Werror main.c -o by_pkgconfig $(pkg-config --cflags --libs tutti)
LD_LIBRARY_PATH=$tmp/prefix/lib ./by_pkgconfig

# In a directory of its own, with the line that README and docs/getting-started.md give.
step "every example compiles with the documented command"
mkdir "$tmp/examples" "$tmp/elsewhere"
for source in "$root"/examples/*.c; do
    # shellcheck disable=SC2046
    cc -std=gnu17 "$source" -o "$tmp/examples/$(basename "$source" .c)" $(pkg-config --cflags --libs tutti) -lm
done
step "examples run in any directory"
cd "$tmp/elsewhere"
export LD_LIBRARY_PATH=$tmp/prefix/lib
"$tmp/examples/00_tensor" >/dev/null
# Above this program there is no source tree: it says what it needs, and takes it.
if "$tmp/examples/02_train_digits" 2>err; then
    echo "install: 02_train_digits found digits though there are none"
    exit 1
fi
grep -qF 'Set EXAMPLES_DATA to the directory of digits.csv.gz' err
EXAMPLES_DATA=$root/examples/data "$tmp/examples/02_train_digits" >out
grep -q accura out
# Those of the build find the data of the source tree.
"$build/examples/09_ddp_digits" >out
grep -q accura out
unset LD_LIBRARY_PATH
cd "$tmp/user"

step "cmake"
cmake -G Ninja -B out -DCMAKE_PREFIX_PATH="$tmp/prefix" >/dev/null
cmake --build out >/dev/null
./out/by_cmake

step "shared library name"
[ "$(readlink "$tmp/prefix/lib/libtutti.so")" = libtutti.so.0 ]
if [ -e "$tmp/prefix/bin/tutti" ]; then
    step "the command finds its library"
    "$tmp/prefix/bin/tutti" --version
fi
