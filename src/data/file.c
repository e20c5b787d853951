/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a whole file into memory; zlib unpacks what is compressed and passes on what is not. */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/open.h"
#include "data/data.h"

#define PIECE ((size_t)1 << 20)

typedef struct source_file {
    const char *what, *path;
    tti_limit_fn limit;
} source_file;

/* A file that unpacks to more than it may have is not read to its end. */
static tt_status check_limit(tti_limit_fn limit, const char *text, size_t n, const char *what,
                             const char *path)
{
    size_t most = limit != NULL ? limit(text, n) : SIZE_MAX;

    if (n <= most)
        return TT_OK;
    return TT_FAIL(TT_ERR_FORMAT, "%s: %s: more than the %zu bytes that its header claims", what,
                   path, most);
}

static tt_status read_all(gzFile f, const source_file *source, char **text_p, size_t *size_p)
{
    const char *what = source->what, *path = source->path;
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
        if (check_limit(source->limit, text, n, what, path) != TT_OK) {
            tti_mfree(text);
            return TT_ERR_FORMAT;
        }
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

char *tti_file_read(const char *what, const char *path, tti_limit_fn limit, size_t *size_p)
{
    source_file source = { what, path, limit };
    char *text = NULL;
    gzFile f;
    int fd;

    if (path == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "%s: expected a path, got NULL", what);
    fd = tti_open_regular(what, path);
    if (fd < 0)
        return NULL;
    f = gzdopen(fd, "rb");
    if (f == NULL) {
        close(fd);
        return TT_FAIL_NULL(TT_ERR_NOMEM, "%s: %s: out of memory", what, path);
    }
    gzbuffer(f, 1 << 17);
    if (close_all(f, what, path, read_all(f, &source, &text, size_p)) != TT_OK) {
        tti_mfree(text);
        return NULL;
    }
    return text;
}
