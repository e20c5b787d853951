/* SPDX-License-Identifier: Apache-2.0 */
/* All of Tutti's core in one include. (testing.h, the test harness, is separate.)
 *
 *     #include <tutti/tutti.h>
 *
 *     int main(void)
 *     {
 *         TT_SCOPE tt_print(tt_mul_scalar(TT_FLOATS(1, 2, 3), 2));       // tensor([2., 4., 6.])
 *     }
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include "tutti/amp.h"
#include "tutti/autograd.h"
#include "tutti/average.h"
#include "tutti/base.h"
#include "tutti/checkpoint.h"
#include "tutti/collective.h"
#include "tutti/data.h"
#include "tutti/ddp.h"
#include "tutti/ddp_hooks.h"
#include "tutti/device.h"
#include "tutti/error.h"
#include "tutti/functional.h"
#include "tutti/io.h"
#include "tutti/join.h"
#include "tutti/layers.h"
#include "tutti/memory.h"
#include "tutti/models.h"
#include "tutti/nn.h"
#include "tutti/observe.h"
#include "tutti/ops.h"
#include "tutti/optim.h"
#include "tutti/parallel.h"
#include "tutti/pg.h"
#include "tutti/prof.h"
#include "tutti/progress.h"
#include "tutti/random.h"
#include "tutti/reducer.h"
#include "tutti/rendezvous.h"
#include "tutti/schedule.h"
#include "tutti/sparse.h"
#include "tutti/store.h"
#include "tutti/stream.h"
#include "tutti/syncbn.h"
#include "tutti/tensor.h"
#include "tutti/value.h"
#include "tutti/work.h"
#include "tutti/zero.h"

#endif
