/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a training, for people who compare machines. */
#include "base/env.h"

#include "base/text.h"
#include "tutti/ddp.h"

static void add(tti_text *t, const char *prefix, const char *name, const char *value)
{
    tti_text_addf(t, "env:%s%s=%s\n", prefix, name, value != NULL ? value : "N/A");
}

char *tt_ddp_env_text(void)
{
    static const char *const own[] = {
#define X(name, fallback, help) #name,
#include "base/env.def"
#undef X
    };
    tti_text t = { 0 };

    for (int i = 0; i < TTI_FOREIGN_COUNT; i++)
        add(&t, "", tti_foreign_name((tti_foreign)i), tti_foreign_get((tti_foreign)i));
    for (int i = 0; i < TTI_ENV_COUNT; i++)
        if (i != TTI_ENV_JOB_SECRET) /* it is one */
            add(&t, "TUTTI_", own[i], tti_env_get((tti_env)i));
    return tti_text_take(&t);
}
