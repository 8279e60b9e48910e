/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A random stream of work requests in one direction of a connection, many in flight, with a model
 * of what each must do: see stream.c.
 */
#ifndef SPRAY_CONTRACT_STREAM_H
#define SPRAY_CONTRACT_STREAM_H

#include "contract.h"

enum st_op { ST_SEND, ST_SEND_IMM, ST_WRITE, ST_WRITE_IMM, ST_READ, ST_FADD, ST_CAS, ST_OPS };

struct stream_cfg {
	int ops, quick_ops, depth, recvs;
	size_t max; /* bytes of a message */
	int mix[ST_OPS]; /* weights */
	bool credits; /* never more messages out than receives posted */
};

struct stream;

struct stream *stream_new(struct conn *c, int from, const struct stream_cfg *cfg);
/* Some posting and polling; true when everything is done and checked. */
bool stream_step(struct stream *s);
void stream_run(struct stream **s, int n);

#endif
