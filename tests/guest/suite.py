# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""suite.py DEVICE GID-INDEX NETDEV MODULE...: rdma-core's own Python tests, unmodified. Speaks TAP.

The suite comes with python3-pyverbs. It looks for a device's network interface where only PCI devices
have one; that is all that is told to it here.
"""
import importlib, os, sys, time, unittest

dev, gid, netdev = sys.argv[1:4]
modules = sys.argv[4:]
sys.path.insert(0, '/usr/share/doc/rdma-core')
sys.path.insert(0, '/usr/share/doc/rdma-core/tests')
sys.argv = ['run_tests.py', '--dev', dev, '--gid', gid, '--port', '1']
from args_parser import parser
parser.parse_args()
base = importlib.import_module('tests.base')
base.RDMATestCase.get_net_name = staticmethod(lambda name: netdev)


def get_ip_mac(self, name, port, idx):
    try:
        ip, mac = self.get_ip_mac_address(netdev)
    except (KeyError, IndexError):
        ip = mac = None
    self.args.append([name, port, idx, ip, mac])


base.RDMATestCase._get_ip_mac = get_ip_mac


class Tap(unittest.TestResult):
    n = 0

    def line(self, ok, test, tail=''):
        Tap.n += 1
        print(f'{ok} {Tap.n} - {test.id()}{tail}', flush=True)

    def addSuccess(self, test):
        self.line('ok', test)

    def addSkip(self, test, reason):
        self.line('ok', test, ' # SKIP ' + ' '.join(str(reason).split()))

    def trouble(self, test, err):
        self.line('not ok', test)
        for l in self._exc_info_to_string(err, test).splitlines()[-12:]:
            print('# ' + l, flush=True)

    def addError(self, test, err):
        self.trouble(test, err)

    def addFailure(self, test, err):
        self.trouble(test, err)

    def addSubTest(self, test, sub, err):
        if err:
            self.trouble(test, err)

    def addExpectedFailure(self, test, err):
        self.line('ok', test)

    def addUnexpectedSuccess(self, test):
        self.line('ok', test)


print('TAP version 13')
for m in modules:
    suite = unittest.defaultTestLoader.loadTestsFromName('tests.' + m)
    suite.run(Tap())
print(f'1..{Tap.n}')
