/* SPDX-License-Identifier: Apache-2.0 */
/* Most numbers in files have few digits: an integer below 2^53 times or by a power of ten up to 22, both
 * exact in double, so that one operation rounds correctly. The rest is left to the C library. */
#include "data/number.h"

#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const double tens[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                               1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                               1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t plain; /* the "C" locale, kept for the life of the process; 0: out of memory */

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

typedef struct decimal {
    uint64_t digits;
    int exponent; /* of ten */
    bool negative, exact;
} decimal;

/* Reads digits into d; returns how many characters. Beyond 18 digits it is no longer exact. */
static const char *read_digits(const char *s, const char *end, decimal *d, bool fraction, int *seen)
{
    for (; s < end && is_digit(*s); s++, (*seen)++) {
        if (d->digits < 100000000000000000u) {
            d->digits = d->digits * 10 + (uint64_t)(*s - '0');
            d->exponent -= fraction;
        } else {
            d->exact = false;
        }
    }
    return s;
}

/* An exponent such as e-12 at s, if there is one; NULL: malformed. */
static const char *read_exponent(const char *s, const char *end, decimal *d)
{
    int value = 0, sign = 1;

    if (s == end || (*s != 'e' && *s != 'E'))
        return s;
    s++;
    if (s < end && (*s == '+' || *s == '-'))
        sign = *s++ == '-' ? -1 : 1;
    if (s == end || !is_digit(*s))
        return NULL;
    for (; s < end && is_digit(*s); s++)
        if (value < 100000)
            value = value * 10 + (*s - '0');
    d->exponent += sign * value;
    return s;
}

/* True when [s, end) is a decimal number in all; d->exact says whether d holds it. */
static bool read_decimal(const char *s, const char *end, decimal *d)
{
    int seen = 0;

    *d = (decimal){ .exact = true };
    if (s < end && (*s == '+' || *s == '-'))
        d->negative = *s++ == '-';
    s = read_digits(s, end, d, false, &seen);
    if (s < end && *s == '.')
        s = read_digits(s + 1, end, d, true, &seen);
    if (seen == 0)
        return false;
    s = read_exponent(s, end, d);
    return s == end;
}

static bool fast(const decimal *d, double *value_p)
{
    double v = (double)d->digits;

    if (!d->exact || d->digits > (uint64_t)1 << 53 || d->exponent < -22 || d->exponent > 22)
        return false;
    v = d->exponent < 0 ? v / tens[-d->exponent] : v * tens[d->exponent];
    *value_p = d->negative ? -v : v;
    return true;
}

/* Words the C library takes for numbers that we do, too. */
static bool is_special(const char *s, const char *end)
{
    size_t n;

    if (s < end && (*s == '+' || *s == '-'))
        s++;
    n = (size_t)(end - s);
    return (n == 3 && (strncasecmp(s, "nan", 3) == 0 || strncasecmp(s, "inf", 3) == 0)) ||
           (n == 8 && strncasecmp(s, "infinity", 8) == 0);
}

bool tti_parse_f64(const char *text, const char *end, double *value_p)
{
    decimal d;
    bool number = read_decimal(text, end, &d);
    char *stop;

    if (number && fast(&d, value_p))
        return true;
    if (!number && !is_special(text, end))
        return false;
    pthread_once(&once, make_plain);
    *value_p = plain != (locale_t)0 ? strtod_l(text, &stop, plain) : strtod(text, &stop);
    return stop == end;
}

bool tti_parse_f32(const char *text, const char *end, float *value_p)
{
    decimal d;
    bool number = read_decimal(text, end, &d);
    double v;
    uint64_t bits;
    char *stop;

    if (number && fast(&d, &v)) {
        /* Rounding twice is wrong only from the middle between two floats, or near the smallest. */
        memcpy(&bits, &v, sizeof bits);
        if ((bits & 0x1fffffffu) != 0x10000000u && (v == 0 || v > 1e-37 || v < -1e-37)) {
            *value_p = (float)v;
            return true;
        }
    }
    if (!number && !is_special(text, end))
        return false;
    pthread_once(&once, make_plain);
    *value_p = plain != (locale_t)0 ? strtof_l(text, &stop, plain) : strtof(text, &stop);
    return stop == end;
}
