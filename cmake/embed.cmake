# SPDX-License-Identifier: Apache-2.0
# cmake -DIN=x.cl -DOUT=x.c -DNAME=symbol -DROOT=src -P embed.cmake: the text of IN as a C array, ended by 0.
# Texts it includes by name (#include "ops/cpu/vmath.h", from ROOT) are put in their place; headers of the
# system are left out, since compilers of kernels have none.
file(READ "${IN}" text)
while(text MATCHES "\n#include \"([^\"]+)\"[^\n]*\n")
    set(line "${CMAKE_MATCH_0}")
    file(READ "${ROOT}/${CMAKE_MATCH_1}" part)
    string(FIND "${text}" "${line}" at)
    string(LENGTH "${line}" length)
    string(SUBSTRING "${text}" 0 ${at} before)
    math(EXPR rest "${at} + ${length}")
    string(SUBSTRING "${text}" ${rest} -1 after)
    set(text "${before}\n${part}\n${after}")
endwhile()
string(REGEX REPLACE "#include <[^\n]*" "" text "${text}")
file(WRITE "${OUT}.text" "${text}")
file(READ "${OUT}.text" hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE "${OUT}" "extern const char ${NAME}[];\nconst char ${NAME}[] = {\n${hex}0 };\n")
