// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A fuzzer without a fuzzing engine: runs the inputs in the files and
 * directories it is given, or the one from standard input (what AFL++ wants
 * without its own driver).
 */
#include <dirent.h>
#include <signal.h>
#include "fuzz.h"

enum { INPUT_MAX = 1 << 20 };

static char current[4096];	/* for who looks at a core dump */

/* A copy of the very size: one byte too far is found by the sanitizer. */
static void run(FILE *f)
{
	static u8 buf[INPUT_MAX];
	size_t n = fread(buf, 1, sizeof(buf), f);
	u8 *exact = malloc(n ? n : 1);

	if (!exact)
		abort();
	memcpy(exact, buf, n);
	LLVMFuzzerTestOneInput(exact, n);
	free(exact);
}

static int run_file(const char *path)
{
	FILE *f = fopen(path, "rb");

	if (!f) {
		perror(path);
		return 0;
	}
	snprintf(current, sizeof(current), "%s", path);
	run(f);
	fclose(f);
	return 1;
}

static int run_path(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	char name[4096];
	int n = 0;

	if (!d)
		return run_file(path);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
		n += run_file(name);
	}
	closedir(d);
	return n;
}

static void on_abort(int sig)
{
	fprintf(stderr, "input: %s\n", current);
	signal(sig, SIG_DFL);
	raise(sig);
}

int main(int argc, char **argv)
{
	int i, n = 0;

	signal(SIGABRT, on_abort);
	if (argc < 2) {
		run(stdin);
		return 0;
	}
	for (i = 1; i < argc; i++)
		n += run_path(argv[i]);
	printf("%s: %d inputs\n", argv[0], n);
	return !n;
}
