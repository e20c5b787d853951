/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of one host: the memory they share is the network. */
#include "pg/team_backend.h"

const tti_backend_ops tti_backend_shm = TTI_TEAM_BACKEND("shm", false);
