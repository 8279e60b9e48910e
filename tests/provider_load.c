// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* provider_load PLUGIN.so: the loader and libibverbs accept it (its constructor registers). No device needed. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *handle;

	if (argc != 2)
		return 2;
	handle = dlopen(argv[1], RTLD_NOW);
	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	printf("%s: loaded\n", argv[1]);
	return 0;
}
