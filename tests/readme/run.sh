#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_DIR: compiles and runs every C program in the README and the guide: each ```c block
# with an #include and a main. If a ```text block comes next, it is what the program prints. A program
# that begins with "tutti run -n N" in a comment is started so.
set -euo pipefail
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

awk -v dir="$tmp" '
    /^```/ && block == "" {
        block = substr($0, 4)
        if (block == "") block = "plain"
        if (block == "c") { text = ""; line = FNR + 1; next }
        if (block == "text" && program != "") { out = program ".want"; printf "" >out; next }
        program = ""
        next
    }
    /^```/ {
        if (block == "c" && text ~ /#include/ && text ~ /int main\(/) {
            program = dir "/" ++n
            printf "#line %d \"%s\"\n%s", line, FILENAME, text >(program ".c")
            close(program ".c")
        } else {
            if (out != "") close(out)
            out = program = ""
        }
        block = ""
        next
    }
    block == "c" { text = text $0 "\n" }
    out != "" { print >out }' README.md docs/*.md

n=0
for source in "$tmp"/*.c; do
    [ -e "$source" ] || { echo "no programs in README.md or docs/"; exit 77; }
    program=${source%.c}
    cc -std=gnu17 -Wall -Wextra -Iinclude "$source" -o "$program" -L"$build" -ltutti -lm \
        -Wl,-rpath,"$build"
    ranks=$(sed -n '2s/.*tutti run -n \([0-9]*\) .*/\1/p' "$source")
    start=()
    [ -n "$ranks" ] && start=("$build/bin/tutti" run --quiet --no-prefix -n "$ranks")
    (cd "$tmp" && "${start[@]}" "$program" >"$program.got")
    if [ -e "$program.want" ]; then
        diff -u "$program.want" "$program.got" || { sed -n 1p "$source"; echo "prints something else"; exit 1; }
    fi
    n=$((n + 1))
done
echo "$n programs run"
