#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_DIR: scripts/setup on machines that mislead it. A machine is made of folders of programs, of pkg-config's
# files and of headers that the real ones are seen through; apt-get is a program that writes down what it is asked for.
set -euo pipefail
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cc=$(command -v cc)
modules=$(pkg-config --variable pc_path pkg-config)

fail() {
    cat "$tmp/out" 2>/dev/null || true
    echo "setup: $1"
    exit 1
}

# script NAME TEXT: a program of the machine.
script() {
    printf '#!/bin/sh\n%s\n' "$2" >"$tmp/bin/$1"
    chmod +x "$tmp/bin/$1"
}

# A machine that has all that this one has, whose user is root, and whose apt-get does nothing.
machine() {
    rm -rf "$tmp"/{bin,modules,include,asked}
    mkdir "$tmp"/{bin,modules,include}
    IFS=: read -ra folders <<<"$modules"
    for folder in "${folders[@]}"; do
        [ ! -d "$folder" ] || cp -n "$folder"/*.pc "$tmp/modules" 2>/dev/null || true
    done
    script apt-get "echo \"\$*\" >>'$tmp/asked'"
    script id 'echo 0'
    : >"$tmp/asked"
}
setup() {
    PATH=$tmp/bin:$PATH PKG_CONFIG_LIBDIR=$tmp/modules PKG_CONFIG_PATH='' CPATH=$tmp/include \
        scripts/setup "$@" >"$tmp/out" 2>&1
}
# asks PACKAGES WHAT: set-up wants to install just these packages. apt-get does nothing here, so set-up then says that they lack.
asks() {
    ! setup || fail "$2: set-up is content"
    [ "$(head -n 1 "$tmp/asked")" = "install -y --no-install-recommends $1" ] ||
        fail "$2: asked apt-get for \"$(head -n 1 "$tmp/asked")\" instead of $1"
    grep -q "still not found.*: $1\$" "$tmp/out" || fail "$2: does not say that $1 is still not found"
}

machine
setup || fail "a complete machine is refused"
[ ! -s "$tmp/asked" ] || fail "a complete machine: asked apt-get for $(cat "$tmp/asked")"

# What the build asks pkg-config for lacks, and headers of the same names belong to something else.
machine
packages=
mkdir "$tmp/include/node"
echo 'int uv_version(void);' | tee "$tmp/include/uv.h" >"$tmp/include/node/uv.h"
while read -r module; do
    rm "$tmp/modules/$module.pc"
    package=$(sed -n "s/^\([a-z0-9-]*\)|$module|.*/\1/p" scripts/setup)
    [ -n "$package" ] || fail "scripts/setup has no row for $module of cmake/dependencies.cmake"
    packages+=" $package"
done < <(sed -n 's/^pkg_check_modules(.* IMPORTED_TARGET \([^)]*\)).*/\1/p' cmake/dependencies.cmake)
[[ $packages == *libuv1-dev* ]] || fail "read no libuv in cmake/dependencies.cmake"
asks "${packages# }" "no files of pkg-config"

# Headers that belong to something else, an OpenCL driver without its library, a cmake that is too old.
machine
echo '#define DNNL_H' >"$tmp/include/dnnl.h"
mkdir "$tmp/include/CL" "$tmp/vendors"
echo '#error "of another machine"' >"$tmp/include/CL/cl.h"
echo libnowhere.so.1 >"$tmp/vendors/pocl.icd"
script cmake 'echo "cmake version 3.18.4"'
OCL_ICD_VENDORS=$tmp/vendors asks "cmake libdnnl-dev opencl-c-headers pocl-opencl-icd" "misleading headers"

# Headers whose libraries lack: the compiler does not link them.
machine
script cc "case \" \$* \" in *' -lz '*|*' -ldnnl '*|*openblas-openmp/libopenblas.so*|*' -l:libOpenCL.so.1 '*) exit 1 ;; esac
exec '$cc' \"\$@\""
asks "zlib1g-dev libdnnl-dev libopenblas-openmp-dev ocl-icd-libopencl1" "headers without libraries"

# apt-get brings what lacked: set-up is content. The lists of packages are fetched only when they are too old.
machine
mv "$tmp/modules/libuv.pc" "$tmp/libuv.pc"
script apt-get "echo \"\$1\" >>'$tmp/asked'
    [ \"\$1\" = install ] || touch '$tmp/lists'
    [ -e '$tmp/lists' ] || exit 100
    mv '$tmp/libuv.pc' '$tmp/modules' 2>/dev/null || true"
setup || fail "set-up fails though apt-get brought what lacked"
[ "$(tr '\n' ' ' <"$tmp/asked")" = 'install update install ' ] || fail "apt-get was asked for: $(cat "$tmp/asked")"
script apt-get 'echo "no such package"; exit 100'
rm "$tmp/modules/libuv.pc"
! setup || fail "set-up hides that apt-get failed"
grep -q 'no such package' "$tmp/out" || fail "does not show what apt-get said"

# Somebody else than root gets the command, and nothing is run.
machine
rm "$tmp/modules/hwloc.pc"
script id 'echo 1000'
! setup || fail "a user: set-up is content"
grep -qx '    apt-get update && apt-get install -y --no-install-recommends libhwloc-dev' "$tmp/out" || fail "a user is not told the command"
[ ! -s "$tmp/asked" ] || fail "a user: ran apt-get"

# A machine with a shell and little else lacks everything.
machine
for name in bash sh cat rm mktemp sed sort head id; do
    ln -sf "$(command -v $name)" "$tmp/bin/$name"
done
script id 'echo 0'
! PATH=$tmp/bin scripts/setup >"$tmp/out" 2>&1 || fail "an empty machine: set-up is content"
for package in make gcc g++ cmake ninja-build pkg-config python3 libc6-dev zlib1g-dev libuv1-dev libdnnl-dev libopenblas-openmp-dev; do
    grep -qw -- "$package" "$tmp/asked" || fail "an empty machine: does not ask for $package"
done

# The variants: an empty machine has nothing of theirs.
for pair in check:clang-format fuzz:libclang-rt-14-dev model:spin oclgrind:oclgrind torch:python3-dev bench:mpich device:python3 fresh:debootstrap; do
    : >"$tmp/asked"
    ! PATH=$tmp/bin scripts/setup "${pair%:*}" >"$tmp/out" 2>&1 || fail "${pair%:*}: set-up is content"
    grep -qw -- "${pair#*:}" "$tmp/asked" || fail "${pair%:*}: does not ask for ${pair#*:}"
done
got=0
setup everything || got=$?
[ $got = 2 ] && grep -q 'no variant "everything"' "$tmp/out" || fail "an unknown variant is accepted"
echo "setup: asks for what lacks, and for nothing else"
