#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_DIR: each check accepts a small good tree, and names the culprit in a bad one.
set -euo pipefail
export LC_ALL=C
root=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# A tree with two layers, one public header and a library built from it.
fresh() {
    rm -rf "$tmp/tree"
    mkdir -p "$tmp"/tree/{docs,include/tutti,src/low,src/high,build/dev/src}
    cd "$tmp/tree"
    cp -r "$root/checks" .
    printf '# What may be too big.\n' >checks/size_allow
    printf 'low -\nhigh low\n' >src/LAYERS
    : >docs/threads.md
    write include/tutti/x.h '#define TT_API __attribute__((visibility("default")))' \
        'TT_API int tt_x(void);'
    write src/low/low.h 'int tti_low(void);'
    write src/low/low.c '#include "low/low.h"' '' 'int tti_low(void)' '{' '    return 1;' '}'
    write src/high/x.c '#include <tutti/x.h>' '#include "low/low.h"' '' 'int tt_x(void)' '{' \
        '    return tti_low();' '}'
}
write() {
    local file=$1
    shift
    printf '%s\n' '/* SPDX-License-Identifier: Apache-2.0 */' '/* A file. */' "$@" >"$file"
}
build() {
    gcc -Iinclude -Isrc -fPIC -fvisibility=hidden -c src/*/*.c
    gcc -shared -o build/dev/libtutti.so ./*.o
    ar qc build/dev/src/libtutti_static.a ./*.o
    rm ./*.o
}
accepts() { "checks/$1" >"$tmp/out" 2>&1 || { cat "$tmp/out"; echo "$1 refuses a good tree"; exit 1; }; }
# refuses CHECK WORDS: it fails and says WORDS.
refuses() {
    if "checks/$1" >"$tmp/out" 2>&1 || ! grep -qF -- "$2" "$tmp/out"; then
        cat "$tmp/out"
        echo "$1 does not say: $2"
        exit 1
    fi
}

fresh
build
for check in layers size headers symbols words locks chains; do
    accepts check_$check
done

fresh
write src/low/up.c '#include "high/x.h"'
refuses check_layers 'src/low/up.c:3: low may not include "high/x.h"'
fresh
mkdir src/other
write src/other/a.c '#include "low/low.h"'
refuses check_layers 'folder other is not in src/LAYERS'
fresh
write src/high/a.c '#include "../low/low.h"'
refuses check_layers 'src/high/a.c:3: include "../low/low.h" climbs'
mkdir tools
write tools/a.c '#include "low/low.h"'
refuses check_layers 'tools/a.c:3: include "low/low.h"'

fresh
write src/low/long.c 'int tti_long(void)' '{' "$(yes '    ;' | head -n 90)" '}'
refuses check_size 'src/low/long.c:4: lines tti_long is 92, limit 80'
echo 'lines src/low/long.c:tti_long 92 a long story' >>checks/size_allow
accepts check_size
rm src/low/long.c
refuses check_size '"lines src/low/long.c:tti_long" is not needed any more'
fresh
write src/low/wide.c 'int tti_wide(int a, int b, int c, int d, int e, int f, int g, int h)' '{' '}'
refuses check_size 'parameters tti_wide is 8, limit 7'
write src/low/deep.c 'int tti_deep(void)' '{' '    if (1) {{{{{' '    }}}}}' '}'
refuses check_size 'nesting tti_deep is 5, limit 4'
write include/tutti/long.h "$(yes '/**/' | head -n 400)"
refuses check_size 'include/tutti/long.h:1: file  is 402, limit 400'
write src/low/data.c 'int tti_data[] = {' "$(yes '    1,' | head -n 900)" '};'
if grep -q data.c <(checks/check_size); then
    echo "check_size counts tables of data"
    exit 1
fi

fresh
write include/tutti/y.h 'size_t tt_y(void);'
refuses check_headers 'include/tutti/y.h: does not compile alone with gcc'
write include/tutti/y.h 'int tt_y(int class);'
refuses check_headers 'include/tutti/y.h: does not compile alone with g++'

fresh
write src/low/low.c 'int tti_low(void) { return 1; }' \
    '__attribute__((visibility("default"))) int tti_out;' 'int bare;'
build
refuses check_symbols 'tti_out: shown, but does not begin with tt_'
refuses check_symbols 'bare: not static; begins with neither tt_ nor tti_'
write include/tutti/y.h '#include <tutti/x.h>' 'TT_API int' 'tt_y(void);'
refuses check_symbols 'tt_y: declared with TT_API, but the library lacks it'

fresh
echo 'int a;' >src/low/a.c
refuses check_words 'src/low/a.c: does not begin with the SPDX line'
write src/low/a.c "/* TO""DO: more */"
refuses check_words 'src/low/a.c:3:'
write src/low/a.c '#if 0' '#endif'
refuses check_words 'dead code'
write src/low/a.c '/* http:/''/example.invalid/ */'
refuses check_words 'an address that is not on the list'
fresh
write src/low/a.c 'static pthread_mutex_t mu_a = PTHREAD_MUTEX_INITIALIZER;' 'pthread_create(&t);'
printf '%s\n' '| one | `src/low/a.c` | a | b | c |' '| `mu_a` | `src/low/a.c` | x | y |' >docs/threads.md
accepts check_locks
printf '%s\n' '| `mu_b` | `src/low/a.c` | x | y |' >docs/threads.md
refuses check_locks 'src/low/a.c:3: the mutex mu_a is not in the table of locks'
refuses check_locks 'src/low/a.c:4: starts a thread that the table of threads'
refuses check_locks 'docs/threads.md:1: src/low/a.c has no mutex mu_b'

fresh
mkdir -p tests/unit/base
write include/tutti/y.h 'typedef struct tt_pg tt_pg;' 'TT_API tt_y *tt_y_new(int n,' '    tt_pg *pg);' \
    'TT_API tt_pg *tt_pg_new(int n);'
write tests/unit/base/test_chains.c 'CHAIN(tt_y_new(1, NULL));'
accepts check_chains
write tests/unit/base/test_chains.c
refuses check_chains 'tt_y_new takes an object and is not in the list'
fresh
write src/low/a.c 'const char *tti_a(void) { return tt_last_error(); }'
refuses check_chains 'src/low/a.c:3:'
echo "all checks notice what they are for"
