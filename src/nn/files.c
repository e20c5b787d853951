/* SPDX-License-Identifier: Apache-2.0 */
/* State dictionaries in safetensors files. */
#include "base/error.h"
#include "nn/module.h"
#include "tutti/io.h"

tt_status tt_state_dict_save(const tt_state_dict *sd, const char *path)
{
    tt_named_tensor *rows;
    tt_status st;

    if (sd == NULL || path == NULL)
        return tti_null_given("state dict save", "a dictionary and a path");
    rows = tti_calloc(sd->n + 1, sizeof *rows);
    if (rows == NULL)
        return TT_ERR_NOMEM;
    for (size_t i = 0; i < sd->n; i++)
        rows[i] = (tt_named_tensor){ sd->items[i].name, sd->items[i].t };
    st = tt_safetensors_save(path, rows, (int)sd->n, &(tt_text_pair){ "format", "pt" }, 1);
    tti_mfree(rows);
    return st;
}

static tt_status read_all(tt_safetensors *file, tt_state_dict *sd)
{
    for (int i = 0; i < tt_safetensors_count(file); i++) {
        tt_safetensors_info info;

        TT_TRY(tt_safetensors_at(file, i, &info));
        TT_SCOPE {
            tt_tensor *t = tt_safetensors_get(file, info.name);

            if (t == NULL)
                return tt_last_status();
            TT_TRY(tti_state_dict_append(sd, info.name, t));
        }
    }
    return TT_OK;
}

tt_state_dict *tt_state_dict_load(const char *path)
{
    tt_safetensors *file = tt_safetensors_open(path);
    tt_state_dict *sd = file != NULL ? tt_state_dict_new() : NULL;

    if (sd != NULL && read_all(file, sd) != TT_OK) {
        tt_state_dict_free(sd);
        sd = NULL;
    }
    tt_safetensors_free(file);
    return sd;
}

tt_status tt_module_save(const tt_module *m, const char *path)
{
    tt_state_dict *sd = tt_module_state_dict(m);
    tt_status st = sd != NULL ? tt_state_dict_save(sd, path) : tt_last_status();

    tt_state_dict_free(sd);
    return st;
}

tt_status tt_module_load(tt_module *m, const char *path, const tt_load_options *opt)
{
    tt_state_dict *sd;
    tt_status st;

    if (m == NULL)
        return tti_null_given("module_load", "a module");
    sd = tt_state_dict_load(path);
    st = sd != NULL ? tt_module_load_state_dict(m, sd, opt, NULL) : tt_last_status();
    tt_state_dict_free(sd);
    return st;
}
