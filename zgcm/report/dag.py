"""Places and draws the pipeline's graph: columns from left to right on a wide page, a ladder on a phone.

Boxes of a column are pulled towards what feeds them or what they feed, then pushed apart. Arrows run through
the gutters between columns, each box's own in its own lane.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from zgcm.report.graph import Arrow, Box, Graph
from zgcm.report.svg import drawing, number, tag, text

LINE, HEAD = 16.0, 28.0
GAP = 22.0
TOP = 24.0  # below the headings of the columns
CHARACTER = 6.1  # average width of a character of the picture's 11.5px text
WIDE = {"source": (14, 176), "mix": (234, 166), "stage": (446, 182), "export": (670, 122), "rl": (832, 168)}
HEADINGS = {"source": "sources", "mix": "mixes", "stage": "training stages", "export": "exports", "rl": "RL"}
NARROW = {"source": (22, 336), "mix": (22, 150), "stage": (202, 156), "export": (202, 156), "rl": (202, 156)}


@dataclass(frozen=True)
class Place:
    x: float
    y: float
    w: float
    h: float

    @property
    def middle(self) -> float:
        return self.y + self.h / 2

    @property
    def right(self) -> float:
        return self.x + self.w

    @property
    def bottom(self) -> float:
        return self.y + self.h


Places = dict[str, Place]


def wide(graph: Graph) -> str:
    """The picture for a page about 1000 units wide."""
    places: Places = {}
    limit = stack(places, column(graph, "stage"), WIDE["stage"], TOP)
    tallest = max(sum(height(box) + GAP for box in column(graph, name)) - GAP for name in WIDE)
    limit = max(limit, TOP + tallest)
    ends, starts = followers(graph), sources_of(graph)
    pull(places, column(graph, "mix"), WIDE["mix"], ends, limit)
    pull(places, column(graph, "source"), WIDE["source"], ends, limit)
    chain = ladder(graph)
    init = [box for box in chain if box.column == "export" and not is_rl_export(box, graph)]
    pull(places, init, WIDE["export"], starts, limit)
    pull(places, [box for box in chain if box not in init], WIDE["rl"], starts, limit + 2 * GAP)
    used = [name for name in WIDE if any(place.x == WIDE[name][0] for place in places.values())]
    headings = [text(WIDE[name][0] + 1, 11, HEADINGS[name], "line") for name in used]
    return draw(graph, places, 1002, "dag wide", headings)


def narrow(graph: Graph) -> str:
    """The picture for a phone: sources above, mixes beside the ladder of stages."""
    places: Places = {}
    top = stack(places, column(graph, "source"), NARROW["source"], 2) + GAP
    limit = stack(places, column(graph, "stage") + ladder(graph), NARROW["stage"], top)
    pull(places, column(graph, "mix"), NARROW["mix"], followers(graph), limit, top)
    return draw(graph, places, 372, "dag narrow")


# --- placing ----------------------------------------------------------------------------------------


def height(box: Box) -> float:
    return HEAD + (LINE * len(box.lines) + 4 if box.lines else 0)


def column(graph: Graph, name: str) -> list[Box]:
    return [box for box in graph.boxes if box.column == name]


def ladder(graph: Graph) -> list[Box]:
    """Exports and RL stages in the order in which they follow one another, each export below its stage."""
    exports = {box.key: box for box in column(graph, "export")}
    chain: list[Box] = []
    for box in column(graph, "rl"):
        chain += [exports.pop(key) for key in sources_of(graph)[box.key] if key in exports]
        chain.append(box)
        chain += [exports.pop(key) for key in followers(graph)[box.key] if key in exports]
    return chain + list(exports.values())


def is_rl_export(box: Box, graph: Graph) -> bool:
    stages = {other.key for other in column(graph, "rl")}
    return bool(stages & set(sources_of(graph)[box.key]))


def stack(places: Places, boxes: Sequence[Box], span: tuple[float, float], top: float) -> float:
    """Place boxes one below the other; returns where the last one ends."""
    x, w = span
    for box in boxes:
        places[box.key] = Place(x, top, w, height(box))
        top += height(box) + GAP
    return top - GAP


def pull(
    places: Places,
    boxes: Sequence[Box],
    span: tuple[float, float],
    neighbours: dict[str, list[str]],
    limit: float,
    top: float = TOP,
) -> None:
    """Place boxes at the mean height of their placed neighbours (without any: at the last one's)."""
    wanted: list[tuple[float, Box]] = []
    middle = top
    for box in boxes:
        near = [places[key].middle for key in neighbours.get(box.key, []) if key in places]
        middle = sum(near) / len(near) if near else middle
        wanted.append((middle, box))
    wanted.sort(key=lambda pair: pair[0])
    heights = [height(box) for _, box in wanted]
    tops = settle([middle - height(box) / 2 for middle, box in wanted], heights, top, limit)
    x, w = span
    for (_, box), y in zip(wanted, tops, strict=True):
        places[box.key] = Place(x, y, w, height(box))


def settle(wanted: Sequence[float], heights: Sequence[float], top: float, limit: float) -> list[float]:
    """Tops closest to the wanted ones (least squares) that keep order and GAP, in [top, limit] if they can.

    Subtracting what must lie above each box turns the gaps into mere monotony: isotonic regression by pooling
    adjacent violators.
    """
    above = [0.0]
    for h in heights:
        above.append(above[-1] + h + GAP)
    pools: list[tuple[float, int]] = []  # (mean, how many)
    for value in (want - offset for want, offset in zip(wanted, above, strict=False)):
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (mean, n), (other, m) = pools.pop(), pools.pop()
            pools.append(((mean * n + other * m) / (n + m), n + m))
    highest = max(top, limit - above[-1] + GAP)
    free = [min(max(mean, top), highest) for mean, n in pools for _ in range(n)]
    return [value + offset for value, offset in zip(free, above, strict=False)]


def followers(graph: Graph) -> dict[str, list[str]]:
    return {box.key: [arrow.end for arrow in graph.arrows if arrow.start == box.key] for box in graph.boxes}


def sources_of(graph: Graph) -> dict[str, list[str]]:
    return {box.key: [arrow.start for arrow in graph.arrows if arrow.end == box.key] for box in graph.boxes}


# --- drawing ----------------------------------------------------------------------------------------


def draw(graph: Graph, places: Places, width: float, class_: str, headings: Sequence[str] = ()) -> str:
    tallest = max(place.bottom for place in places.values())
    parts = [arrow_head(class_), *headings]
    parts += routes(graph, places, class_)
    for box in graph.boxes:
        parts += draw_box(box, places[box.key])
    label = "The pipeline: sources feed mixes, mixes feed stages, exports lead to RL"
    return drawing(width, tallest + 4, parts, label, class_)


def arrow_head(class_: str) -> str:
    shape = tag("path", d="M0 0L7 3.5L0 7z", class_="head")
    identity = f"head-{class_.split()[-1]}"
    marker = f'<marker id="{identity}" markerWidth="7" markerHeight="7" refX="6.5" refY="3.5" orient="auto">'
    return f"<defs>{marker}{shape}</marker></defs>"


def draw_box(box: Box, place: Place) -> list[str]:
    room = int((place.w - 30) / (CHARACTER * 1.08))
    title = shorten(box.title, room)
    tooltip = tag("title", box.tooltip or f"{box.title}: {box.state}")
    parts = [
        tag(
            "rect",
            tooltip,
            x=place.x,
            y=place.y,
            width=place.w,
            height=place.h,
            rx=6,
            class_=f"box {box.column}",
        ),
        state_mark(place.x + 14, place.y + HEAD / 2, box.state),
        text(place.x + 25, place.y + HEAD / 2 + 4, title, "name"),
    ]
    for index, (left, right) in enumerate(box.lines):
        y = place.y + HEAD + 8 + LINE * index
        room = int((place.w - 24) / CHARACTER) - len(right) - (1 if right else 0)
        short = shorten(left, room)
        parts.append(text(place.x + 12, y, short, "line", title=left if short != left else ""))
        if right:
            parts.append(text(place.right - 12, y, right, "line", "end"))
    return parts


def shorten(words: str, room: int) -> str:
    """Leave out the last word (a unit that the reader can guess), or cut."""
    if len(words) <= room:
        return words
    most = words.rpartition(" ")[0]
    return most if most and len(most) <= room else words[: max(room - 1, 1)] + "…"


def state_mark(x: float, y: float, state: str) -> str:
    """done: full; running: half; stopped: a square; stale: a broken ring; the rest: a ring."""
    if state == "running":
        half = tag("path", d=f"M{number(x)} {number(y - 4.5)}a4.5 4.5 0 0 1 0 9z", class_="mark done")
        return tag("circle", cx=x, cy=y, r=4.5, class_="mark ring") + half
    if state == "stopped":
        return tag("rect", x=x - 4, y=y - 4, width=8, height=8, class_="mark stopped")
    return tag("circle", cx=x, cy=y, r=4.5, class_=f"mark {state or 'waiting'}")


def routes(graph: Graph, places: Places, class_: str) -> list[str]:
    """All arrows. Trunks of one gutter get a lane for each box that starts there, from top to bottom."""
    is_narrow = class_.endswith("narrow")
    kind = {arrow: route_kind(arrow, places, is_narrow) for arrow in graph.arrows}
    ports = incoming_ports(kind, places)
    gutters: dict[tuple[str, float], list[str]] = {}
    for arrow, way in kind.items():
        if way == "down":
            continue
        place = places[arrow.start]
        users = gutters.setdefault((way, place.x if way == "left" else place.right), [])
        if arrow.start not in users:
            users.append(arrow.start)
    parts = []
    for arrow, way in kind.items():
        start, end = places[arrow.start], places[arrow.end]
        classes = "arrow dashed" if arrow.dashed else "arrow"
        if way == "down":
            path = f"M{number(start.x + 14)} {number(start.bottom)}V{number(end.y - 1)}"
        else:
            edge = start.x if way == "left" else start.right
            users = sorted(gutters[(way, edge)], key=lambda key: places[key].middle)
            lane = (users.index(arrow.start) + 1) / (len(users) + 1)
            if way == "left":
                path = elbow(start.x, start.middle, start.x * (1 - lane), end.x - 1, ports[arrow])
            elif way == "around":
                path = elbow(start.right, start.middle, start.right + 16 * lane, end.right + 1, ports[arrow])
            else:
                trunk = start.right + (end.x - start.right - 10) * lane
                path = elbow(start.right, start.middle, trunk, end.x - 1, ports[arrow])
        parts.append(tag("path", d=path, class_=classes, marker_end=f"url(#head-{class_.split()[-1]})"))
    return parts


def route_kind(arrow: Arrow, places: Places, is_narrow: bool) -> str:
    """down: to the box just below; across: to the next column; left: around the left; around: the right."""
    start, end = places[arrow.start], places[arrow.end]
    if end.x > start.x and not (is_narrow and start.w > end.w * 1.5):
        return "across"
    between = [p for p in places.values() if p.x == start.x and start.y < p.y < end.y]
    if (start.x, start.w) == (end.x, end.w) and end.y > start.y and not between:
        return "down"
    return "left" if start.x < 40 else "around"


def incoming_ports(kind: dict[Arrow, str], places: Places) -> dict[Arrow, float]:
    """Heights at which arrows enter: those that enter one side of a box share it evenly, top ones first."""
    sides: dict[tuple[str, bool], list[Arrow]] = {}
    for arrow, way in kind.items():
        if way != "down":
            sides.setdefault((arrow.end, way == "around"), []).append(arrow)
    ports = {}
    for (key, _), arrows in sides.items():
        arrows.sort(key=lambda arrow: places[arrow.start].middle)
        place = places[key]
        for index, arrow in enumerate(arrows):
            ports[arrow] = place.y + place.h * (index + 1) / (len(arrows) + 1)
    return ports


def elbow(x1: float, y1: float, trunk: float, x2: float, y2: float) -> str:
    """Across to the trunk, along it, across to the end; corners rounded; straight where heights agree."""
    if abs(y1 - y2) < 1.5:
        return f"M{number(x1)} {number(y2)}H{number(x2)}"
    radius = min(6.0, abs(y2 - y1) / 2, abs(trunk - x1), abs(x2 - trunk))
    first, second = (1 if trunk > x1 else -1), (1 if x2 > trunk else -1)
    down = 1 if y2 > y1 else -1
    return (
        f"M{number(x1)} {number(y1)}H{number(trunk - first * radius)}"
        f"Q{number(trunk)} {number(y1)} {number(trunk)} {number(y1 + down * radius)}"
        f"V{number(y2 - down * radius)}"
        f"Q{number(trunk)} {number(y2)} {number(trunk + second * radius)} {number(y2)}H{number(x2)}"
    )
