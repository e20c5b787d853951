/* SPDX-License-Identifier: Apache-2.0 */
/* Elements chosen by a mask. Chunks are counted first, then what is before each, then every chunk knows where
 * its elements go. Needs loops.cl, index_element.cl. */

/* counts[chunk]: elements with any of `bits` set. */
KERNEL void mask_count(MEM(u64, counts), MEM(const E, x), u64 n, u64 chunk, u64 bits)
{
    OPEN(u64, counts);
    OPEN(const E, x);

    FOR_EACH(t, (n + chunk - 1) / chunk)
    {
        u64 end = (t + 1) * chunk < n ? (t + 1) * chunk : n;
        u32 count = 0;

        for (u64 i = t * chunk; i < end; i++)
            count += IS_SET(x[i], bits);
        counts[t] = count;
    }
}

/* Counts become what is before each chunk, and after the last one there is the sum. */
KERNEL void mask_before(MEM(u64, counts), u64 chunks)
{
    OPEN(u64, counts);

    if (GID == 0) {
        u64 sum = 0;

        for (u64 t = 0; t < chunks; t++) {
            u64 count = counts[t];

            counts[t] = sum;
            sum += count;
        }
        counts[chunks] = sum;
    }
}

/* out [count, dims]: the coordinates of elements in a tensor of these dims */
KERNEL void mask_nonzero(MEM(i64, out), MEM(const u64, counts), MEM(const E, x), u64 n, u64 chunk, u64 bits,
                         loop_t dims)
{
    OPEN(i64, out);
    OPEN(const u64, counts);
    OPEN(const E, x);

    FOR_EACH(t, (n + chunk - 1) / chunk)
    {
        u64 end = (t + 1) * chunk < n ? (t + 1) * chunk : n, to = counts[t] * (u64)dims.n;

        for (u64 i = t * chunk; i < end; i++) {
            u64 rest = i;

            if (!IS_SET(x[i], bits))
                continue;
            for (i32 d = (i32)dims.n - 1; d > 0; d--) {
                u64 above = rest / (u64)dims.dims[d];

                out[to + (u64)d] = (i64)(rest - above * (u64)dims.dims[d]);
                rest = above;
            }
            out[to] = (i64)rest;
            to += (u64)dims.n;
        }
    }
}

KERNEL void mask_select(MEM(E, out), MEM(const E, x), MEM(const u8, mask), MEM(const u64, counts), u64 n,
                        u64 chunk)
{
    OPEN(E, out);
    OPEN(const E, x);
    OPEN(const u8, mask);
    OPEN(const u64, counts);

    FOR_EACH(t, (n + chunk - 1) / chunk)
    {
        u64 end = (t + 1) * chunk < n ? (t + 1) * chunk : n, to = counts[t];

        for (u64 i = t * chunk; i < end; i++)
            if (mask[i] != 0)
                out[to++] = x[i];
    }
}

/* src has `size` elements: a mask that wants more is trouble. */
KERNEL void mask_scatter(MEM(E, out), MEM(const E, src), MEM(const u8, mask), MEM(const u64, counts),
                         MEM(i64, trouble), u64 n, u64 chunk, u64 size, i32 op)
{
    OPEN(E, out);
    OPEN(const E, src);
    OPEN(const u8, mask);
    OPEN(const u64, counts);
    OPEN(i64, trouble);

    FOR_EACH(t, (n + chunk - 1) / chunk)
    {
        u64 end = (t + 1) * chunk < n ? (t + 1) * chunk : n, from = counts[t];

        for (u64 i = t * chunk; i < end; i++) {
            if (mask[i] == 0)
                continue;
            if (from < size)
                out[i] = src[from];
            else
                TROUBLE(trouble, op, from, size, i);
            from++;
        }
    }
}
