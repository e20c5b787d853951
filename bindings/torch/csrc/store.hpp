/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's store as a Tutti store, so that ranks meet where PyTorch's own do. */
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <tutti/store.h>

namespace tutti_torch
{

/* A reference that is yours; throws. Waits do not hold up other users of `store`. */
tt_store *adapt_store(const c10::intrusive_ptr<c10d::Store> &store);

} /* namespace tutti_torch */
