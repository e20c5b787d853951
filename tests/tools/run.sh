#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_DIR: asks the command `tutti` everything it can answer, and compares what it says. Also
# checks that docs/env.md is in step with the library.
set -euo pipefail
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
tutti=$build/bin/tutti
[ -x "$tutti" ] || { echo "the command was not built"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() { echo "tools: $1"; exit 1; }

# is WHAT WANTED COMMAND...: its output is exactly this.
is() {
    local what=$1 want=$2 got
    shift 2
    got=$("$@") || fail "$what: exit code $?"
    [ "$got" = "$want" ] || { diff <(echo "$want") <(echo "$got") || true; fail "$what"; }
}

# ends CODE WORDS COMMAND...: it ends with this code and says these words on standard error.
ends() {
    local code=$1 words=$2 got=0
    shift 2
    "$@" >"$tmp/out" 2>"$tmp/err" || got=$?
    [ $got = "$code" ] || fail "$*: exit code $got instead of $code"
    grep -qF -- "$words" "$tmp/err" || { cat "$tmp/err"; fail "$*: does not say \"$words\""; }
}

# A safetensors file: the length of the header in 8 bytes, the header, the data.
safetensors() {
    printf "\\x$(printf %02x $((${#2} % 256)))\\x$(printf %02x $((${#2} / 256)))\\0\\0\\0\\0\\0\\0%s" "$2" >"$1"
    head -c "$3" /dev/zero >>"$1"
}

version=$(awk '/^#define TT_VERSION_/ { printf "%s%s", dot, $3; dot = "." }' include/tutti/base.h)
is "--version" "tutti $version" "$tutti" --version
"$tutti" help | grep -q '^  show ' || fail "help does not list show"
"$tutti" help show | grep -q '^usage: tutti show FILE' || fail "help show lacks its usage"
"$tutti" env --help | grep -q -- --tsv || fail "env --help lacks --tsv"
ends 2 "usage: tutti COMMAND" "$tutti"
ends 2 'no command "fly"' "$tutti" fly
ends 2 'no option "--fast"' "$tutti" info --fast
ends 2 "expected a file" "$tutti" show
ends 2 "one argument too many" "$tutti" show a b
if [ -w /dev/full ]; then
    got=0
    "$tutti" env >/dev/full 2>"$tmp/err" || got=$?
    [ $got = 1 ] || fail "a full disk: exit code $got instead of 1"
fi

# Every variable of env.def, in order, with its value.
grep -o '^X([A-Z_]*' src/base/env.def | sed 's/X(/TUTTI_/' >"$tmp/names"
is "env --tsv lists all variables" "$(cat "$tmp/names")" \
    sh -c "TUTTI_SEED=5 '$tutti' env --tsv | tail -n +2 | cut -f1"
is "env --tsv shows a value" "5" \
    sh -c "TUTTI_SEED=5 '$tutti' env --tsv | awk -F '\t' '\$1 == \"TUTTI_SEED\" { print \$2 }'"
is "env does not show the secret" "(set)" \
    sh -c "TUTTI_JOB_SECRET=hush '$tutti' env --tsv | awk -F '\t' '\$1 == \"TUTTI_JOB_SECRET\" { print \$2 }'"
TUTTI_SEED='a"b' "$tutti" env --json | grep -qF '"name": "TUTTI_SEED", "value": "a\"b"' ||
    fail "env --json does not quote"
is "no colours without a terminal" "0" sh -c "'$tutti' env | grep -c '$(printf '\033')' || true"
scripts/env-table || fail "docs/env.md is out of step"

is "info: instruction set" "base" sh -c "TUTTI_ISA=base '$tutti' info --tsv | awk '\$1 == \"kernels\" { print \$2 }'"
is "info: threads" "3" sh -c "TUTTI_NUM_THREADS=3 '$tutti' info --tsv | awk '\$1 == \"threads\" { print \$2 }'"
"$tutti" info --json | grep -q '"onednn": "[0-9.]*"' || fail "info lacks the version of oneDNN"
"$tutti" info --tsv | grep -q '^openblas	OpenBLAS 0' || fail "info lacks the version of OpenBLAS"
# OpenBLAS maps 128 MiB per thread at its start and tries for ever where it cannot. A sanitizer needs more room by itself.
if ! ldd "$tutti" | grep -qE 'lib[at]san'; then
    is "--version in little address space" "tutti $version" timeout 60 prlimit --as=350000000 "$tutti" --version
    is "run in little address space" "up" timeout 60 prlimit --as=350000000 "$tutti" run -n 1 echo up
fi

ends 126 "no file descriptors are left" prlimit --nofile=10 "$tutti" run -n 2 true

safetensors "$tmp/a.safetensors" \
    '{"__metadata__":{"made by":"hand"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"q\u001b\"":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[24,28]}}' 28
is "show" 'name    dtype    shape   bytes
w       float32  [2, 3]  24
q\x1b"  F8_E4M3  [4]     4' "$tutti" show "$tmp/a.safetensors"
is "show --tsv" "$(printf 'name\tdtype\tshape\tbytes\nw\tfloat32\t[2, 3]\t24\nq\\x1b"\tF8_E4M3\t[4]\t4')" \
    "$tutti" show --tsv "$tmp/a.safetensors"
is "show --json" '[
 {"name": "w", "dtype": "float32", "shape": [2, 3], "bytes": 24},
 {"name": "q\u001b\"", "dtype": "F8_E4M3", "shape": [4], "bytes": 4}
]' "$tutti" show --json "$tmp/a.safetensors"
is "show --metadata" 'made by  hand' "$tutti" show --metadata "$tmp/a.safetensors"

header="{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }"
printf '\x93NUMPY\x01\x00%b%-117s\n' '\x76\x00' "$header" >"$tmp/x.npy"
head -c 16 /dev/zero >>"$tmp/x.npy"
is "show of a .npy file" "$(printf 'name\tdtype\tshape\tbytes\nx.npy\tint64\t[2]\t16')" \
    "$tutti" show --tsv "$tmp/x.npy"

# Files that nobody should trust.
safetensors "$tmp/b.safetensors" '{"w":{"dtype":"F32","shape":[9,9],"data_offsets":[0,24]}}' 24
ends 1 "b.safetensors: " "$tutti" show "$tmp/b.safetensors"
printf '\xff\xff\xff\xff\xff\xff\xff\x7f{}' >"$tmp/c.safetensors"
ends 1 "c.safetensors: " "$tutti" show "$tmp/c.safetensors"
head -c 90 "$tmp/x.npy" >"$tmp/y.npy"
ends 1 "y.npy: " "$tutti" show "$tmp/y.npy"
: >"$tmp/empty"
ends 1 "empty: " "$tutti" show "$tmp/empty"
ends 1 "nowhere: " "$tutti" show "$tmp/nowhere"
ends 1 "$tmp: " "$tutti" show "$tmp"
python3 tests/tools/run_launch.py "$tutti" || fail "run"
python3 tests/tools/run_nodes.py "$build" || fail "run on several nodes"
bash tests/tools/trace_run.sh "$tutti" || fail "trace"
bash tests/tools/report_run.sh "$tutti" || fail "report"
bash tests/tools/doctor_run.sh "$tutti" || fail "doctor"
python3 tests/tools/bench_command.py "$tutti" || fail "bench"
python3 tests/tools/bench_compare.py "$build" || fail "the comparison of collectives"
echo "tools: the command answers as it should"
