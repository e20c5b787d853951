/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting lines of a tensor, stably, NaN as the largest; and the k best of a line. Elements become keys that
 * order as they do (inverted for descending order), each with its place. Blocks of a line are sorted by one
 * work-item each, then merged two and two, every work-item making a part of the result. Needs loops.cl. */

#if defined(IS_F64) || defined(IS_I64)
typedef u64 key_t;
#define KEY_BITS 64
#else
typedef u32 key_t;
#define KEY_BITS 32
#endif
#define TOP ((key_t)1 << (KEY_BITS - 1))

FN key_t key_of(A v)
{
#ifdef IS_REAL
    A plain = v + (A)0; /* -0 and 0 are the same */
#ifdef IS_F64
    key_t u = D2U(plain);
#else
    key_t u = F2U(plain);
#endif

    if (v != v)
        return ~(key_t)0;
    return (u & TOP) != 0 ? ~u : u | TOP;
#elif defined(IS_U8) || defined(IS_BOOL)
    return (key_t)v;
#else
    return (key_t)v ^ TOP;
#endif
}

#define KEY(x, i) (descending != 0 ? ~key_of(LD(x, i)) : key_of(LD(x, i)))

/* Lines [first_line, first_line + n_lines) of x, whose keys and places are [n_lines, n] here. */
typedef struct sort_t {
    loop_t lines;
    i64 first_line, n_lines;
    i64 n, x_stride, out_stride, k; /* k: results per line */
    i64 block, blocks;              /* elements sorted by one work-item, and how many of those a line has */
    u32 descending, with_values;
} sort_t;

#if WG == 1
#define FEW 24

/* By bytes from the lowest; those in which all keys agree are skipped. The result is in keys and places. */
FN void radix(GLOBAL key_t *keys, GLOBAL u32 *places, GLOBAL key_t *keys2, GLOBAL u32 *places2, u32 n)
{
    GLOBAL key_t *k = keys, *k2 = keys2;
    GLOBAL u32 *p = places, *p2 = places2;
    key_t differ = 0;

    for (u32 i = 1; i < n; i++)
        differ |= keys[i] ^ keys[0];
    for (u32 shift = 0; shift < KEY_BITS; shift += 8) {
        u32 start[257];
        GLOBAL key_t *swap_k = k;
        GLOBAL u32 *swap_p = p;

        if ((differ >> shift & 255) == 0)
            continue;
        for (u32 b = 0; b <= 256; b++)
            start[b] = 0;
        for (u32 i = 0; i < n; i++)
            start[(k[i] >> shift & 255) + 1]++;
        for (u32 b = 0; b < 256; b++)
            start[b + 1] += start[b];
        for (u32 i = 0; i < n; i++) {
            u32 to = start[k[i] >> shift & 255]++;

            k2[to] = k[i];
            p2[to] = p[i];
        }
        k = k2;
        p = p2;
        k2 = swap_k;
        p2 = swap_p;
    }
    for (u32 i = 0; k != keys && i < n; i++) {
        keys[i] = k[i];
        places[i] = p[i];
    }
}
#endif

FN void insertion(GLOBAL key_t *keys, GLOBAL u32 *places, u32 n)
{
    for (u32 i = 1; i < n; i++) {
        key_t v = keys[i];
        u32 place = places[i], j = i;

        for (; j > 0 && keys[j - 1] > v; j--) {
            keys[j] = keys[j - 1];
            places[j] = places[j - 1];
        }
        keys[j] = v;
        places[j] = place;
    }
}

KERNEL void sort_blocks(MEM(const T, x), MEM(key_t, keys), MEM(u32, places), MEM(key_t, keys2),
                        MEM(u32, places2), sort_t q)
{
    OPEN(const T, x);
    OPEN(key_t, keys);
    OPEN(u32, places);
    OPEN(key_t, keys2);
    OPEN(u32, places2);
    u32 descending = q.descending;

    FOR_EACH(t, (u64)(q.n_lines * q.blocks))
    {
        u64 line = t / (u64)q.blocks, first = (t - line * (u64)q.blocks) * (u64)q.block;
        u64 at = line * (u64)q.n + first;
        u32 n = (u32)((u64)q.n - first < (u64)q.block ? (u64)q.n - first : (u64)q.block);
        GLOBAL const T *from = x + loop_at(q.lines, line + (u64)q.first_line).x + (i64)first * q.x_stride;

        for (u32 i = 0; i < n; i++) {
            keys[at + i] = KEY(from, (i64)i * q.x_stride);
            places[at + i] = (u32)first + i;
        }
#if WG == 1
        if (n > FEW) {
            radix(keys + at, places + at, keys2 + at, places2 + at, n);
            continue;
        }
#endif
        insertion(keys + at, places + at, n);
    }
}

/* Runs of `run` elements become runs of twice that. A work-item makes `part` elements; part divides run. */
KERNEL void sort_merge(MEM(key_t, to_keys), MEM(u32, to_places), MEM(const key_t, keys), MEM(const u32, places),
                       sort_t q, u64 run, u64 part)
{
    OPEN(key_t, to_keys);
    OPEN(u32, to_places);
    OPEN(const key_t, keys);
    OPEN(const u32, places);
    u64 n = (u64)q.n, parts = (n + part - 1) / part;

    FOR_EACH(t, (u64)q.n_lines * parts)
    {
        u64 line = t / parts, first = (t - line * parts) * part, end = first + part < n ? first + part : n;
        u64 begin = first / (2 * run) * (2 * run), mid = begin + run < n ? begin + run : n;
        u64 stop = begin + 2 * run < n ? begin + 2 * run : n;
        u64 na = mid - begin, nb = stop - mid, d = first - begin;
        i64 lo = (i64)d - (i64)nb, hi = (i64)(d < na ? d : na);
        GLOBAL const key_t *a = keys + line * n + begin, *b = keys + line * n + mid;
        GLOBAL const u32 *pa = places + line * n + begin, *pb = places + line * n + mid;
        u64 i, j;

        if (lo < 0)
            lo = 0;
        while (lo < hi) { /* how many of the first d come from a, which wins ties */
            i64 m = (lo + hi) / 2;

            if (a[m] <= b[(i64)d - 1 - m])
                lo = m + 1;
            else
                hi = m;
        }
        i = (u64)lo;
        j = d - i;
        for (u64 o = line * n + first; o < line * n + end; o++) {
            if (i < na && (j >= nb || a[i] <= b[j])) {
                to_keys[o] = a[i];
                to_places[o] = pa[i];
                i++;
            } else {
                to_keys[o] = b[j];
                to_places[o] = pb[j];
                j++;
            }
        }
    }
}

/* The first k of each sorted line. */
KERNEL void sort_write(MEM(T, values), MEM(i64, indices), MEM(const T, x), MEM(const u32, places), sort_t q)
{
    OPEN(T, values);
    OPEN(i64, indices);
    OPEN(const T, x);
    OPEN(const u32, places);
    u64 k = (u64)q.k;

    FOR_RANGES(from, to, (u64)q.n_lines * k)
    {
        while (from < to) {
            u64 line = from / k, i = from - line * k, m = k - i < to - from ? k - i : to - from;
            place_t at = loop_at(q.lines, line + (u64)q.first_line);

            for (u64 end = i + m; i < end; i++) {
                i64 place = (i64)places[line * (u64)q.n + i], o = at.out + (i64)i * q.out_stride;

                indices[o] = place;
                if (q.with_values != 0)
                    values[o] = x[at.x + place * q.x_stride];
            }
            from += m;
        }
    }
}

/* How often neighbours in sorted order differ, in pieces: counts[piece]. */
KERNEL void sort_groups(MEM(u64, counts), MEM(const key_t, keys), u64 n, u64 piece)
{
    OPEN(u64, counts);
    OPEN(const key_t, keys);

    FOR_EACH(t, (n + piece - 1) / piece)
    {
        u64 end = (t + 1) * piece < n ? (t + 1) * piece : n, count = 0;

        for (u64 i = t * piece; i < end; i++)
            count += i == 0 || keys[i] != keys[i - 1];
        counts[t] = count;
    }
}

/* ---- the k best, k small ----------------------------------------------------------------------- */

#define MOST 64

/* The best of each block, in order: keys and places [lines, blocks, k]. */
KERNEL void topk_blocks(MEM(const T, x), MEM(key_t, keys), MEM(u32, places), sort_t q)
{
    OPEN(const T, x);
    OPEN(key_t, keys);
    OPEN(u32, places);
    u32 descending = q.descending, k = (u32)q.k;

    FOR_EACH(t, (u64)(q.n_lines * q.blocks))
    {
        key_t best[MOST];
        u32 place[MOST], have = 0;
        u64 line = t / (u64)q.blocks, first = (t - line * (u64)q.blocks) * (u64)q.block;
        u32 n = (u32)((u64)q.n - first < (u64)q.block ? (u64)q.n - first : (u64)q.block);
        GLOBAL const T *from = x + loop_at(q.lines, line + (u64)q.first_line).x + (i64)first * q.x_stride;

        for (u32 i = 0; i < n; i++) {
            key_t v = KEY(from, (i64)i * q.x_stride);
            u32 j;

            if (have == k && v >= best[k - 1])
                continue;
            j = have < k ? have++ : k - 1;
            for (; j > 0 && best[j - 1] > v; j--) {
                best[j] = best[j - 1];
                place[j] = place[j - 1];
            }
            best[j] = v;
            place[j] = (u32)first + i;
        }
        for (u32 j = 0; j < have; j++) {
            keys[t * k + j] = best[j];
            places[t * k + j] = place[j];
        }
    }
}

/* The best of all blocks of a line. */
KERNEL void topk_write(MEM(T, values), MEM(i64, indices), MEM(const T, x), MEM(const key_t, keys),
                       MEM(const u32, places), sort_t q)
{
    OPEN(T, values);
    OPEN(i64, indices);
    OPEN(const T, x);
    OPEN(const key_t, keys);
    OPEN(const u32, places);
    u32 k = (u32)q.k;

    FOR_EACH(line, (u64)q.n_lines)
    {
        key_t best[MOST];
        u32 place[MOST], have = 0;
        place_t at = loop_at(q.lines, line + (u64)q.first_line);

        for (u64 b = 0; b < (u64)q.blocks; b++) {
            u64 in = (line * (u64)q.blocks + b) * k, left = (u64)q.n - b * (u64)q.block;
            u32 n = left < (u64)q.block ? (u32)left : (u32)q.block;

            n = n < k ? n : k;
            for (u32 i = 0; i < n; i++) {
                key_t v = keys[in + i];
                u32 j;

                if (have == k && v >= best[k - 1])
                    break;
                j = have < k ? have++ : k - 1;
                for (; j > 0 && best[j - 1] > v; j--) {
                    best[j] = best[j - 1];
                    place[j] = place[j - 1];
                }
                best[j] = v;
                place[j] = places[in + i];
            }
        }
        for (u32 j = 0; j < k; j++) {
            i64 o = at.out + (i64)j * q.out_stride;

            indices[o] = (i64)place[j];
            values[o] = x[at.x + (i64)place[j] * q.x_stride];
        }
    }
}
