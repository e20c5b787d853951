#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_DIR: the texts of kernels are CUDA C as well as OpenCL C. Every program, with every set of options that
# tests make host code ask for, is compiled to PTX by clang, which needs no CUDA for it: nvrtc.h, beside this
# file, stands in for what NVRTC declares itself. Nothing is run.
# TUTTI_KERNEL_TEXTS: where tests have left the texts; unset: they are run here for them.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

if ! command -v clang >/dev/null; then
    echo "no clang: scripts/setup fuzz installs it"
    exit 77
fi
if ! clang --print-targets | grep -q nvptx64; then
    echo "this clang does not compile for CUDA"
    exit 77
fi

texts=${TUTTI_KERNEL_TEXTS-}
if [ -z "$texts" ]; then
    texts=$tmp/texts
    mkdir "$texts"
    # Whether they pass is not asked here.
    TUTTI_KERNEL_TEXTS=$texts "$dir/tests/tutti-tests" 'accel_*' >"$tmp/log" 2>&1 || true
fi
if [ -z "$(find "$texts" -name '*.cl' -print -quit)" ]; then
    echo "no kernels were built: there is no OpenCL device"
    exit 77
fi

# Every program of the library has to be among them.
missing=$(grep -ohzP 'tti_program \w+ = \{\s*"\K\w+' src/*/*/*.c | tr '\0' '\n' | while read -r name; do
    find "$texts" -name "$name-*.cl" -print -quit | grep -q . || echo "$name"
done)
if [ -n "$missing" ]; then
    echo "programs that no test has built:" $missing
    exit 1
fi

# compile FILE...: prints what is wrong with each. Groups of 64 items, and of 256 where that makes another text.
compile() {
    local text groups group options
    for text; do
        read -r _ options <"$text"
        groups=64
        ! grep -q 'WG >= 256' "$text" || groups='64 256'
        for group in $groups; do
            # shellcheck disable=SC2086 # several options
            clang -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 -nocudainc -nocudalib -Wno-unknown-cuda-version \
                -include tests/kernels/nvrtc.h -ferror-limit=3 -DWG=$group -DHAS_FP64 ${options%'*/'} \
                -S -o /dev/null "$text" || echo "$(basename "$text" .cl): no CUDA in groups of $group"
        done
    done
}
export -f compile
find "$texts" -name '*.cl' -print0 | sort -z | xargs -0 -n 16 -P "$(nproc)" bash -c 'compile "$@"' _ >"$tmp/wrong" 2>&1
if [ -s "$tmp/wrong" ]; then
    head -n 60 "$tmp/wrong"
    echo "$(grep -c 'no CUDA in groups' "$tmp/wrong") texts of kernels are not CUDA C"
    exit 1
fi
echo "$(find "$texts" -name '*.cl' | wc -l) texts of kernels compile as CUDA C"
