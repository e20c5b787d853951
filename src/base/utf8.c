/* SPDX-License-Identifier: Apache-2.0 */
/* Whether bytes are a text: well-formed UTF-8. */
#include "base/text.h"

size_t tti_utf8_length(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t len = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    if (len == 0 || s[0] > 0xf4 || s[0] == 0 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return len;
}

bool tti_text_is_utf8(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n) {
        size_t len = tti_utf8_length(s + i, n - i);

        if (len == 0)
            return false;
        i += len;
    }
    return true;
}
