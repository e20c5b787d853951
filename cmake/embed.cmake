# SPDX-License-Identifier: Apache-2.0
# cmake -DIN=x.cl -DOUT=x.c -DNAME=symbol -P embed.cmake: the text of IN as a C array, ended by 0.
file(READ "${IN}" hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE "${OUT}" "extern const char ${NAME}[];\nconst char ${NAME}[] = {\n${hex}0 };\n")
