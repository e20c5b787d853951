/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of data parallel training share: modules that record their inputs, the check of a logged
 * error, what backends can do, sparse inputs with known sums. */
#ifndef TESTS_HARNESS_DDP_TOOLS_H
#define TESTS_HARNESS_DDP_TOOLS_H

#include <tutti/nn.h>
#include <tutti/tensor.h>
#include <tutti/testing.h>
#include <tutti/value.h>

/* Linear(100, 100) that sets inputs[key], a map of the caller's, to the input of its last forward. With
 * `cast` the input is converted to the type of the weight first. */
tt_module *recording_module_new(tt_value *inputs, const char *key, bool cast);
/* Two of them, keys "c1" and "c2"; its own input is recorded as "model". */
tt_module *recording_model_new(tt_value *inputs, bool cast);

/* The record of a failed step: has iteration, has_error and error, and the error contains `words`; a
 * stack appended to either is not compared. */
bool check_error_logged(const tt_value *record, const char *words);

/* Whether tests of `feature` can run with the backend: "all_gather_coalesced", "recv_any_source",
 * "cpu_barrier", "device", "ddp", "subgroup", "plugin". */
bool backend_can(const char *backend, const char *feature);

/* Whether replicas on this kind of device use the rank as the index of their device. */
bool device_is_rank(const char *device);

enum { N_SPARSE_CASES = 6 };
/* Case 0 to 2: 1 to 3 sparse dimensions; 3 to 5: 1 sparse and 1 to 3 dense ones. What `rank` holds,
 * and the sum over all, in the scope. */
tt_tensor *sparse_case_input(int which, int rank, int size);
tt_tensor *sparse_case_sum(int which, int size);

/* The address of a network interface, "lo" for instance; false when there is none. NULL: loopback. */
bool interface_address(const char *name, char *text, size_t size);

#endif
