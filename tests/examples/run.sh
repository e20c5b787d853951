#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_DIR: the plain GPT learns the same on one, two and four ranks.
set -euo pipefail
dir=$1

losses() { "$dir/bin/tutti" run -n "$1" "$dir/examples/08_plain_gpt" 40 2>/dev/null | sed -n 's/.*loss //p'; }

one=$(losses 1)
[ "$(wc -w <<<"$one")" = 3 ] || { echo "expected three losses, got: $one"; exit 1; }
for n in 2 4; do
    paste <(echo "$one") <(losses $n) | awk -v n=$n '
        { d = $1 - $2; if (NF != 2 || d > 2e-4 || d < -2e-4) { bad = 1; print n " ranks: " $2 ", alone: " $1 } }
        END { exit bad }'
done
