#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# report_run.sh TUTTI: draws a small training whose numbers are known.
set -euo pipefail
tutti=$1
name=report
. "$(dirname "$0")/ends.sh"

# rank RANK LOSSES: three steps of 10 ms: 2 forward, 3 backward, 4 of communication of which 1 is hidden.
rank() {
    cat >"$tmp/d/rank-$1.json" <<END
{"title": "A <small> run", "rank": $1, "accuracy": 0.975, "backend": "shm", "buckets": 2,
 "parameter_bytes": 4000, "losses": [$2], "step_us": [10000,10000,10000], "forward_us": [2000,2000,2000],
 "backward_us": [3000,3000,3000], "communication_us": [4000,4000,4000], "overlap_us": [1000,1000,1000]}
END
}

# trace RANK: a step with two buckets, and one operation before them.
trace() {
    cat >"$tmp/d/trace-$1.json" <<END
{"distributedInfo": {"rank": $1}, "baseTimeNanoseconds": 0, "traceEvents": [
{"ph":"X","name":"forward","pid":$1,"tid":1,"ts":0,"dur":2000,"args":{}},
{"ph":"X","name":"shm:broadcast","pid":$1,"tid":1,"ts":10,"dur":50,"args":{"Process Group Name":"world","Seq":1,"Rank":$1}},
{"ph":"X","name":"backward","pid":$1,"tid":1,"ts":2000,"dur":6000,"args":{}},
{"ph":"X","name":"shm:all_reduce","pid":$1,"tid":2,"ts":3000,"dur":900,"args":{"Process Group Name":"world","Seq":2,"Rank":$1,"dtype":"Float","In msg nelems":600}},
{"ph":"X","name":"shm:all_reduce","pid":$1,"tid":2,"ts":4000,"dur":3500,"args":{"Process Group Name":"world","Seq":3,"Rank":$1,"dtype":"Float","In msg nelems":400}},
{"ph":"X","name":"optimizer","pid":$1,"tid":1,"ts":8000,"dur":1000,"args":{}}]}
END
}

mkdir "$tmp/d"
ends 1 "has no rank-0.json" "$tutti" report "$tmp/d"
ends 2 "expected a directory" "$tutti" report
ends 0 "usage: tutti report DIR" "$tutti" report --help
rank 0 "3,2,1"
ends 1 "trace-0.json" "$tutti" report "$tmp/d"
rank 1 "5,4"
trace 0
trace 1
ends 1 '"step_us" has 3 numbers, expected 2' "$tutti" report "$tmp/d"
rank 1 "5,4,"
ends 1 "no whole JSON file" "$tutti" report "$tmp/d"
rank 1 "5,null,3"
"$tutti" report "$tmp/d" "$tmp/gap.html" || fail "exit code $?"
grep -q "step 2, loss missing or not a number" "$tmp/gap.html" || fail "a missing loss is drawn as a number"
grep -q "step 3, loss 2.0000" "$tmp/gap.html" || fail "a loss after a gap is lost"
rank 1 "5,4,-nan"
"$tutti" report "$tmp/d" "$tmp/gap.html" || fail "exit code $?"
grep -q "the last loss is not a number" "$tmp/gap.html" || fail "a loss that is no number looks like one"
mv "$tmp/d/rank-0.json" "$tmp/whole"
echo "{" >"$tmp/d/rank-0.json"
got=$("$tutti" report "$tmp/d" 2>&1) && fail "a damaged file is accepted"
case $got in *"has no rank-0.json"*) fail "a damaged file is called missing" ;; esac
rm "$tmp/d/rank-0.json"
mkfifo "$tmp/d/rank-0.json"
ends 1 "rank-0.json" timeout 60 "$tutti" report "$tmp/d"
rm "$tmp/d/rank-0.json"
mv "$tmp/whole" "$tmp/d/rank-0.json"
rank 1 "5,4,3"
echo untouched >"$tmp/target"
ln -s "$tmp/target" "$tmp/d/report.html"
"$tutti" report "$tmp/d" 2>/dev/null && fail "it writes through a link"
[ "$(cat "$tmp/target")" = untouched ] || fail "the target of a link was overwritten"
rm "$tmp/d/report.html"
"$tutti" report "$tmp/d" || fail "exit code $?"
"$tutti" report "$tmp/d" "$tmp/other.html" && cmp "$tmp/d/report.html" "$tmp/other.html" || fail "not the same page twice"
for words in "A &lt;small&gt; run" "97.5 %" "step 3, loss 2.0000" "10.00 ms" \
    "rank 1, waiting for gradients: 3.00 ms" "rank 0, optimizer, data, rest: 2.00 ms" \
    "rank 0, communication behind backward: 1.00 ms" "25 %" "rank 1, bucket 0, shm:all_reduce, 2.4 kB: 0.900 ms" \
    "rank 0, bucket 1, shm:all_reduce, 1.6 kB: 3.500 ms" "rank 1, shm:broadcast, 0.0 kB: 0.050 ms"; do
    grep -qF -- "$words" "$tmp/d/report.html" || fail "the page does not say \"$words\""
done
grep -qE 'src=|href=|@import|url\(' "$tmp/d/report.html" && fail "the page needs other files"
python3 - "$tmp/d/report.html" <<'END' || fail "elements do not nest"
import html.parser, sys

class Nesting(html.parser.HTMLParser):
    open = []
    def handle_starttag(self, tag, attrs):
        if tag != "meta":
            self.open.append(tag)
    def handle_startendtag(self, tag, attrs):
        pass
    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            sys.exit(f"line {self.getpos()[0]}: unexpected end of {tag}")

p = Nesting()
p.feed(open(sys.argv[1]).read())
sys.exit(1 if p.open else 0)
END
