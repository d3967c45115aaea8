"""Writes the road networks of the built-in worlds `highway`, `park`, `roundabout` and `suburb` as OpenDRIVE files.

    python tools/road_worlds.py

Dimensions are round figures of German guidelines (RAA, RASt 06): lanes of 3.75 m on motorways, 3.25 m in town.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from parhelion.world.roads.curves import Element

FOLDER = Path(__file__).resolve().parents[1] / "src" / "parhelion" / "world" / "roads" / "data"
PI = float(np.pi)
Pose = tuple[float, float, float]


def num(value: float) -> str:
    """Number with at most nine digits after the point."""
    return f"{value:.9f}".rstrip("0").rstrip(".") if value else "0"


@dataclass
class Line:
    """Reference line that is laid element by element."""

    start: Pose
    text: list[str] = field(default_factory=list)
    length: float = 0.0
    end: Pose = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        self.end = self.start

    def add(self, kind: str, length: float, *values: float) -> Line:
        """Add a line, arc (curvature) or spiral (curvatures at both ends)."""
        x, y, heading = self.end
        names = {"line": (), "arc": ("curvature",), "spiral": ("curvStart", "curvEnd")}[kind]
        inner = f"<{kind}" + "".join(f' {n}="{num(v)}"' for n, v in zip(names, values, strict=True)) + "/>"
        self._write(length, inner)
        u, v, turn = (
            float(row[0]) for row in Element(0, x, y, heading, length, kind, values).local(np.array([length]))
        )
        cos, sin = np.cos(heading), np.sin(heading)
        self.end = (float(x + cos * u - sin * v), float(y + sin * u + cos * v), heading + turn)
        return self

    def cubic_to(self, end: Pose) -> Line:
        """Add a smooth curve (paramPoly3) to a pose."""
        x, y, heading = self.end
        cos, sin = np.cos(heading), np.sin(heading)
        dx, dy = end[0] - x, end[1] - y
        u, v = cos * dx + sin * dy, -sin * dx + cos * dy
        turn = end[2] - heading
        # Length of the tangents for which a quarter circle is nearly exact.
        reach = float(np.hypot(u, v)) * 1.17
        first, last = np.array([reach, 0.0]), reach * np.array([np.cos(turn), np.sin(turn)])
        goal = np.array([u, v])
        c, d = 3 * goal - 2 * first - last, first + last - 2 * goal
        p = np.linspace(0, 1, 4001)[:, None]
        length = float(np.hypot(*np.diff(first * p + c * p**2 + d * p**3, axis=0).T).sum())
        rows = [("a", np.zeros(2)), ("b", first), ("c", c), ("d", d)]
        values = "".join(f' {name}{axis}="{num(float(row[k]))}"' for k, axis in enumerate("UV") for name, row in rows)
        self._write(length, f'<paramPoly3 pRange="normalized"{values}/>')
        self.end = end
        return self

    def _write(self, length: float, inner: str) -> None:
        x, y, heading = self.end
        at = f's="{num(self.length)}" x="{num(x)}" y="{num(y)}" hdg="{num(heading)}" length="{num(length)}"'
        self.text.append(f"<geometry {at}>{inner}</geometry>")
        self.length += length


def lane(number: int, kind: str, width: float, *, mark: str = "", high: float = 0.0, links: str = "") -> str:
    """One lane of constant width."""
    inner = f"<link>{links}</link>" + (f'<width sOffset="0" a="{num(width)}" b="0" c="0" d="0"/>' if number else "")
    inner += f'<roadMark sOffset="0" type="{mark}" width="0.12" color="white"/>' if mark else ""
    inner += f'<height sOffset="0" inner="{num(high)}" outer="{num(high)}"/>' if high else ""
    return f'<lane id="{number}" type="{kind}" level="false">{inner}</lane>'


def link(before: int | None = 0, after: int | None = 0) -> str:
    """Links of a lane."""
    text = f'<predecessor id="{before}"/>' if before else ""
    return text + (f'<successor id="{after}"/>' if after else "")


@dataclass
class Network:
    """A file."""

    name: str
    roads: list[str] = field(default_factory=list)
    junctions: list[str] = field(default_factory=list)

    def road(
        self,
        number: int,
        line: Line,
        left: str,
        centre: str,
        right: str,
        *,
        junction: int = -1,
        before: str = "",
        after: str = "",
        speed: int = 50,
        elevation: str = "",
        lateral: str = "",
        objects: str = "",
    ) -> None:
        """Add a road; `before` and `after` are attributes of its links."""
        links = (f"<predecessor {before}/>" if before else "") + (f"<successor {after}/>" if after else "")
        self.roads.append(
            f'<road name="" id="{number}" length="{num(line.length)}" junction="{junction}" rule="RHT">'
            f"<link>{links}</link>\n"
            f'<type s="0" type="town"><speed max="{speed}" unit="km/h"/></type>\n<planView>'
            + "\n".join(line.text)
            + "</planView>\n"
            f"<elevationProfile>{elevation}</elevationProfile><lateralProfile>{lateral}</lateralProfile>\n"
            f'<lanes><laneSection s="0"><left>{left}</left><center>{centre}</center>'
            f"<right>{right}</right></laneSection></lanes>\n"
            f"{objects}</road>"
        )

    def save(self) -> None:
        """Write the file."""
        note = "Written by tools/road_worlds.py of Parhelion; Apache-2.0."
        body = "\n".join([*self.roads, *self.junctions])
        text = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<!-- {note} -->\n<OpenDRIVE>\n'
            f'<header revMajor="1" revMinor="6" name="{self.name}" version="1.00"/>\n{body}\n</OpenDRIVE>\n'
        )
        (FOLDER / f"{self.name}.xodr").write_text(text, encoding="utf-8")


def item(kind: str, s: float, t: float, **more: float | str) -> str:
    """An object; `repeat` is the text of an element inside."""
    inner = str(more.pop("repeat", ""))
    values = "".join(f' {k}="{v if isinstance(v, str) else num(v)}"' for k, v in more.items())
    return f'<object id="0" type="{kind}" s="{num(s)}" t="{num(t)}"{values}>{inner}</object>'


def repeat(s: float, length: float, distance: float) -> str:
    """Repetition of an object."""
    return f'<repeat s="{num(s)}" length="{num(length)}" distance="{num(distance)}"/>'


def profile(tag: str, rows: list[tuple[float, float, float]], length: float) -> str:
    """Smooth profile through stations, values and slopes."""
    found = []
    ends = [*rows[1:], (length, rows[0][1], rows[0][2])] if rows[-1][0] < length else rows[1:]
    for (s, a, b), (end, after, slope) in zip(rows, ends, strict=False):
        run = end - s
        c = (3 * (after - a) - run * (2 * b + slope)) / run**2
        d = (2 * (a - after) + run * (b + slope)) / run**3
        found.append(f'<{tag} s="{num(s)}" a="{num(a)}" b="{num(b)}" c="{num(c)}" d="{num(d)}"/>')
    return "".join(found)


# ---- highway ---------------------------------------------------------------------------------------------------------


def highway() -> Network:
    """Closed motorway of two lanes in each direction: two straights, and bends of 300 m radius with spirals."""
    net = Network("highway")
    radius, clothoid = 300.0, 120.0
    bend = (PI - clothoid / radius) * radius
    line = Line((-250.0, -360.0, 0.0))
    for _ in range(2):
        line.add("line", 500.0).add("spiral", clothoid, 0.0, 1 / radius).add("arc", bend, 1 / radius)
        line.add("spiral", clothoid, 1 / radius, 0.0)
    half = 500 + 2 * clothoid + bend

    def side(sign: int) -> str:
        lanes = [
            (1, "median", 2.0, "solid", 0.0),
            (2, "driving", 3.75, "broken", 0.0),
            (3, "driving", 3.75, "solid", 0.0),
            (4, "shoulder", 2.5, "", 0.0),
        ]
        rows = [lane(sign * n, k, w, mark=m, high=h, links=link(sign * n, sign * n)) for n, k, w, m, h in lanes]
        return "".join(rows if sign < 0 else rows[::-1])

    bank, total = 0.04, line.length
    lateral: list[tuple[float, float, float]] = []
    hills: list[tuple[float, float, float]] = []
    for k in range(2):
        s = k * half
        lateral += [
            (s, 0.0, 0.0),
            (s + 500, 0.0, 0.0),
            (s + 500 + clothoid, bank, 0.0),
            (s + half - clothoid, bank, 0.0),
        ]
        hills += [(s, 0.0, 0.0), (s + 250, 3.0 if k == 0 else -2.0, 0.0), (s + 500, 0.0, 0.0)]
    rails = [
        item("barrier", 0, t, length=4.0, width=0.15, height=0.75, name="guard-rail", repeat=repeat(2, total - 4, 4.0))
        for t in (-1.0, 1.0, -13.2, 13.2)
    ]
    rng = np.random.default_rng(1)
    trees = [
        item("tree", s, t, height=float(rng.uniform(6, 13)), radius=float(rng.uniform(1.8, 3.2)), name="tree")
        for s, t in zip(rng.uniform(0, total, 90), rng.choice([-1, 1], 90) * rng.uniform(19, 34, 90), strict=True)
    ]
    signs = "".join(
        f'<signal id="0" s="{num(s)}" t="{num(t)}" type="274" subtype="100" orientation="{o}" dynamic="no"/>'
        for s, t, o in ((40, -14, "+"), (460, 14, "-"), (half + 40, -14, "+"), (half + 460, 14, "-"))
    )
    same = 'elementType="road" elementId="1" contactPoint="{}"'
    net.road(
        1,
        line,
        side(1),
        lane(0, "none", 0),
        side(-1),
        before=same.format("end"),
        after=same.format("start"),
        speed=100,
        elevation=profile("elevation", hills, total),
        lateral=profile("superelevation", lateral, total),
        objects=f"<objects>{''.join(rails + trees)}</objects><signals>{signs}</signals>",
    )
    return net


# ---- park ------------------------------------------------------------------------------------------------------------


def park() -> Network:
    """Closed winding path of 3 m, lit, among trees, benches and a hut."""
    net = Network("park")
    line = Line((-20.0, -45.0, 0.0))
    # Eight bends that turn by a whole revolution; each swings back and forth.
    for k in range(4):
        line.add("line", 12.0 + 6.0 * (k % 2)).add("spiral", 12.0, 0.0, 1 / 18).add("arc", 18 * (PI / 2) - 12.0, 1 / 18)
        line.add("spiral", 12.0, 1 / 18, 0.0).add("line", 12.0 + 6.0 * (k % 2))
    rng = np.random.default_rng(2)
    objects = []
    for s, t in zip(rng.uniform(0, line.length, 70), rng.choice([-1, 1], 70) * rng.uniform(5, 17, 70), strict=True):
        height = float(rng.uniform(5, 14))
        if abs(s - 73.0) < 6.0 and abs(t - 16.3) < 6.0:
            continue  # the origin stays clear
        objects.append(item("tree", s, t, height=height, radius=0.27 * height, name="tree"))
    objects += [
        item("streetLamp", s, 2.6, hdg=-PI / 2, height=4.5, name="lamp") for s in np.arange(10, line.length - 10, 28)
    ]
    objects += [item("bench", s, -2.8, hdg=PI / 2, name="bench") for s in np.arange(20, line.length - 10, 35)]
    objects += [item("building", 30.0, 22.0, length=7.0, width=5.0, height=4.0, name="hut")]
    same = 'elementType="road" elementId="1" contactPoint="{}"'
    right = lane(-1, "driving", 1.5, links=link(-1, -1))
    left = lane(1, "driving", 1.5, links=link(1, 1))
    net.road(
        1,
        line,
        left,
        lane(0, "none", 0),
        right,
        before=same.format("end"),
        after=same.format("start"),
        speed=20,
        objects=f"<objects>{''.join(objects)}</objects>",
    )
    return net


# ---- roads in town ---------------------------------------------------------------------------------------------------

LANE, KERB, WALK = 3.25, 0.15, 2.2
HIGH = 0.12


def town_side(sign: int, *, walk: bool = True, mark: str = "", links: str = "") -> str:
    """Lane, kerb and sidewalk of one side."""
    rows = [lane(sign, "driving", LANE, mark=mark, links=links)]
    if walk:
        rows += [lane(2 * sign, "curb", KERB, high=HIGH), lane(3 * sign, "sidewalk", WALK, high=HIGH)]
    return "".join(rows if sign < 0 else rows[::-1])


def connections(number: int, rows: list[tuple[int, int, int]]) -> str:
    """Junction of ways: incoming road, its lane, connecting road."""
    inner = "".join(
        f'<connection id="{k}" incomingRoad="{road}" connectingRoad="{way}" contactPoint="start">'
        f'<laneLink from="{number_}" to="-1"/></connection>'
        for k, (road, number_, way) in enumerate(rows)
    )
    return f'<junction id="{number}" name="">{inner}</junction>'


def roundabout() -> Network:
    """Roundabout of 18 m inner radius with four arms; loops join the east with the north, the west with the south."""
    net = Network("roundabout")
    radius, delta, near, arm = 18.0, 0.62, 42.0, 50.0
    ring_angle = PI / 2 - 2 * delta
    for k in range(4):
        phi = k * PI / 2
        out = np.array([np.cos(phi), np.sin(phi)])
        # Arm 1 + k leads outward; ring 11 + k follows the arm.
        objects = "".join(item("streetLamp", s, 7.2, hdg=-PI / 2, height=8.0, name="lamp") for s in (8.0, 36.0))
        contact = "start" if k in (0, 2) else "end"
        lobe = f'elementType="road" elementId="{31 if k in (0, 1) else 32}" contactPoint="{contact}"'
        line = Line((float(near * out[0]), float(near * out[1]), phi)).add("line", arm)
        after = -1 if k in (0, 2) else 1
        net.road(
            1 + k,
            line,
            town_side(1, links=link(0, -after)),
            lane(0, "none", 0, mark="broken"),
            town_side(-1, links=link(0, after)),
            before=f'elementType="junction" elementId="{101 + k}"',
            after=lobe,
            objects=f"<objects>{objects}</objects>",
        )

        def on_ring(angle: float) -> Pose:
            return float(radius * np.cos(angle)), float(radius * np.sin(angle)), angle + PI / 2

        ring = Line(on_ring(phi + delta)).add("arc", radius * ring_angle, 1 / radius)
        at = 'elementType="junction" elementId="{}"'
        net.road(
            11 + k,
            ring,
            "",
            lane(0, "none", 0, mark="solid"),
            lane(-1, "driving", 5.0, links=link(-1, -1))
            + lane(-2, "curb", KERB, high=HIGH)
            + lane(-3, "sidewalk", WALK, high=HIGH),
            before=at.format(101 + k),
            after=at.format(101 + (k + 1) % 4),
            speed=30,
        )
        # Ways of the junction: around, in, out.
        own, previous = 11 + k, 11 + (k + 3) % 4
        end = 'elementType="road" elementId="{}" contactPoint="{}"'
        around = Line(on_ring(phi - delta)).add("arc", radius * 2 * delta, 1 / radius)
        net.road(
            41 + k,
            around,
            "",
            lane(0, "none", 0, mark="solid"),
            lane(-1, "driving", 5.0, links=link(-1, -1)),
            junction=101 + k,
            before=end.format(previous, "end"),
            after=end.format(own, "start"),
            speed=30,
        )
        entry = Line((float(near * out[0]), float(near * out[1]), phi + PI)).cubic_to(
            _turned(on_ring(phi + delta), phi + PI)
        )
        wider = _between(LANE, 5.0, entry.length)
        foot = lane(-2, "curb", KERB, high=HIGH) + lane(-3, "sidewalk", WALK, high=HIGH)
        net.road(
            51 + k,
            entry,
            "",
            lane(0, "none", 0),
            _driving(wider, link(1, -1)) + foot,
            junction=101 + k,
            before=end.format(1 + k, "start"),
            after=end.format(own, "start"),
            speed=30,
        )
        way_out = Line(on_ring(phi - delta)).cubic_to((float(near * out[0]), float(near * out[1]), phi))
        net.road(
            61 + k,
            way_out,
            "",
            lane(0, "none", 0),
            _driving(_between(5.0, LANE, way_out.length), link(-1, -1)) + foot,
            junction=101 + k,
            before=end.format(previous, "end"),
            after=end.format(1 + k, "start"),
            speed=30,
        )
        net.junctions.append(connections(101 + k, [(previous, -1, 41 + k), (1 + k, 1, 51 + k), (previous, -1, 61 + k)]))
    far = near + arm
    for number, (start, first, last) in enumerate((((far, 0.0, 0.0), 1, 2), ((-far, 0.0, PI), 3, 4)), start=31):
        line = Line(start).add("arc", 1.5 * PI * far, 1 / far)
        ends = 'elementType="road" elementId="{}" contactPoint="end"'
        rng = np.random.default_rng(number)
        trees = "".join(
            item("tree", float(s), float(t), height=9.0, radius=2.4, name="tree")
            for s, t in zip(np.arange(15, line.length - 15, 22), rng.choice([-8.5, 8.5], 40), strict=False)
        )
        net.road(
            number,
            line,
            town_side(1, links=link(-1, 1)),
            lane(0, "none", 0, mark="broken"),
            town_side(-1, links=link(-1, 1)),
            before=ends.format(first),
            after=ends.format(last),
            objects=f"<objects>{trees}</objects>",
        )
    return net


def _turned(pose: Pose, heading: float) -> Pose:
    """Pose with its heading within half a revolution of another one."""
    away = (pose[2] - heading + PI) % (2 * PI) - PI
    return pose[0], pose[1], heading + away


def _between(first: float, last: float, length: float) -> str:
    change = last - first
    c, d = 3 * change / length**2, -2 * change / length**3
    return f'<width sOffset="0" a="{num(first)}" b="0" c="{num(c)}" d="{num(d)}"/>'


def _driving(width: str, links: str) -> str:
    return f'<lane id="-1" type="driving" level="false"><link>{links}</link>{width}</lane>'


def suburb() -> Network:
    """Three by three junctions, 80 m apart, with houses, gardens, trees, lamps and parked cars."""
    net = Network("suburb")
    count, pitch, trim = 3, 80.0, 11.0
    steps = ((1, 0), (0, 1), (-1, 0), (0, -1))
    nodes = [(i, j) for i in range(count) for j in range(count)]
    # Street between two nodes: number, and True if it begins at the node.
    at: dict[tuple[int, int], dict[int, tuple[int, bool]]] = {node: {} for node in nodes}
    rng = np.random.default_rng(3)

    def place(node: tuple[int, int]) -> tuple[float, float]:
        return (node[0] - (count - 1) / 2) * pitch, (node[1] - (count - 1) / 2) * pitch

    streets = []
    for node in nodes:
        for d in (0, 1):
            other = (node[0] + steps[d][0], node[1] + steps[d][1])
            if other in at:
                streets.append((node, other, d))
                at[node][d], at[other][d + 2] = (len(streets), True), (len(streets), False)
    for number, (node, other, d) in enumerate(streets, start=1):
        x, y = place(node)
        line = Line((x + trim * steps[d][0], y + trim * steps[d][1], d * PI / 2)).add("line", pitch - 2 * trim)
        objects = []
        for sign in (-1, 1):
            for s in (12.0, 46.0) if d == 0 else (29.0,):
                storeys = int(rng.integers(1, 3))
                size = {
                    "length": float(rng.uniform(9, 12)),
                    "width": float(rng.uniform(8, 10)),
                    "height": 3.0 * storeys + 3.5,
                }
                objects.append(item("building", s, sign * 18.0, name="house", **size))
            objects.append(item("tree", 28.0, sign * 8.5, height=float(rng.uniform(6, 9)), radius=2.0, name="tree"))
            objects.append(item("vegetation", 38.0, sign * 8.0, length=6.0, width=0.6, height=1.2, name="hedge"))
        objects.append(item("streetLamp", 20.0, 6.4, hdg=-PI / 2, height=6.0, name="lamp"))
        objects.append(item("car", float(rng.uniform(22, 36)), -2.35, name="parked-car"))
        ends = 'elementType="junction" elementId="{}"'
        net.road(
            number,
            line,
            town_side(1),
            lane(0, "none", 0, mark="broken"),
            town_side(-1),
            speed=30,
            before=ends.format(100 + nodes.index(node)),
            after=ends.format(100 + nodes.index(other)),
            objects=f"<objects>{''.join(objects)}</objects>",
        )
    way = 200
    for k, node in enumerate(nodes):
        x, y = place(node)
        rows = []
        for came, (road_in, begins_in) in at[node].items():
            for goes, (road_out, begins_out) in at[node].items():
                if came == goes:
                    continue
                start = (x + trim * steps[came][0], y + trim * steps[came][1], (came + 2) * PI / 2)
                end = _turned((x + trim * steps[goes][0], y + trim * steps[goes][1], goes * PI / 2), start[2])
                turn = end[2] - start[2]
                line = Line(start)
                line = line.add("line", 2 * trim) if abs(turn) < 0.1 else line.cubic_to(end)
                # A sidewalk where no street leaves to the right.
                right_of = (
                    {(came + 1) % 4} if abs(turn) < 0.1 else set() if turn < 0 else {(came + 1) % 4, (came + 2) % 4}
                )
                walk = not (right_of & set(at[node]))
                way += 1
                lane_in, lane_out = (1 if begins_in else -1), (-1 if begins_out else 1)
                ends = 'elementType="road" elementId="{}" contactPoint="{}"'
                net.road(
                    way,
                    line,
                    "",
                    lane(0, "none", 0),
                    town_side(-1, walk=walk, links=link(lane_in, lane_out)),
                    junction=100 + k,
                    before=ends.format(road_in, "start" if begins_in else "end"),
                    after=ends.format(road_out, "start" if begins_out else "end"),
                    speed=30,
                )
                rows.append((road_in, lane_in, way))
        net.junctions.append(connections(100 + k, rows))
    return net


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for network in (highway(), park(), roundabout(), suburb()):
        network.save()
