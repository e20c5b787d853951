/* SPDX-License-Identifier: Apache-2.0 */
/* Thread-local variables that every operator touches. Their place is fixed when the library is loaded, so
 * that reaching them takes no call. Few and small: such space is limited for libraries opened late. */
#ifndef TTI_BASE_TLS_H
#define TTI_BASE_TLS_H

#define TTI_HOT_TLS _Thread_local __attribute__((tls_model("initial-exec")))

#endif
