/* SPDX-License-Identifier: Apache-2.0 */
/* A small hash map from pointers to pointers: which tensors and modules were seen already. */
#include "nn/module.h"

static size_t place(const tti_ptr_map *map, const void *key)
{
    size_t at = ((uintptr_t)key >> 4) * (size_t)0x9E3779B97F4A7C15u >> 7;

    for (at &= map->cap - 1; map->keys[at] != NULL && map->keys[at] != key;)
        at = (at + 1) & (map->cap - 1);
    return at;
}

static tt_status grow(tti_ptr_map *map)
{
    tti_ptr_map bigger = { .n = map->n, .cap = map->cap != 0 ? 2 * map->cap : 64 };

    bigger.keys = tti_calloc(bigger.cap, sizeof *bigger.keys);
    bigger.values = tti_calloc(bigger.cap, sizeof *bigger.values);
    if (bigger.keys == NULL || bigger.values == NULL) {
        tti_ptr_map_fini(&bigger);
        return TT_ERR_NOMEM;
    }
    for (size_t i = 0; i < map->cap; i++) {
        size_t at;

        if (map->keys[i] == NULL)
            continue;
        at = place(&bigger, map->keys[i]);
        bigger.keys[at] = map->keys[i];
        bigger.values[at] = map->values[i];
    }
    tti_ptr_map_fini(map);
    *map = bigger;
    return TT_OK;
}

tt_status tti_ptr_map_add(tti_ptr_map *map, const void *key, void *value, bool *found_p)
{
    size_t at;

    if (2 * (map->n + 1) > map->cap)
        TT_TRY(grow(map));
    at = place(map, key);
    *found_p = map->keys[at] != NULL;
    if (!*found_p) {
        map->keys[at] = key;
        map->values[at] = value;
        map->n++;
    }
    return TT_OK;
}

void *tti_ptr_map_get(const tti_ptr_map *map, const void *key)
{
    if (map->cap == 0)
        return NULL;
    return map->values[place(map, key)];
}

void tti_ptr_map_fini(tti_ptr_map *map)
{
    tti_mfree(map->keys);
    tti_mfree(map->values);
    *map = (tti_ptr_map){ 0 };
}
