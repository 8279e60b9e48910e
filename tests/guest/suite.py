# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""suite.py DEVICE GID-INDEX NETDEV SUITE SKIPS [MODULE...]: rdma-core's own Python tests, unmodified. Speaks TAP.

The tests come with python3-pyverbs. They look for a device's network interface where only PCI devices
have one; that is all that is told to them here. A process for each module, forked when all is imported.

SKIPS is the list of tests that may be skipped, and have to be; see its head. It is held against the
modules that ran.
"""
import fnmatch, importlib, os, signal, sys, unittest

LIMIT = 900                         # seconds for a module, of a guest whose clock may run fast
HERE = '/usr/share/doc/rdma-core/tests'
OTHERS = ('mlx5', 'efa', 'cuda')    # vendors' own modules

dev, gid, netdev, suite, skips = sys.argv[1:6]
modules = sys.argv[6:] or sorted(f[:-3] for f in os.listdir(HERE)
                                 if f.startswith('test_') and f.endswith('.py') and not any(o in f for o in OTHERS))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
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
tests = {m: unittest.defaultTestLoader.loadTestsFromName('tests.' + m) for m in modules}


def name_of(test):
    return test.id().replace('tests.', '', 1)


class Result(unittest.TestResult):
    """One line a test: verdict, name, and why it was skipped, by tabs. Comments begin with a #."""

    def line(self, verdict, test, why=''):
        print(verdict, name_of(test), ' '.join(str(why).split()), sep='\t', flush=True)

    def addSuccess(self, test):
        self.line('ok', test)

    addExpectedFailure = lambda self, test, err: self.line('ok', test)
    addUnexpectedSuccess = addSuccess

    def addSkip(self, test, reason):
        self.line('skip', test, reason)

    def trouble(self, test, err):
        self.line('not ok', test)
        for l in self._exc_info_to_string(err, test).splitlines()[-12:]:
            print('# ' + l, flush=True)

    addError = addFailure = trouble

    def addSubTest(self, test, sub, err):
        if err:
            self.trouble(test, err)


def run(module):
    """Lines of a child that runs the module's tests; one more if it dies."""
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(w, 1)
        os.close(r)
        signal.alarm(LIMIT)
        tests[module].run(Result())
        sys.stdout.flush()
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as lines:
        yield from lines
    status = os.waitpid(pid, 0)[1]
    if status:
        yield f'not ok\t{module}: ended by {"signal" if os.WIFSIGNALED(status) else "status"} ' \
              f'{status & 0x7f or status >> 8}\t\n'


n = 0


def tap(verdict, name, tail=''):
    global n
    n += 1
    print(f'{verdict} {n} - {name}{tail}', flush=True)


ran = {}                            # name -> why it was skipped, or ''
print('TAP version 13')
for m in modules:
    for l in run(m):
        verdict, name, why = (l.rstrip('\n').split('\t') + ['', ''])[:3]
        if verdict not in ('ok', 'not ok', 'skip'):
            print('# ' + l.rstrip('\n').lstrip('# '))
            continue
        ran[name] = why
        tap('ok' if verdict == 'skip' else verdict, name, f' # SKIP {why}' if verdict == 'skip' else '')

# --- the list ---

wrong = []
listed = set()
with open(skips) as f:
    entries = [[c.strip() for c in l.split('|')] for l in f if l.strip() and l[0] != '#']
for where, pattern, message, reason in entries:
    if where not in ('all', suite) or pattern.split('.')[0] not in modules:
        continue
    hits = fnmatch.filter(ran, pattern)
    if not hits:
        wrong.append(f'listed, but there is no such test: {pattern}')
    for h in hits:
        listed.add(h)
        if not ran[h]:
            wrong.append(f'listed, but not skipped: {h}')
        elif message not in ran[h]:
            wrong.append(f'skipped for another reason than the listed: {h}: {ran[h]}')
wrong += [f'skipped, but not listed: {h}: {why}' for h, why in ran.items() if why and h not in listed]
tap('not ok' if wrong else 'ok', f'skipped is what the list says ({sum(1 for w in ran.values() if w)} of {len(ran)})')
for w in wrong:
    print('# ' + w)
print(f'1..{n}')
