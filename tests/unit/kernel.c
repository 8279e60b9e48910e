// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The unit tests of the core as a self-test of the module. Each test is a
 * kernel thread of its own: there it has a stack to itself, and a check that
 * fails can end it at once, however deep it is. What it had allocated is lost.
 */
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>

#include "../../driver/selftest.h"
#include "kernel.h"
#undef malloc
#undef calloc
#undef free

enum { TEST_MS = 200 };		/* after that, a test tries nothing at random any more */

static bool selftest = true;
module_param(selftest, bool, 0444);
MODULE_PARM_DESC(selftest, "test the core first (default on; debug builds only)");

/* Threads look at this, so it outlives them; tests run one after the other. */
static struct {
	const char *file;
	const struct CMUnitTest *test;
	struct task_struct *task;
	struct completion started;
	ktime_t since;
	bool failed, ended;
	u32 count;
} run;

void unit_fail(const char *file, int line, const char *fmt, ...)
{
	struct va_format f = { .fmt = fmt };
	va_list args;

	run.failed = true;
	va_start(args, fmt);
	f.va = &args;
	pr_err("rdma_spray: self-test: %s:%d: %s: %pV\n", kbasename(file), line,
	       run.test->name, &f);
	va_end(args);
	if (current == run.task)
		kthread_complete_and_exit(NULL, 0);
}

static int unit_thread(void *unused)
{
	complete(&run.started);
	run.test->test_func(NULL);
	run.ended = true;
	return 0;
}

/* kthread_stop() waits until the thread is gone, whatever it died of. */
static bool unit_run(const struct CMUnitTest *test)
{
	run.test = test;
	run.failed = run.ended = false;
	run.since = ktime_get();
	init_completion(&run.started);
	run.task = kthread_create(unit_thread, NULL, "spray_test");
	if (IS_ERR(run.task)) {
		pr_err("rdma_spray: self-test: %s: no thread\n", test->name);
		return false;
	}
	get_task_struct(run.task);
	wake_up_process(run.task);
	wait_for_completion(&run.started);
	kthread_stop(run.task);
	put_task_struct(run.task);
	if (!run.ended && !run.failed)
		pr_err("rdma_spray: self-test: %s: %s: died\n", kbasename(run.file), test->name);
	return run.ended && !run.failed;
}

int unit_run_group(const char *file, const struct CMUnitTest *tests, u32 n)
{
	int failed = 0;
	u32 i;

	run.file = file;
	for (i = 0; i < n; i++)
		if (tests[i].test_func) {
			run.count++;
			failed += !unit_run(&tests[i]);
		}
	return failed;
}

void *unit_alloc(size_t n, size_t size)
{
	return kvmalloc_array(n, size, GFP_KERNEL);
}

void *unit_zalloc(size_t n, size_t size)
{
	return kvcalloc(n, size, GFP_KERNEL);
}

void unit_free(const void *p)
{
	kvfree(p);
}

void unit_sort(void *base, size_t n, size_t size, int (*cmp)(const void *a, const void *b))
{
	sort(base, n, size, cmp, NULL);
}

void unit_breathe(void)
{
	cond_resched();
}

bool unit_time_left(void)
{
	return ktime_ms_delta(ktime_get(), run.since) < TEST_MS;
}

int spray_selftest(void)
{
	static int (*const groups[])(void) = {
		unit_wire, unit_window, unit_path, unit_cc, unit_credit, unit_tx, unit_requester, unit_pair,
	};
	ktime_t start = ktime_get();
	int failed = 0;
	u32 i;

	if (!selftest)
		return 0;
	for (i = 0; i < ARRAY_SIZE(groups); i++)
		failed += groups[i]();
	if (failed) {
		pr_err("rdma_spray: self-test: %d of %u tests failed, the module is not loaded\n",
		       failed, run.count);
		return -EINVAL;
	}
	pr_info("rdma_spray: self-test: %u tests passed in %lld ms\n", run.count,
		ktime_ms_delta(ktime_get(), start));
	return 0;
}
