#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# trace_run.sh TUTTI: merges and adds up two small traces whose times are known, and reads dumps.
set -euo pipefail
tutti=$1
name=trace
. "$(dirname "$0")/ends.sh"

# trace RANK BASE_NS START_US DUR_US
trace() {
    cat >"$tmp/$1.json" <<END
{"distributedInfo":{"rank":$1,"world_size":2},"baseTimeNanoseconds":1,
 "tutti":{"boot_id":"b","base_monotonic_ns":"$2","base_wall_ns":"99","clock_offset_ns":0},
 "traceEvents":[{"ph":"X","name":"shm:all_reduce","pid":$1,"tid":$((10 + $1)),"ts":$3,"dur":$4,
 "args":{"Process Group Name":"world","Seq":1,"In msg nelems":100,"dtype":"Float"}}]}
END
}
trace 0 5000000 10.5 90
trace 1 5050000 0.5 50 # 50 us later on the common clock: arrives at 50.5

"$tutti" trace merge "$tmp/all.json" "$tmp/0.json" "$tmp/1.json" --arrows || fail "merge"
python3 - "$tmp/all.json" <<'END'
import json, sys
j = json.load(open(sys.argv[1]))
x = {e["pid"]: e["ts"] for e in j["traceEvents"] if e["ph"] == "X"}
assert x == {0: 10.5, 1: 50.5}, x
arrows = [(e["ph"], e["pid"], e["ts"]) for e in j["traceEvents"] if e["ph"] in "sf"]
assert arrows == [("s", 0, 10.5), ("f", 1, 50.5)], arrows
assert j["merged_ranks"] == [0, 1]
END
got=$("$tutti" trace summary --tsv "$tmp/0.json" "$tmp/1.json" | tail -1)
[ "$got" = "$(printf 'world\tshm:all_reduce\t1\t2\t400\t70.000\t40.000\t50.000')" ] || fail "summary: $got"

ends 2 "expected hang, merge or summary" "$tutti" trace
ends 2 'got "fly"' "$tutti" trace fly
ends 2 "no option" "$tutti" trace hang --fast "$tmp"
ends 2 "both of rank 0" "$tutti" trace merge "$tmp/o.json" "$tmp/0.json" "$tmp/0.json"
ends 2 "nowhere" "$tutti" trace summary "$tmp/nowhere"
echo '{' >"$tmp/cut.json"
ends 2 "cut.json: no whole JSON file" "$tutti" trace merge "$tmp/o.json" "$tmp/cut.json"
[ ! -e "$tmp/o.json" ] || fail "a merge that failed left a file"
# What stands at the end of the path, and where others may have put it: links are replaced and never written through.
mkdir "$tmp/shared"
echo mine >"$tmp/mine"
ln -s "$tmp/mine" "$tmp/shared/o.json"
# Temporary files whose names follow from the process number can be foreseen: the shell's number stays with exec.
(
    ln -s "$tmp/mine" "$tmp/shared/o.json.$BASHPID.tmp"
    exec "$tutti" trace merge "$tmp/shared/o.json" "$tmp/0.json"
) || fail "merge over a link"
[ "$(cat "$tmp/mine")" = mine ] || fail "merge wrote through a symbolic link"
[ -f "$tmp/shared/o.json" ] && [ ! -L "$tmp/shared/o.json" ] || fail "merge left the symbolic link in its place"
[ -z "$(ls -A "$tmp/shared" | grep -e '^[.]tutti-')" ] || fail "merge left a temporary file"
mkdir "$tmp/shared/directory.json"
ends 1 "directory" "$tutti" trace merge "$tmp/shared/directory.json" "$tmp/0.json"
[ -z "$(ls -A "$tmp/shared" | grep -e '^[.]tutti-')" ] || fail "a merge that failed left a temporary file"
ends 1 "/no/such/place" "$tutti" trace merge /no/such/place/o.json "$tmp/0.json"

mkdir "$tmp/dumps"
ends 2 "no dumps" "$tutti" trace hang "$tmp/dumps"
# dump RANK ENTRIES
dump() {
    echo '{"host":"h","cause":"time-out","now_ns":9000000000,"last_issued":1,"group":{"name":"world","rank":'"$1"',
        "size":2,"global_ranks":[0,1]},"entries":['"$2"']}' >"$tmp/dumps/world.$1.json"
}
done='{"op":"barrier","seq":1,"state":"completed","p2p":false,"peer":-1,"dtype":"float32","in_bytes":0,"out_bytes":0,
    "issued_ns":1,"ended_ns":2}'
dump 0 "$done"
dump 1 "$done"
ends 0 "all is well" "$tutti" trace hang "$tmp/dumps"
dump 1 ""
dump 0 "${done/completed/started}"
ends 1 "group world: rank 0 waits in barrier #1; rank 1 is not there" "$tutti" trace hang "$tmp/dumps"
ends 1 '"blamed":[1]' "$tutti" trace hang --json "$tmp/dumps"
# A name that would clear the screen.
sed -i 's/"name":"world"/"name":"wor\\u001b[2Jld"/' "$tmp/dumps"/*.json
got=$("$tutti" trace hang "$tmp/dumps" || true)
case $got in *"$(printf '\033')"*) fail "hang prints control characters of a dump" ;; esac
case $got in *"wor?[2Jld"*) ;; *) fail "hang does not show a name with a control character: $got" ;; esac
mkfifo "$tmp/dumps/world.2.json"
ends 2 "not a regular file" timeout 60 "$tutti" trace hang "$tmp/dumps"
echo "trace: as it should be"
