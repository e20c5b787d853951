/* SPDX-License-Identifier: Apache-2.0 */
/* Which meeting in a file this is: the file may be left from earlier ones. */
#ifndef TTI_RENDEZVOUS_GENERATION_H
#define TTI_RENDEZVOUS_GENERATION_H

#include "base/status.h"
#include "tutti/store.h"

/* Joins the current meeting, or opens the next one when this rank has been in it already or a member of it
 * is dead. Gives a view of the store for this meeting alone. */
tt_status tti_generation_join(tt_store *store, int rank, int size, tt_store **view_p);

#endif
