/* SPDX-License-Identifier: Apache-2.0 */
/* Files of one array, .npy: a magic word, a version, a header in the syntax of a Python dictionary with
 * exactly the keys descr, fortran_order and shape, then the elements. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "io/host.h"
#include "tutti/io.h"
#include "tensor/debug.h"

#define MAGIC "\x93NUMPY"
#define MAGIC_BYTES 6

static const struct {
    tt_dtype dtype;
    char code[4];
} codes[] = {
    { TT_F32, "f4" },  { TT_F64, "f8" }, { TT_F16, "f2" },   { TT_I8, "i1" },
    { TT_U8, "u1" },   { TT_I16, "i2" }, { TT_I32, "i4" },   { TT_I64, "i8" },
    { TT_BOOL, "b1" }, { TT_C64, "c8" }, { TT_C128, "c16" },
};
#define N_CODES (sizeof codes / sizeof codes[0])

/* ---- the header -------------------------------------------------------------------------- */

typedef struct header {
    tt_dtype dtype;
    bool fortran;
    tt_shape shape;
    unsigned seen; /* bit per key */
} header;

/* A place in the text of the header; never beyond `end`. */
typedef struct cursor {
    const char *at, *end;
} cursor;

static tt_status bad(const char *why)
{
    return TT_FAIL(TT_ERR_FORMAT, "npy: %s", why);
}

static void skip_space(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
        c->at++;
}

/* Take the word if it comes next. */
static bool take(cursor *c, const char *word)
{
    size_t n = strlen(word);

    skip_space(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0)
        return false;
    c->at += n;
    return true;
}

static tt_status take_text(cursor *c, char *text, size_t room)
{
    char quote;
    size_t n = 0;

    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return bad("expected a quoted word in the header");
    quote = *c->at++;
    for (; c->at < c->end && *c->at != quote; c->at++) {
        if (*c->at == '\\' || n + 1 >= room)
            return bad("a word in the header is too long or has a backslash");
        text[n++] = *c->at;
    }
    if (c->at == c->end)
        return bad("a quoted word in the header does not end");
    c->at++;
    text[n] = '\0';
    return TT_OK;
}

static tt_status take_type(cursor *c, header *h)
{
    char text[32];

    skip_space(c);
    if (c->at < c->end && *c->at == '[')
        return TT_FAIL(TT_ERR_UNSUPPORTED, "npy: arrays of records are not supported");
    TT_TRY(take_text(c, text, sizeof text));
    if (text[0] == '>')
        return TT_FAIL(TT_ERR_UNSUPPORTED, "npy: big-endian type \"%s\" is not supported", text);
    for (size_t i = 0; i < N_CODES; i++) {
        bool order_ok = text[0] == '<' || (text[0] == '|' && codes[i].code[1] == '1');

        if (order_ok && strcmp(text + 1, codes[i].code) == 0) {
            h->dtype = codes[i].dtype;
            return TT_OK;
        }
    }
    return TT_FAIL(TT_ERR_UNSUPPORTED, "npy: element type \"%s\" is not supported", text);
}

static tt_status take_size(cursor *c, int64_t *size_p)
{
    int64_t n = 0;
    const char *first;

    skip_space(c);
    first = c->at;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *c->at - '0', &n))
            return bad("a size in the header is too large");
    if (c->at == first)
        return bad("expected a size in the header");
    take(c, "L");
    *size_p = n;
    return TT_OK;
}

static tt_status take_shape(cursor *c, header *h)
{
    tt_shape *s = &h->shape;

    s->n_dims = 0;
    if (!take(c, "("))
        return bad("expected a shape in parentheses");
    while (!take(c, ")")) {
        if (s->n_dims == TT_MAX_DIMS)
            return TT_FAIL(TT_ERR_UNSUPPORTED, "npy: more than %d dimensions", TT_MAX_DIMS);
        TT_TRY(take_size(c, &s->dims[s->n_dims++]));
        if (take(c, ","))
            continue;
        if (!take(c, ")"))
            return bad("expected a comma or the end of the shape");
        break;
    }
    return TT_OK;
}

static tt_status take_pair(cursor *c, header *h)
{
    char key[32];
    unsigned bit;

    TT_TRY(take_text(c, key, sizeof key));
    if (!take(c, ":"))
        return bad("expected a colon after a key of the header");
    if (strcmp(key, "descr") == 0) {
        bit = 1;
        TT_TRY(take_type(c, h));
    } else if (strcmp(key, "fortran_order") == 0) {
        bit = 2;
        h->fortran = take(c, "True");
        if (!h->fortran && !take(c, "False"))
            return bad("expected True or False for fortran_order");
    } else if (strcmp(key, "shape") == 0) {
        bit = 4;
        TT_TRY(take_shape(c, h));
    } else {
        return TT_FAIL(TT_ERR_FORMAT, "npy: unknown key \"%s\" in the header", key);
    }
    if ((h->seen & bit) != 0)
        return TT_FAIL(TT_ERR_FORMAT, "npy: key \"%s\" comes twice", key);
    h->seen |= bit;
    return TT_OK;
}

static tt_status parse_header(cursor c, header *h)
{
    if (!take(&c, "{"))
        return bad("expected the header to begin with a brace");
    while (!take(&c, "}")) {
        TT_TRY(take_pair(&c, h));
        if (take(&c, ","))
            continue;
        if (!take(&c, "}"))
            return bad("expected a comma or the end of the header");
        break;
    }
    skip_space(&c);
    if (c.at != c.end)
        return bad("expected nothing after the header's dictionary");
    return h->seen == 7 ? TT_OK : bad("the header must have descr, fortran_order and shape");
}

/* ---- reading ----------------------------------------------------------------------------- */

/* Where the text of the header is, and so where the elements begin: at its end. */
static tt_status find_header(const tti_bytes *b, cursor *c)
{
    const unsigned char *p = b->data;
    size_t length, start;

    if (b->size < MAGIC_BYTES + 4 || memcmp(p, MAGIC, MAGIC_BYTES) != 0)
        return bad("the file does not begin like a .npy file");
    if (p[6] < 1 || p[6] > 3)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "npy: version %d.%d is not supported", p[6], p[7]);
    length = (size_t)p[8] | (size_t)p[9] << 8;
    start = 10;
    if (p[6] > 1) {
        if (b->size < 12)
            return bad("the file ends inside its header");
        length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
        start = 12;
    }
    if (length > b->size - start)
        return bad("the file ends inside its header");
    c->at = (const char *)p + start;
    c->end = c->at + length;
    return TT_OK;
}

static tt_tensor *load(tti_bytes *b)
{
    header h = { 0 };
    cursor c;
    int64_t strides[TT_MAX_DIMS], n, bytes, step = 1;
    size_t offset;

    if (find_header(b, &c) != TT_OK || parse_header(c, &h) != TT_OK)
        return NULL;
    offset = (size_t)(c.end - (const char *)b->data);
    n = tti_numel(h.shape.dims, h.shape.n_dims);
    if (n < 0 || __builtin_mul_overflow(n, (int64_t)tt_dtype_size(h.dtype), &bytes) ||
        (uint64_t)bytes > b->size - offset)
        return TT_FAIL_NULL(TT_ERR_FORMAT,
                            "npy: shape %s of %s needs more than the %zu bytes that are there",
                            TTI_SHAPE_OF(&h.shape), tt_dtype_name(h.dtype), b->size - offset);
    for (int i = 0; i < h.shape.n_dims; i++) {
        strides[i] = step;
        step *= h.shape.dims[i] > 1 ? h.shape.dims[i] : 1;
    }
    return tti_over_bytes(b, offset, h.shape, h.fortran ? strides : NULL, h.dtype);
}

tt_tensor *tt_npy_load(const char *path)
{
    tti_bytes *b = tti_bytes_map("npy", path);
    tt_tensor *t = b != NULL ? load(b) : NULL;

    tti_bytes_free(b);
    return t;
}

tt_tensor *tt_npy_parse(const void *data, size_t size)
{
    tti_bytes *b;
    tt_tensor *t;

    if (data == NULL && size != 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "npy: expected bytes, got NULL");
    b = tti_bytes_copy(data, size);
    t = b != NULL ? load(b) : NULL;
    tti_bytes_free(b);
    return t;
}

/* ---- writing ----------------------------------------------------------------------------- */

static const char *code_of(tt_dtype d)
{
    for (size_t i = 0; i < N_CODES; i++)
        if (codes[i].dtype == d)
            return codes[i].code;
    return NULL;
}

/* Magic, version 1, and the header padded so that the elements begin at a multiple of 64. */
static size_t make_header(const tt_tensor *t, char *out, size_t room)
{
    const char *code = code_of((tt_dtype)t->dtype);
    size_t n = MAGIC_BYTES + 4, total;

    n += (size_t)snprintf(out + n, room - n, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                          tti_esize(t) == 1 ? '|' : '<', code);
    for (int i = 0; i < t->n_dims; i++)
        n +=
            (size_t)snprintf(out + n, room - n, "%s%lld%s", i > 0 ? " " : "", (long long)t->dims[i],
                             i < t->n_dims - 1 || t->n_dims == 1 ? "," : "");
    n += (size_t)snprintf(out + n, room - n, "), }");
    total = (n + 1 + 63) / 64 * 64;
    memset(out + n, ' ', total - n - 1);
    out[total - 1] = '\n';
    memcpy(out, MAGIC "\x01", MAGIC_BYTES + 2);
    out[8] = (char)((total - 10) & 255);
    out[9] = (char)((total - 10) >> 8);
    return total;
}

tt_status tt_npy_save(const char *path, tt_tensor *t)
{
    char head[512];
    tti_writer w;
    tt_tensor *host;
    tt_status st;

    TT_TRY(tti_check_alive(t, "npy"));
    if (t == NULL) /* an expression that failed: its error stays */
        return tti_null_given("npy", "a tensor");
    if (t->storage == NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "npy: sparse tensors cannot be written");
    if (code_of((tt_dtype)t->dtype) == NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "npy: the format has no %s: convert it first",
                       tt_dtype_name((tt_dtype)t->dtype));
    TT_SCOPE {
        host = tti_host_contiguous(t);
        if (host == NULL)
            return tt_last_status();
        tti_writer_open(&w, "npy", path, TTI_WRITER_DURABLE);
        tti_writer_put(&w, head, make_header(host, head, sizeof head));
        tti_writer_put(&w, tti_data(host), tt_tensor_bytes(host));
        st = tti_writer_finish(&w);
    }
    return st;
}
