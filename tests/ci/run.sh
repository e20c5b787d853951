#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_DIR: .ci/run keeps its deadline and always prints its table; scripts/build waits for another build. Both
# are tried in small trees whose steps and tools are stand-ins.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() {
    cat "$tmp/out" 2>/dev/null || true
    echo "ci: $1"
    exit 1
}
says() { grep -qE -- "$1" "$tmp/out" || fail "does not say: $1"; }
# says_soon WORDS: the output gets these words.
says_soon() {
    for _ in $(seq 600); do
        ! grep -q "$1" "$tmp/out" || return 0
        sleep 0.1
    done
    fail "does not say: $1"
}
# gone FILE: the process whose number is in FILE ends.
gone() {
    for _ in $(seq 600); do
        kill -0 "$(cat "$1")" 2>/dev/null || return 0
        sleep 0.1
    done
    fail "a step is still running"
}

mkdir -p "$tmp/a tree"/{.ci,scripts}
cd "$tmp/a tree"
cp "$root/.ci/run" .ci
printf '#!/bin/sh\n' | tee scripts/setup >scripts/torch-venv
chmod +x scripts/*
cat >Makefile <<'END'
good better: ; @echo "step $@"
bad: ; @echo "this went wrong"; false
slow: ; @echo $$$$ >pid; echo "slow has begun"; exec sleep 1000
END

.ci/run good better >"$tmp/out" 2>&1 || fail "fails though all is well"
says '^step good'
says '^good +ok '
says '^better +ok '
! .ci/run bad good+better >"$tmp/out" 2>&1 || fail "hides that a step failed"
says 'this went wrong'
says '^bad +FAILED '
says '^better +ok '

# The deadline: the slow step is ended, the next ones are not begun, the table is there.
! CI_SECONDS=1 .ci/run slow good >"$tmp/out" 2>&1 || fail "hides that the time was over"
says '^slow +FAILED '
says '^good +not run'
gone pid

# Whoever ends it gets the table as well.
rm pid
.ci/run good slow better >"$tmp/out" 2>&1 &
run=$!
says_soon 'slow has begun'
kill -TERM $run
! wait $run || fail "content after a signal"
says '^good +ok '
says '^slow +not run'
gone pid

# Two builds of one folder: the second waits, and says so.
cp "$root/scripts/build" scripts
mkdir -p build/dev bin
touch CMakePresets.json build/dev/build.ninja
mkfifo begun go
cat >bin/ninja <<'END'
#!/bin/sh
mkdir busy || { echo "two at once"; exit 1; }
echo >begun
cat go >/dev/null
rmdir busy
END
chmod +x bin/ninja
PATH=$PWD/bin:$PATH scripts/build dev 1 >"$tmp/first" 2>&1 &
first=$!
cat begun >/dev/null
PATH=$PWD/bin:$PATH scripts/build dev 1 >"$tmp/out" 2>&1 &
second=$!
says_soon 'waiting for it to end'
[ -d busy ] || fail "the first build has ended"
echo >go
wait $first || fail "the first of two builds failed: $(cat "$tmp/first")"
cat begun >/dev/null
echo >go
wait $second || fail "the second of two builds failed"
echo "ci: the deadline holds, and builds wait for each other"
