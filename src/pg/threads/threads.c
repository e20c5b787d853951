/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are threads of one process: the same algorithms, on each other's memory. */
#include "pg/team_backend.h"

const tti_backend_ops tti_backend_threads = TTI_TEAM_BACKEND("threads", true);
