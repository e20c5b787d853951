/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a whole file into memory; zlib unpacks what is compressed and passes on what is not. */
#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "data/data.h"

#define PIECE ((size_t)1 << 20)

static tt_status read_all(gzFile f, const char *what, const char *path, char **text_p,
                          size_t *size_p)
{
    size_t cap = 0, n = 0;
    char *text = NULL;

    for (;;) {
        int got, code;

        if (tti_vec_reserve((void **)&text, &cap, n + PIECE + 1, 1) != TT_OK) {
            tti_mfree(text);
            return TT_ERR_NOMEM;
        }
        got = gzread(f, text + n, (unsigned)PIECE);
        if (got < 0 || (got < (int)PIECE && !gzeof(f))) {
            const char *words = gzerror(f, &code);
            tt_status st = TT_FAIL(code == Z_ERRNO ? TT_ERR_IO : TT_ERR_FORMAT, "%s: %s: %s", what,
                                   path, code == Z_ERRNO ? strerror(errno) : words);

            tti_mfree(text);
            return st;
        }
        n += (size_t)got;
        if (got < (int)PIECE)
            break;
    }
    text[n] = '\0';
    *text_p = text;
    *size_p = n;
    return TT_OK;
}

/* gzread takes the end of a compressed file that was cut off for its end; closing tells. */
static tt_status close_all(gzFile f, const char *what, const char *path, tt_status st)
{
    int code = gzclose_r(f);

    if (st != TT_OK || code == Z_OK)
        return st;
    return TT_FAIL(TT_ERR_FORMAT, "%s: %s: the compressed file is incomplete", what, path);
}

char *tti_file_read(const char *what, const char *path, size_t *size_p)
{
    char *text = NULL;
    gzFile f;

    if (path == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "%s: expected a path, got NULL", what);
    errno = 0;
    f = gzopen(path, "rb");
    if (f == NULL)
        return TT_FAIL_NULL(errno == ENOENT ? TT_ERR_NOT_FOUND : TT_ERR_IO, "%s: %s: %s", what,
                            path, errno != 0 ? strerror(errno) : "out of memory");
    gzbuffer(f, 1 << 17);
    if (close_all(f, what, path, read_all(f, what, path, &text, size_p)) != TT_OK) {
        tti_mfree(text);
        return NULL;
    }
    return text;
}
