/* SPDX-License-Identifier: Apache-2.0 */
/* Rings of links inside other structs; the list itself is a link, too. */
#ifndef TTI_COLL_P2P_LIST_H
#define TTI_COLL_P2P_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tti_link {
    struct tti_link *next, *prev;
} tti_link;

static inline void tti_list_init(tti_link *list)
{
    list->next = list->prev = list;
}

static inline bool tti_list_empty(const tti_link *list)
{
    return list->next == list;
}

static inline void tti_list_add(tti_link *list, tti_link *l)
{
    l->next = list;
    l->prev = list->prev;
    list->prev->next = l;
    list->prev = l;
}

static inline void tti_list_remove(tti_link *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    l->next = l->prev = l;
}

/* The struct whose first member is the link. */
#define TTI_LIST_AT(l, type) ((type *)(void *)(l))
/* The first of a list, NULL when it is empty. */
#define TTI_LIST_FIRST(list, type) (tti_list_empty(list) ? NULL : TTI_LIST_AT((list)->next, type))

#endif
