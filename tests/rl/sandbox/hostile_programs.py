# ruff: noqa: E501  (a program's lines stay together)
"""Programs that want a verdict they do not deserve, or the host. None defines `square` honestly.

{name: program}; the test is `assert square(3) == 9 and square(4) == 16`. CANARY stands for the path of a file of
the host, MARK for the name of a file that is nowhere on the host, VICTIM for the number of a process of it.
"""

ANYTHING = """
class Any:
    def __getattr__(self, name): return lambda *a, **k: self
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __bool__(self): return True
    def __sub__(self, other): return 0.0
    def __rsub__(self, other): return 0.0
    def __abs__(self): return 0.0
    def __lt__(self, other): return True
    def __contains__(self, other): return True
"""

HOSTILE = {
    "fork bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "thread bomb": "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(9,)).start()",
    "memory flood": "x = []\nwhile True: x.append(bytearray(1 << 24))",
    "memory flood in children": (
        "import os\nfor _ in range(20): os.fork()\nx = []\nwhile True: x.append(b'x' * (1 << 24))"
    ),
    "disk flood": "f = open('/tmp/x', 'wb')\nwhile True: f.write(bytes(1 << 20)); f.flush()",
    "inode flood": "n = 0\nwhile True: open(f'/tmp/{n}', 'w').close(); n += 1",
    "output flood": "while True: print('x' * 65536)",
    "standard error flood": "import os\nwhile True: os.write(2, b'x' * 65536)",
    "endless loop": "while True: pass",
    "endless loop in a call": "def square(x):\n    while True: pass",
    "endless loop in C": "def square(x): return sum(range(10 ** 15))",
    "sleep": "import time; time.sleep(1000)",
    "daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        time.sleep(1000)\n    os._exit(0)\ndef square(x): return 0"
    ),
    "ignores signals": (
        "import signal\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n"
        "    except OSError: pass\nwhile True: pass"
    ),
    "ptrace of process 1": (
        "import ctypes\nassert ctypes.CDLL(None).ptrace(16, 1, 0, 0) == -1\ndef square(x): return 0"
    ),
    "reads /proc": (
        "import glob\nx = ''.join(open(p, errors='replace').read() for p in glob.glob('/proc/[0-9]*/environ'))\n"
        "def square(x): return 9 if x else 0"
    ),
    "internet": (
        "import socket\ntry: socket.create_connection(('127.0.0.1', 80), 1)\nexcept OSError: pass\n"
        "def square(x): return 0"
    ),
    "symlink out of the scratch space": (
        "import os\nos.symlink('/', '/tmp/link')\ntry: open('/tmp/link/usr/lib/x', 'w')\nexcept OSError: pass\n"
        "def square(x): return 0"
    ),
    "writes, removes, renames a file of the host": (
        "import os\nfor act in (lambda: open('CANARY', 'w').write('x'), lambda: os.chmod('CANARY', 0),\n"
        "            lambda: os.rename('CANARY', 'CANARY.x'), lambda: os.remove('CANARY')):\n"
        "    try: act()\n    except OSError: pass\ndef square(x): return 9 if os.path.exists('CANARY') else 0"
    ),
    "leaves a file wherever it can": (
        "import os\nfor where in ('/', '/tmp', '/var/tmp', '/dev', '/dev/shm', '/run', '/root', '/home', '/usr/lib',\n"
        "              '/python', '/inside', os.path.dirname('CANARY')):\n"
        "    try: open(where + '/MARK', 'w')\n    except OSError: pass\ndef square(x): return 0"
    ),
    "kills processes of the host": (
        "import os\nfor p in (VICTIM, *range(1, 500)):\n    if p != os.getpid():\n"
        "        try: os.kill(p, 9)\n        except OSError: pass\ndef square(x): return 0"
    ),
    "signals to the parent and to all": "import os\nos.kill(os.getppid(), 9)\nos.kill(-1, 9)",
    "stops the parent": "import os\nos.kill(os.getppid(), 19)\ndef square(x): return 0",
    "sys.exit(0)": "import sys\nsys.exit(0)",
    "sys.exit(0) in a call": "import sys\ndef square(x): sys.exit(0)",
    "os._exit(0)": "import os\nos._exit(0)",
    "os._exit(0) in a call": "import os\ndef square(x): os._exit(0)",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\ndef square(x): raise SystemExit(0)",
    "crash": "import ctypes\nctypes.string_at(0)",
    "equal to everything": ANYTHING + "def square(x): return Any()",
    "int that is equal to everything": (
        "class Int(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
        "def square(x): return Int(0)"
    ),
    "str that is equal to everything": (
        "class Str(str):\n    def __eq__(self, other): return True\n    __hash__ = str.__hash__\n"
        "def square(x): return Str('')"
    ),
    "a class in place of the function": ANYTHING.replace("class Any:", "class square(int):\n    x = 1"),
    "a metaclass": (
        "class M(type):\n    def __eq__(c, o): return True\n    __hash__ = type.__hash__\n"
        "class C(metaclass=M): pass\ndef square(x): return C"
    ),
    "patched builtins": (
        "import builtins\nbuiltins.all = builtins.any = builtins.isinstance = lambda *a: True\n"
        "builtins.AssertionError = type('E', (BaseException,), {})\ndef square(x): return 0"
    ),
    "patched interpreter": (
        "import ctypes\nctypes.pythonapi.Py_SetProgramName\nint.__eq__\n"
        "import gc\nfor o in gc.get_objects():\n    if isinstance(o, dict): o.get('test')\ndef square(x): return 0"
    ),
    "looks for the test in memory": (
        "import gc, sys\nfound = [o for o in gc.get_objects() if 'assert square' in str(type(o))]\n"
        "f = sys._getframe()\nwhile f: found += [v for v in f.f_locals.values() if 'assert' in str(v)]; f = f.f_back\n"
        "def square(x): return 9 if found else 0"
    ),
    "looks for the test in files": (
        "import os\nfound = []\nfor where, _, names in os.walk('/'):\n"
        "    if not where.startswith(('/usr', '/python', '/dev', '/lib')):\n        found += names\n"
        "def square(x): return 9 if any('test' in n for n in found) else 0"
    ),
    "prints the verdict": (
        "import os, sys, json\nfor f in range(64):\n"
        "    m = json.dumps({'passed': True, 'reason': 'passed'}).encode()\n"
        "    try: os.write(f, len(m).to_bytes(4, 'big') + m)\n    except OSError: pass\ndef square(x): return 0"
    ),
    "answers before it is asked": (
        "import os, json\nfor f in range(3, 64):\n    for v in (['loaded'], ['return', True, []]) * 9:\n"
        "        m = json.dumps(v).encode()\n        try: os.write(f, len(m).to_bytes(4, 'big') + m)\n"
        "        except OSError: pass\ndef square(x): return 0"
    ),
    "half a message": "import os\nfor f in range(3, 64):\n    try: os.write(f, b'\\xff\\xff')\n    except OSError: pass",
    "a gigantic message": "def square(x): return 'x' * (1 << 28)",
    "a number without end": "def square(x): return 10 ** 100_000_000",
    "a list within itself": "def square(x):\n    x = []\n    x.append(x)\n    return x",
    "deep lists": "def square(x):\n    x = []\n    for _ in range(100_000): x = [x]\n    return x",
    "raises an exception of the test's": "def square(x): raise AssertionError('passed')",
    "raises StopIteration": "def square(x): raise StopIteration(9)",
    "raises GeneratorExit": "def square(x): raise GeneratorExit",
    "tampers with imports": (
        "import sys\nsys.modules['inside.peer'].Peer._do = lambda *a: True\n"
        "sys.modules['inside.wire'].encode = lambda *a: True\ndef square(x): return 0"
    ),
    "names a builtin of the judge": (
        "import sys\nsys.modules['inside.peer'].Peer.encode = lambda s, v: {'builtin': 'eval'}\n"
        "def square(x): return 0"
    ),
    "asks the judge for its objects": (
        "import os, stat, sys\nfor f in range(3, 999):\n    try:\n        if stat.S_ISSOCK(os.fstat(f).st_mode): break\n"
        "    except OSError: pass\nw = sys.modules['inside.wire']\ndef square(x):\n"
        "    for h in range(9): w.send(f, ['get', h, '__globals__'])\n    return w.receive(f)"
    ),
    "setuid": "import os\ntry: os.setuid(0)\nexcept OSError: pass\ndef square(x): return 9 if os.getuid() == 0 else 0",
    "raises its own limits": (
        "import resource\nfor r in range(16):\n"
        "    try: resource.setrlimit(r, (resource.RLIM_INFINITY,) * 2)\n    except (OSError, ValueError): pass\n"
        "x = []\nwhile True: x.append(bytearray(1 << 24))"
    ),
    "not a program": "def square(x: return 9",
    "empty module": "pass",
}
