#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# doctor_run.sh TUTTI: what `tutti doctor` says with and without devices, and its exit codes.
set -euo pipefail
name=doctor
. "$(dirname "$0")/ends.sh"
tutti=$1
export TUTTI_CL_SPLIT=2

# has WORDS: the last output has them.
has() { grep -qE -- "$1" "$tmp/out" || { cat "$tmp/out"; fail "does not say \"$1\""; }; }

ends 0 "no OpenCL loader" env TUTTI_CL_LIBRARY=/nonexistent "$tutti" doctor
has '^opencl +note .*apt install pocl-opencl-icd'
has '^cpu kernels +ok +(base|avx2|avx512)'
has '^memory +ok +[0-9.]+ GiB'
has '^shared memory +(ok|note) '
ends 0 "TUTTI_CL_PLATFORM" env TUTTI_CL_PLATFORM=nowhere "$tutti" doctor
ends 2 "no option" "$tutti" doctor --nothing
ends 2 "too many" "$tutti" doctor x
ends 0 "usage: tutti doctor" "$tutti" doctor --help

"$tutti" doctor --tsv >"$tmp/out" || { cat "$tmp/out"; fail "exit code $?"; }
[ "$(awk -F '\t' 'NF != 4' "$tmp/out" | wc -l)" = 0 ] || { cat "$tmp/out"; fail "--tsv: not four columns"; }
if grep -q '^opencl.ok' "$tmp/out"; then
    has '^cl:0	ok	.*units'
    has '^cl:1	ok	'
    for family in elements functions copies sums scans sorting indexing products convolutions pooling softmax norms random; do
        has "^cl:0 $family float32	ok	built and ran in [0-9]+ ms"
    done
    has '^kernel cache	ok	'
    has '^clblast	'
    "$tutti" doctor --json | python3 -c '
import json, sys
rows = json.load(sys.stdin)
assert all(set(r) == {"what", "state", "found", "to do"} for r in rows), rows
assert all(r["state"] in ("ok", "note") for r in rows), rows
' || fail "--json"
    ends 0 "every process builds its kernels anew" env TUTTI_CL_CACHE=off "$tutti" doctor
    ends 0 "cannot be used" env TUTTI_CL_CACHE=/dev/null/x "$tutti" doctor

    # A cache of this user is used. Programs in it that were damaged are not counted on: they are built anew.
    export TUTTI_CL_CACHE=$tmp/cache
    "$tutti" doctor >"$tmp/out" || fail "with a new cache: exit code $?"
    "$tutti" doctor --tsv >"$tmp/out" || fail "with a cache: exit code $?"
    has "^kernel cache	ok	$tmp/cache: [1-9][0-9]* programs"
    programs=$(cd "$tmp/cache" && sha256sum ./*.bin)
    victim=$(ls "$tmp/cache"/*.bin | head -n 1)
    printf x | dd of="$victim" bs=1 seek=$(($(stat -c %s "$victim") - 1)) conv=notrunc status=none
    (cd "$tmp/cache" && sha256sum --status -c <<<"$programs") && fail "the test did not damage $victim"
    "$tutti" doctor >"$tmp/out" || fail "with a damaged cache: exit code $?"
    [ ! -e "$victim" ] || [ "$(tail -c 1 "$victim" | od -An -c | tr -d ' ')" != x ] || fail "a damaged program stayed in the cache"
    # Others may write into it: nothing is loaded from there.
    chmod 0777 "$tmp/cache"
    "$tutti" doctor --tsv >"$tmp/out" || fail "with an open cache: exit code $?"
    has "^kernel cache	note	$tmp/cache is not used: others could put programs there	set TUTTI_CL_CACHE to a directory of your own"
    chmod 0700 "$tmp/cache"
    if [ "$(id -u)" = 0 ]; then # only root can give a directory away
        chown nobody "$tmp/cache"
        "$tutti" doctor --tsv >"$tmp/out" || fail "with a cache of another user: exit code $?"
        has "^kernel cache	note	$tmp/cache is not used: others could put programs there"
        chown root "$tmp/cache"
    fi
fi
echo "doctor: finds what there is"
