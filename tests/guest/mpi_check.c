// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Collectives, messages and one-sided operations of MPI, every result checked.
 *
 *   mpicc -O2 -o mpi_check mpi_check.c && mpirun -np 4 ./mpi_check [ROUNDS]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me, n;

static void fail(const char *what, long where, long got, long want)
{
	fprintf(stderr, "rank %d: %s at %ld: %ld, not %ld\n", me, what, where, got, want);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(const char *what, long where, long got, long want)
{
	if (got != want)
		fail(what, where, got, want);
}

/* Element i of what `from` has for `to` in this round. */
static int32_t val(int round, int from, int to, int i)
{
	return (int32_t)(round * 1000003 + from * 65537 + to * 257 + i * 31);
}

static int32_t *make(int count)
{
	int32_t *p = malloc((size_t)count * sizeof(*p) + 1);

	if (!p)
		fail("malloc", count, 0, 1);
	memset(p, 0xa5, (size_t)count * sizeof(*p));
	return p;
}

static void collectives(int round, int count)
{
	int32_t *s = make(count * n), *r = make(count * n), sum;
	int i, p, root = round % n;

	for (i = 0; i < count; i++)
		s[i] = me == root ? val(round, root, 0, i) : -1;
	MPI_Bcast(s, count, MPI_INT32_T, root, MPI_COMM_WORLD);
	for (i = 0; i < count; i++)
		check("bcast", i, s[i], val(round, root, 0, i));

	for (i = 0; i < count; i++)
		s[i] = me * 7 + i;
	MPI_Allreduce(s, r, count, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD);
	for (i = 0; i < count; i++)
		check("allreduce", i, r[i], 7 * n * (n - 1) / 2 + n * i);
	MPI_Reduce(s, r, count, MPI_INT32_T, MPI_MAX, root, MPI_COMM_WORLD);
	for (i = 0; me == root && i < count; i++)
		check("reduce", i, r[i], (n - 1) * 7 + i);
	MPI_Scan(s, r, count, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD);
	for (i = 0; i < count; i++)
		check("scan", i, r[i], 7 * me * (me + 1) / 2 + (me + 1) * i);

	for (p = 0; p < n; p++)
		for (i = 0; i < count; i++)
			s[p * count + i] = val(round, me, p, i);
	MPI_Alltoall(s, count, MPI_INT32_T, r, count, MPI_INT32_T, MPI_COMM_WORLD);
	for (p = 0; p < n; p++)
		for (i = 0; i < count; i++)
			check("alltoall", p * count + i, r[p * count + i], val(round, p, me, i));
	MPI_Allgather(s, count, MPI_INT32_T, r, count, MPI_INT32_T, MPI_COMM_WORLD);
	for (p = 0; p < n; p++)
		for (i = 0; i < count; i++)
			check("allgather", p * count + i, r[p * count + i], val(round, p, 0, i));
	MPI_Scatter(s, count, MPI_INT32_T, r, count, MPI_INT32_T, root, MPI_COMM_WORLD);
	for (i = 0; i < count; i++)
		check("scatter", i, r[i], val(round, root, me, i));
	MPI_Gather(s, count, MPI_INT32_T, r, count, MPI_INT32_T, root, MPI_COMM_WORLD);
	for (p = 0; me == root && p < n; p++)
		for (i = 0; i < count; i++)
			check("gather", p * count + i, r[p * count + i], val(round, p, 0, i));
	sum = me + 1;
	MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT32_T, MPI_PROD, MPI_COMM_WORLD);
	for (p = 1, i = 1; p <= n; p++)
		i *= p;
	check("product", 0, sum, i);
	free(s);
	free(r);
}

/* Each sends to each, in different sizes, several open at once; half of them synchronously. */
static void messages(int round, int count)
{
	MPI_Request *q = malloc(2 * n * sizeof(*q));
	int32_t *s = make(count * n), *r = make(count * n);
	MPI_Status st;
	int i, p, len, got;

	for (p = 0; p < n; p++)
		MPI_Irecv(r + p * count, count, MPI_INT32_T, p, round, MPI_COMM_WORLD, &q[p]);
	for (p = 0; p < n; p++) {
		len = (count * (me + 1) + p) % (count + 1);
		for (i = 0; i < len; i++)
			s[p * count + i] = val(round, me, p, i);
		(p & 1 ? MPI_Isend : MPI_Issend)(s + p * count, len, MPI_INT32_T, p, round,
						 MPI_COMM_WORLD, &q[n + p]);
	}
	for (p = 0; p < n; p++) {
		MPI_Wait(&q[p], &st);
		MPI_Get_count(&st, MPI_INT32_T, &got);
		len = (count * (p + 1) + me) % (count + 1);
		check("length of a message", p, got, len);
		for (i = 0; i < len; i++)
			check("message", i, r[p * count + i], val(round, p, me, i));
	}
	MPI_Waitall(n, q + n, MPI_STATUSES_IGNORE);
	free(q);
	free(s);
	free(r);
}

static void one_sided(int round, int count)
{
	int next = (me + 1) % n, prev = (me + n - 1) % n, i;
	int32_t *base, *s = make(count), *g = make(count);
	int64_t one = 1, before, *counter;
	MPI_Win win, cwin;

	MPI_Win_allocate((MPI_Aint)count * 4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
	MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &cwin);
	for (i = 0; i < count; i++)
		s[i] = val(round, me, next, i);
	*counter = 0;
	MPI_Win_fence(0, win);
	MPI_Put(s, count, MPI_INT32_T, next, 0, count, MPI_INT32_T, win);
	MPI_Win_fence(0, win);
	for (i = 0; i < count; i++)
		check("put", i, base[i], val(round, prev, me, i));
	MPI_Get(g, count, MPI_INT32_T, next, 0, count, MPI_INT32_T, win);
	MPI_Win_fence(0, win);
	for (i = 0; i < count; i++)
		check("get", i, g[i], val(round, me, next, i));
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, cwin);
	for (i = 0; i < 50; i++) {
		MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, 0, MPI_SUM, cwin);
		MPI_Win_flush(0, cwin);
	}
	MPI_Win_unlock_all(cwin);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, cwin);
	if (!me)
		check("fetch_and_op", 0, *counter, 50 * n);
	MPI_Win_unlock(0, cwin);
	MPI_Win_free(&cwin);
	MPI_Win_free(&win);
	free(s);
	free(g);
}

int main(int argc, char **argv)
{
	static const int sizes[] = { 1, 3, 100, 1000, 5000, 40000, 250000 };
	int rounds, i;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	rounds = argc > 1 ? atoi(argv[1]) : 14;
	for (i = 0; i < rounds; i++) {
		collectives(i, sizes[i % 7]);
		messages(i, sizes[i % 7]);
		if (argc < 3)
			one_sided(i, sizes[i % 6]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (!me)
		printf("%d ranks, %d rounds: all good\n", n, rounds);
	MPI_Finalize();
	return 0;
}
