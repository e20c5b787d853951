/* SPDX-License-Identifier: Apache-2.0 */
/* One test per golden case: suite golden_<family>, named like the case. The cases come from
 * the files of ops here, or from the folder that TUTTI_TEST_CASES names (suite parity_<family>). */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden/golden.h"
#include "tutti/testing.h"

typedef struct test_case {
    const golden_file *file;
    const cJSON *entry;
} test_case;

static const char suffix[] = ".safetensors";

static void run(void *ctx)
{
    const test_case *test = ctx;
    const char *op = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(test->entry, "op"));

    TT_SCOPE {
        if (strcmp(op, "result_type") == 0)
            golden_check_promotion(test->file, test->entry);
        else
            golden_check_case(test->file, test->entry);
    }
}

/* Files that cannot be read are a failure of their own. */
static void broken_file(void *ctx)
{
    TT_FAIL_TEST("%s", (const char *)ctx);
}

static void add_file(const char *path, const char *suite)
{
    const char *why = "";
    golden_file *file = golden_file_open(path, &why);
    const cJSON *list = NULL, *entry = NULL;

    if (file == NULL) {
        tt_test_add(suite, "the file can be read", broken_file, (void *)why);
        return;
    }
    list = cJSON_GetObjectItemCaseSensitive(file->document, "cases");
    test_case *tests = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*tests));
    cJSON_ArrayForEach(entry, list)
    {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "name"));

        if (tests == NULL || name == NULL)
            return;
        *tests = (test_case){ file, entry };
        tt_test_add(suite, name, run, tests++)->together = true;
    }
}

static int is_case_file(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name), m = strlen(suffix);

    return n > m && strcmp(entry->d_name + n - m, suffix) == 0;
}

TT_TEST_TABLE(golden)
{
    const char *elsewhere = getenv("TUTTI_TEST_CASES");
    const char *folder = elsewhere != NULL ? elsewhere : TT_TESTS_DIR "/golden/ops";
    struct dirent **names = NULL;
    int n = scandir(folder, &names, is_case_file, alphasort);

    for (int i = 0; i < n; i++) {
        char path[4096], suite[128];
        int stem = (int)(strlen(names[i]->d_name) - strlen(suffix));

        snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
        snprintf(suite, sizeof(suite), "%s_%.*s", elsewhere != NULL ? "parity" : "golden", stem,
                 names[i]->d_name);
        add_file(path, suite);
        free(names[i]);
    }
    free(names);
    if (n <= 0)
        tt_test_add("golden", "there are files with cases", broken_file,
                    (void *)"no golden cases were found");
}
