/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of complex numbers, T with parts of type R. Values at infinity are those of C (annex G) where one
 * part is finite. */

FN T make(R re, R im)
{
    T z;

    z.re = re;
    z.im = im;
    return z;
}

FN T z_exp(T x)
{
    R e = exp(x.re);
    R c, s;

    if (x.im == 0)
        return make(e, x.im);
    if (x.re == -(R)INFINITY && !(fabs(x.im) < (R)INFINITY))
        return make(0, 0);
    c = cos(x.im);
    s = sin(x.im);
    if (e == (R)INFINITY && x.re < (R)INFINITY) { /* the product may still be finite */
        e = exp((R)0.5 * x.re);
        c *= e;
        s *= e;
    }
    return make(e * c, e * s);
}

FN T z_log(T x)
{
    R a = fabs(x.re), b = fabs(x.im);
    R big = a > b ? a : b, low = a > b ? b : a;
    R m = hypot(x.re, x.im);

    if (m > (R)0.5 && m < (R)2) /* near 1 the logarithm of the modulus cancels */
        m = (R)0.5 * log1p((big - 1) * (big + 1) + low * low);
    else
        m = log(m);
    return make(m, atan2(x.im, x.re));
}

FN T z_sqrt(T x)
{
    R a = fabs(x.re), m, t, scale = 1;

    if (x.re == 0 && x.im == 0)
        return make(0, x.im);
    if (fabs(x.im) == (R)INFINITY)
        return make((R)INFINITY, x.im);
    if (a == (R)INFINITY) {
        t = x.im != x.im ? x.im : 0;
        return x.re > 0 ? make(x.re, copysign(t, x.im)) : make(t, copysign(a, x.im));
    }
    m = hypot(x.re, x.im);
    if (m == (R)INFINITY || a + m == (R)INFINITY) {
        x.re *= (R)0.0625;
        x.im *= (R)0.0625;
        a *= (R)0.0625;
        m = hypot(x.re, x.im);
        scale = 4;
    }
    t = sqrt((R)0.5 * (a + m));
    if (x.re >= 0)
        return make(scale * t, scale * (x.im / (2 * t)));
    return make(scale * (fabs(x.im) / (2 * t)), scale * copysign(t, x.im));
}

FN T z_sin(T x)
{
    return make(sin(x.re) * cosh(x.im), cos(x.re) * sinh(x.im));
}

FN T z_cos(T x)
{
    return make(cos(x.re) * cosh(x.im), -(sin(x.re) * sinh(x.im)));
}

FN T z_tanh(T x)
{
    R t, s, beta, rho, d;

    if (fabs(x.re) > (R)22)
        return make(copysign((R)1, x.re), 4 * sin(x.im) * cos(x.im) * exp(-2 * fabs(x.re)));
    t = tan(x.im);
    s = sinh(x.re);
    beta = 1 + t * t;
    rho = sqrt(1 + s * s);
    d = 1 + beta * s * s;
    return make(beta * rho * s / d, t / d);
}

FN T z_pow(T a, T b)
{
    T l;

    if (a.re == 0 && a.im == 0)
        return b.re > 0 ? make(0, 0) : make(b.re < 0 ? (R)INFINITY : (R)NAN, (R)NAN);
    l = z_log(a);
    return z_exp(make(b.re * l.re - b.im * l.im, b.re * l.im + b.im * l.re));
}
