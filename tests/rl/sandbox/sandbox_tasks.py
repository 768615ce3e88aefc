# ruff: noqa: E501  (a program's lines stay together)
"""Tasks whose tests call classes, methods and several functions: {name: (test, right, wrong)}."""

STACK = "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n"

TASKS = {
    "two functions": (
        "assert double(3) == 6\nassert triple(double(1)) == 6",
        "def double(x): return 2 * x\ndef triple(x): return 3 * x",
        "def double(x): return 2 * x\ndef triple(x): return x",
    ),
    "stack": (
        "s = Stack()\ns.push(1)\ns.push('b')\nassert s.pop() == 'b' and s.pop() == 1\n"
        "try:\n    s.pop()\n    assert False\nexcept IndexError:\n    pass",
        STACK + "    def pop(self): return self.items.pop()",
        STACK + "    def pop(self): return self.items.pop(0)",
    ),
    "length and containment": (
        "b = Bag()\nb.add(3)\nassert len(b) == 1 and 3 in b and 4 not in b and list(b) == [3]",
        "class Bag(list):\n    def add(self, x): self.append(x)",
        "class Bag(list):\n    def add(self, x): self.extend([x, x])",
    ),
    "operators between objects": (
        "v = Vector(1, 2) + Vector(3, 4)\nassert v == Vector(4, 6) and v != Vector(4, 7)\n"
        "assert (v.x, v.y) == (4, 6) and (v * 2).x == 8 and repr(v) == 'Vector(4, 6)'",
        (
            "from dataclasses import dataclass\n@dataclass\nclass Vector:\n    x: int\n    y: int\n"
            "    def __add__(s, o): return Vector(s.x + o.x, s.y + o.y)\n"
            "    def __mul__(s, k): return Vector(s.x * k, s.y * k)\n"
            "    def __repr__(s): return f'Vector({s.x}, {s.y})'"
        ),
        (
            "from dataclasses import dataclass\n@dataclass\nclass Vector:\n    x: int\n    y: int\n"
            "    def __add__(s, o): return Vector(s.x, s.y)\n    def __mul__(s, k): return s"
        ),
    ),
    "own exception": (
        "a = Account(5)\ntry:\n    a.withdraw(9)\n    assert False\nexcept InsufficientFunds as e:\n"
        "    assert e.missing == 4 and str(e) == 'short of 4'\na.withdraw(2)\nassert a.balance == 3",
        (
            "class InsufficientFunds(Exception):\n    def __init__(s, m): super().__init__(f'short of {m}'); "
            "s.missing = m\nclass Account:\n    def __init__(s, b): s.balance = b\n    def withdraw(s, x):\n"
            "        if x > s.balance: raise InsufficientFunds(x - s.balance)\n        s.balance -= x"
        ),
        (
            "class InsufficientFunds(Exception): pass\nclass Account:\n    def __init__(s, b): s.balance = b\n"
            "    def withdraw(s, x): s.balance -= x"
        ),
    ),
    "sorting in place": (
        "x = [3, 1, 2]\ny = x\nassert sort(x) is None\nassert y == [1, 2, 3]",
        "def sort(x): x.sort()",
        "def sort(x): return sorted(x)",
    ),
    "matrix in place": (
        "m = [[1, 2], [3, 4]]\nrow = m[0]\nrotate(m)\nassert m == [[3, 1], [4, 2]] and row == [3, 1]",
        "def rotate(m):\n    r = [list(x) for x in zip(*m[::-1])]\n    for a, b in zip(m, r): a[:] = b",
        "def rotate(m): m = [list(x) for x in zip(*m[::-1])]",
    ),
    "dictionary in place": (
        "d = {'a': 1}\ncount('abb', d)\nassert d == {'a': 2, 'b': 2}",
        "def count(s, d):\n    for c in s: d[c] = d.get(c, 0) + 1",
        "def count(s, d): return {c: s.count(c) for c in s}",
    ),
    "callbacks": (
        "seen = []\nassert compose(lambda x: x + 1, lambda x: seen.append(x) or x * 2)(5) == 11\nassert seen == [5]",
        "def compose(f, g): return lambda x: f(g(x))",
        "def compose(f, g): return lambda x: g(f(x))",
    ),
    "closures": (
        "c = counter()\nd = counter()\nassert [c(), c(), d()] == [1, 2, 1]",
        "def counter():\n    n = 0\n    def f():\n        nonlocal n\n        n += 1\n        return n\n    return f",
        "n = 0\ndef counter():\n    def f():\n        global n\n        n += 1\n        return n\n    return f",
    ),
    "generators": (
        "g = fib()\nassert [next(g) for _ in range(5)] == [0, 1, 1, 2, 3]\n"
        "import itertools\nassert list(itertools.islice(fib(), 3)) == [0, 1, 1]",
        "def fib():\n    a, b = 0, 1\n    while True:\n        yield a\n        a, b = b, a + b",
        "def fib():\n    a, b = 1, 1\n    while True:\n        yield a\n        a, b = b, a + b",
    ),
    "context manager": (
        "log = []\nwith logged(log) as l:\n    l.say('x')\nassert l.said == ['in', 'x', 'out']",
        (
            "class logged:\n    def __init__(s, log): s.said = []\n    def __enter__(s): s.said.append('in'); return s\n"
            "    def say(s, x): s.said.append(x)\n    def __exit__(s, *e): s.said.append('out')"
        ),
        (
            "class logged:\n    def __init__(s, log): s.said = []\n    def __enter__(s): return s\n"
            "    def say(s, x): s.said.append(x)\n    def __exit__(s, *e): pass"
        ),
    ),
    "helpers of the test's": (
        "class Node:\n    def __init__(self, value, next=None): self.value, self.next = value, next\n"
        "def items(n):\n    out = []\n    while n: out.append(n.value); n = n.next\n    return out\n"
        "assert items(reverse(Node(1, Node(2, Node(3))))) == [3, 2, 1]",
        "def reverse(n):\n    last = None\n    while n: n.next, last, n = last, n, n.next\n    return last",
        "class Node: pass\ndef items(n): return [3, 2, 1]\ndef reverse(n): return n",
    ),
    "linked list of the candidate's": (
        "a = Node(1)\nb = Node(2)\na.next = b\nassert a.next is b and a.next.value == 2 and b.next is None\n"
        "assert isinstance(b, Node)",
        "class Node:\n    def __init__(self, value): self.value, self.next = value, None",
        "class Node:\n    def __init__(self, value): self.value, self.next = value, 0",
    ),
    "named tuple and enumeration": (
        "p = point()\nassert p == (1, 2) and p.x == 1 and color('r') is Color.RED and Color.RED.value == 1\n"
        "assert Level.HIGH == 3",
        (
            "import enum, collections\nPoint = collections.namedtuple('Point', 'x y')\ndef point(): return Point(1, 2)\n"
            "class Color(enum.Enum): RED = 1\ndef color(c): return Color.RED\nclass Level(enum.IntEnum): HIGH = 3"
        ),
        (
            "import enum, collections\nPoint = collections.namedtuple('Point', 'x y')\ndef point(): return Point(2, 1)\n"
            "class Color(enum.Enum): RED = 1\ndef color(c): return Color.RED\nclass Level(enum.IntEnum): HIGH = 3"
        ),
    ),
    "class attributes, properties, static methods": (
        "assert Circle.sides == 0 and Circle.unit().area == 3 and Circle(2).area == 12 and Circle.twice(4) == 8",
        (
            "class Circle:\n    sides = 0\n    def __init__(s, r): s.r = r\n    @property\n    def area(s): return 3 * s.r ** 2\n"
            "    @classmethod\n    def unit(c): return c(1)\n    @staticmethod\n    def twice(x): return 2 * x"
        ),
        "class Circle:\n    sides = 0\n    def __init__(s, r): s.r = r\n    area = 3",
    ),
    "standard types": (
        "from decimal import Decimal\nfrom fractions import Fraction\nfrom collections import Counter, deque\n"
        "import datetime\nassert money('1.10') == Decimal('1.10') and half() == Fraction(1, 2)\n"
        "assert letters('aab') == Counter('aab') and queue() == deque([1]) and day() == datetime.date(2020, 2, 29)\n"
        "assert big() == 2 ** 200 and pair() == (1, {2}, b'3', 4j, None)",
        (
            "from decimal import Decimal as money\nfrom fractions import Fraction\nfrom collections import deque\n"
            "from collections import Counter as letters\nimport datetime\ndef half(): return Fraction(2, 4)\n"
            "def queue(): return deque([1])\ndef day(): return datetime.date(2020, 2, 29)\n"
            "def big(): return 1 << 200\ndef pair(): return (1, {2}, b'3', 4j, None)"
        ),
        "money = half = letters = queue = day = big = pair = str",
    ),
    "iteration and indexing": (
        "m = Matrix([[1, 2], [3, 4]])\nassert m[1, 0] == 3 and [list(r) for r in m] == [[1, 2], [3, 4]]\n"
        "m[0, 0] = 9\nassert m[0, 0] == 9 and m.transpose()[0, 1] == 3",
        (
            "class Matrix:\n    def __init__(s, r): s.r = r\n    def __getitem__(s, k): return s.r[k[0]][k[1]]\n"
            "    def __setitem__(s, k, v): s.r[k[0]][k[1]] = v\n    def __iter__(s): return iter(s.r)\n"
            "    def transpose(s): return Matrix([list(x) for x in zip(*s.r)])"
        ),
        (
            "class Matrix:\n    def __init__(s, r): s.r = r\n    def __getitem__(s, k): return s.r[k[1]][k[0]]\n"
            "    def __setitem__(s, k, v): pass\n    def __iter__(s): return iter(s.r)\n    def transpose(s): return s"
        ),
    ),
    "decorator": (
        "calls = []\n@memoize\ndef slow(x):\n    calls.append(x)\n    return x * x\n"
        "assert slow(4) == 16 and slow(4) == 16 and calls == [4]",
        "def memoize(f):\n    known = {}\n    def g(x):\n        if x not in known: known[x] = f(x)\n"
        "        return known[x]\n    return g",
        "def memoize(f): return f",
    ),
    "coroutine": (
        "import asyncio\nassert asyncio.run(later(3)) == 4",
        "import asyncio\nasync def later(x):\n    await asyncio.sleep(0)\n    return x + 1",
        "async def later(x): return x",
    ),
    "cache with subclassed dictionary": (
        "c = LRU(2)\nc.put(1, 1)\nc.put(2, 2)\nassert c.get(1) == 1\nc.put(3, 3)\nassert c.get(2) == -1 and 3 in c",
        (
            "from collections import OrderedDict\nclass LRU(OrderedDict):\n    def __init__(s, n): super().__init__(); s.n = n\n"
            "    def get(s, k):\n        if k not in s: return -1\n        s.move_to_end(k)\n        return s[k]\n"
            "    def put(s, k, v):\n        s[k] = v\n        s.move_to_end(k)\n        if len(s) > s.n: s.popitem(last=False)"
        ),
        (
            "class LRU(dict):\n    def __init__(s, n): pass\n    def get(s, k): return dict.get(s, k, -1)\n"
            "    def put(s, k, v): s[k] = v"
        ),
    ),
    "keyword arguments and defaults": (
        "assert greet('A') == 'Hello A' and greet(name='B', word='Hi') == 'Hi B' and total(1, 2, *[3]) == 6",
        "def greet(name, word='Hello'): return f'{word} {name}'\ndef total(*x): return sum(x)",
        "def greet(name, word='Hello'): return f'Hello {name}'\ndef total(*x): return sum(x)",
    ),
    "inheritance": (
        "d = Dog('Rex')\nassert d.speak() == 'Rex: Woof' and isinstance(d, Animal) and d.name == 'Rex'",
        (
            "class Animal:\n    def __init__(s, n): s.name = n\n    def speak(s): return f'{s.name}: {s.sound}'\n"
            "class Dog(Animal): sound = 'Woof'"
        ),
        "class Animal: pass\nclass Dog:\n    def __init__(s, n): s.name = n\n    def speak(s): return 'Rex: Woof'",
    ),
    "comparison and hashing": (
        "assert Version('1.2') < Version('1.10') and max(Version('2.0'), Version('1.9')) == Version('2.0')\n"
        "assert len({Version('1.0'), Version('1.0')}) == 1 and sorted([Version('3'), Version('1')])[0].text == '1'",
        (
            "import functools\n@functools.total_ordering\nclass Version:\n    def __init__(s, t): s.text = t; "
            "s.k = tuple(map(int, t.split('.')))\n    def __eq__(s, o): return s.k == o.k\n"
            "    def __lt__(s, o): return s.k < o.k\n    def __hash__(s): return hash(s.k)"
        ),
        (
            "import functools\n@functools.total_ordering\nclass Version:\n    def __init__(s, t): s.text = t\n"
            "    def __eq__(s, o): return s.text == o.text\n    def __lt__(s, o): return s.text < o.text\n"
            "    def __hash__(s): return hash(s.text)"
        ),
    ),
}
