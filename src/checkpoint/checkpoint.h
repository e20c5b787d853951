/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of checkpoints: files, directories, agreement. Paths that are returned are the caller's. */
#ifndef TTI_CHECKPOINT_CHECKPOINT_H
#define TTI_CHECKPOINT_CHECKPOINT_H

#include "base/mem.h"
#include "base/text.h"
#include "tutti/checkpoint.h"
#include "tutti/collective.h"

#define TTI_MANIFEST "manifest.cbor"
#define TTI_LATEST "latest"

/* ---- files.c ------------------------------------------------------------------------------ */

char *tti_path_join(const char *dir, const char *name);
/* A value with a checksum in front, to and from a file. */
tt_status tti_value_write(const char *path, const tt_value *v);
tt_value *tti_value_read(const char *path);
/* {"file", "bytes", "crc"} of a file that was written; NULL on failure. */
tt_value *tti_file_facts(const char *dir, const char *name);
/* That all files which a manifest lists are in `dir` as they were written. */
tt_status tti_check_files(const char *dir, const tt_value *manifest);

/* ---- dirs.c ------------------------------------------------------------------------------- */

/* A new directory for this step: its name, not its path. Removes incomplete ones first: they may be what fills the
 * disk. */
char *tti_checkpoint_make_dir(const char *dir, int64_t step);
/* Removes what is incomplete or too old; `latest` is the name of the newest, NULL if none is to be treated apart.
 * Failures are only logged. */
void tti_checkpoint_prune(const char *dir, const char *latest, int keep);
/* Removes one checkpoint, complete or not. A failure is only logged. */
void tti_checkpoint_remove(const char *dir, const char *name);
/* One more than the greatest number of a save in `dir`: manifests have it, so that one can tell which is newest although
 * steps may be repeated. */
tt_status tti_checkpoint_next_serial(const char *dir, int64_t *serial_p);
tt_status tti_checkpoint_set_latest(const char *dir, const char *name);

/* ---- agree.c ------------------------------------------------------------------------------ */

int tti_group_rank(const tt_pg *pg);       /* NULL: 0 */
int tti_checkpoint_ranks(const tt_pg *pg); /* NULL: 1 */
/* Every rank gives how it fared and a value (NULL will do, and is so after a failure): *all_p, a list by ranks,
 * is the caller's. Fails everywhere if one rank failed, naming it. Collective. all_p may be NULL. */
tt_status tti_agree(tt_pg *pg, tt_status st, const tt_value *mine, tt_value **all_p);
/* Rank 0's text, or its failure: *text_p is replaced on the others. Collective. */
tt_status tti_agree_text(tt_pg *pg, tt_status st, char **text_p);

#endif
