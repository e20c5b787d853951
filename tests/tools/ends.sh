# SPDX-License-Identifier: Apache-2.0
# For the scripts beside it, which set `name`: a folder of their own in $tmp, fail and ends.
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() { echo "${name:?}: $1"; exit 1; }

# ends CODE WORDS COMMAND...
ends() {
    local code=$1 words=$2 got=0
    shift 2
    "$@" >"$tmp/out" 2>&1 || got=$?
    [ $got = "$code" ] || { cat "$tmp/out"; fail "$*: exit code $got instead of $code"; }
    grep -qF -- "$words" "$tmp/out" || { cat "$tmp/out"; fail "$*: does not say \"$words\""; }
}
