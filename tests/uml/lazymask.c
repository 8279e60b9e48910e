// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Preloaded into a User-Mode Linux with several processors, where disabling interrupts blocks the
 * signal of inter-processor interrupts by a system call, and enabling them takes another: a third of
 * a debug guest's time. Here the block is only noted. A signal that comes meanwhile is sent once
 * more and blocked truly, until interrupts are enabled again. Threads begin with it blocked, and its
 * handler runs with it blocked, as ever.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>

typedef void (*sighandler)(int sig, siginfo_t *si, void *context);

static __thread volatile bool noted = true, blocked = true;
static sighandler handlers[_NSIG];

/* The return of a handler brings back the mask that was there when its signal came. */
static void tracked(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;

	handlers[sig](sig, si, context);
	blocked = sigismember(&uc->uc_sigmask, SIGRTMIN);
}

static void lazily(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;

	if (noted) {
		pthread_sigqueue(pthread_self(), sig, si->si_value);
		sigaddset(&uc->uc_sigmask, sig);
		blocked = true;
		return;
	}
	blocked = true;
	tracked(sig, si, context);
	noted = false;
}

int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	static int (*real)(int sig, const struct sigaction *act, struct sigaction *old);
	struct sigaction mine;

	if (!real)
		real = dlsym(RTLD_NEXT, "sigaction");
	if (!act || !(act->sa_flags & SA_SIGINFO))
		return real(sig, act, old);
	mine = *act;
	if (act->sa_sigaction != tracked && act->sa_sigaction != lazily)	/* else it is one that was asked for */
		handlers[sig] = act->sa_sigaction;
	mine.sa_sigaction = sig == SIGRTMIN ? lazily : tracked;
	return real(sig, &mine, old);
}

static bool of_ipis_alone(const sigset_t *set)
{
	static sigset_t ipis;
	static bool known;

	if (!known) {
		sigemptyset(&ipis);
		sigaddset(&ipis, SIGRTMIN);
		known = true;
	}
	return set && !memcmp(set, &ipis, sizeof(ipis));
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	int was;

	if (old || how == SIG_SETMASK || !of_ipis_alone(set))
		return pthread_sigmask(how, set, old);
	if (how == SIG_BLOCK) {
		noted = true;
		return 0;
	}
	/*
	 * It was blocked, or has been since: unblock, whatever a handler of another signal did in between,
	 * for its return brings back the mask that it found.
	 */
	was = blocked;
	noted = false;
	if (!was && !blocked)
		return 0;
	was = pthread_sigmask(how, set, NULL);
	blocked = false;
	return was;
}
