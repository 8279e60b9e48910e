# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
#   make             the module, for the running kernel or KDIR=/path/to/headers; DEBUG=1: with assertions and self-test
#   make provider    the rdma-core provider, for the installed rdma-core (needs its source package: RDMA_CORE=)
#   make install     module, provider, driver file, udev rule; DESTDIR= and KVER= fill another root
#   make check       unit tests, every guest test in every suite, some on a debug kernel (root; installs what it needs)
#   make check-debug guest tests in a User-Mode Linux with KASAN, lockdep and more; check-fast: without
#   make fuzz        fuzzers of the core (libFuzzer); fuzz-replay: their corpora, seconds; coverage: branches of the core
#   make sim         the core on simulated fabrics of up to 1024 hosts: a table of goals, plots; sim-quick: seconds
#   make demo        the product's main job in a guest, with a report
#   make rates       what loss, unequal paths and reordering leave of a QP's rate: a table
#
# Objects of the module land beside the sources, as kbuild does it; guests are built from a copy.

KVER  ?= $(shell cat $(KDIR)/include/config/kernel.release 2>/dev/null || uname -r)
KDIR  ?= /lib/modules/$(shell uname -r)/build
MODDIR = $(DESTDIR)/lib/modules/$(KVER)

all: module

module:
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

provider:
	$(MAKE) -C userspace-provider

provider-check:
	$(MAKE) -C userspace-provider check

contract:
	$(MAKE) -C tests/contract
	$(MAKE) -C tests/race
	$(MAKE) -C tests/guest

install: install-module install-provider

install-module:
	install -D -m 644 rdma_spray.ko $(MODDIR)/updates/rdma_spray.ko
	[ ! -e $(MODDIR)/modules.order ] || depmod -b $(or $(DESTDIR),/) $(KVER)

install-provider:
	$(MAKE) -C userspace-provider install
	install -D -m 644 userspace-provider/76-rdma-spray.rules $(DESTDIR)/usr/lib/udev/rules.d/76-rdma-spray.rules

uninstall:
	rm -f $(MODDIR)/updates/rdma_spray.ko $(DESTDIR)/usr/lib/udev/rules.d/76-rdma-spray.rules
	$(MAKE) -C userspace-provider uninstall

unit:
	$(MAKE) -C tests/unit check

fuzz:
	$(MAKE) -C tests/fuzz fuzz

fuzz-replay:
	$(MAKE) -C tests/fuzz replay

coverage:
	$(MAKE) -C tests/fuzz coverage

sim:
	$(MAKE) -C tests/sim run

sim-quick:
	$(MAKE) -C tests/sim quick

check:
	qemu/check.sh

check-smoke:
	qemu/check.sh smoke

check-debug:
	tests/uml/check.sh debug

check-fast:
	tests/uml/check.sh plain

demo:
	qemu/demo.sh

rates:
	qemu/demo.sh bookworm rates

lint:
	tests/lint.sh

clean:
	-$(MAKE) -C $(KDIR) M=$(CURDIR) clean
	for d in userspace-provider tests/contract tests/race tests/guest tests/unit tests/fuzz tests/sim; do $(MAKE) -C $$d clean; done

.PHONY: all module provider provider-check contract install install-module install-provider uninstall unit fuzz fuzz-replay coverage sim sim-quick check check-smoke check-debug check-fast demo rates lint clean
