/* SPDX-License-Identifier: Apache-2.0 */
/* Between the requests that wait and the answers they get. */
#ifndef TTI_STORE_ANSWER_H
#define TTI_STORE_ANSWER_H

#include "store/hub.h"

/* Answers a request that waits, if what it waits for is there or its time is over; false: it waits on. */
bool tti_answer_waiting(tti_hub *h, tti_request *r, bool over);
/* Lists a request as waiting; false: no memory. */
bool tti_hub_park(tti_hub *h, tti_request *r);
/* Tells the hub that a key has a new value. */
void tti_hub_changed(tti_hub *h, const char *key);

#endif
