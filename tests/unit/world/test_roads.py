"""Roads from OpenDRIVE: reference lines and lanes in closed form, surfaces, and the graph of lanes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad

from parhelion import World
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Floats
from parhelion.motion import MotionLimits, SplineMotion
from parhelion.motion.actors import add_car
from road_rigs import MARK, geometry, lane, linked, network, road, tee_junction

LENGTH, WIDTH = 80.0, 3.5


def load(folder: Path, text: str) -> World:
    (folder / "roads.xodr").write_text(text)
    return World.load(folder / "roads.xodr")


def centre(folder: Path, shape: str, length: float = LENGTH, **more: str) -> Floats:
    """Centre line of the only lane, right of the reference line."""
    text = network(road(1, geometry(shape, length), length, right=lane(-1, width=WIDTH), **more))
    graph = load(folder, text).lanes
    assert len(graph.lanes) == 1
    line: Floats = graph.lanes[0].line
    return line


def away(line: Floats, curve: Floats) -> float:
    """Largest distance of points (n, 2) from a dense curve (m, 2) [m]."""
    from scipy.spatial import cKDTree

    return float(cKDTree(curve).query(line)[0].max())


def beside(x: Floats, y: Floats, heading: Floats, t: float) -> Floats:
    return np.column_stack([x - t * np.sin(heading), y + t * np.cos(heading)])


def test_line(tmp_path: Path) -> None:
    line = centre(tmp_path, "<line/>")
    assert np.allclose(
        line,
        np.column_stack([np.linspace(0, LENGTH, len(line)), np.full(len(line), -1.75), np.zeros(len(line))]),
        atol=1e-6,
    )


@pytest.mark.parametrize("curvature", [0.02, -0.05])
def test_arc(tmp_path: Path, curvature: float) -> None:
    line = centre(tmp_path, f'<arc curvature="{curvature}"/>', 40.0)
    radius = np.hypot(line[:, 0], line[:, 1] - 1 / curvature)
    assert np.allclose(radius, abs(1 / curvature) + np.sign(curvature) * WIDTH / 2, atol=1e-6)


@pytest.mark.parametrize(("first", "last"), [(0.0, 0.03), (0.02, -0.02), (0.05, 0.01), (-0.01, -0.04)])
def test_spiral_is_the_integral_of_its_heading(tmp_path: Path, first: float, last: float) -> None:
    line = centre(tmp_path, f'<spiral curvStart="{first}" curvEnd="{last}"/>')
    rate = (last - first) / LENGTH
    s = np.linspace(0, LENGTH, len(line))

    def turn(u: float) -> float:
        return first * u + rate * u * u / 2

    x = np.array([quad(lambda u: np.cos(turn(u)), 0, end, epsabs=1e-10)[0] for end in s])
    y = np.array([quad(lambda u: np.sin(turn(u)), 0, end, epsabs=1e-10)[0] for end in s])
    expected = beside(x, y, first * s + rate * s**2 / 2, -WIDTH / 2)
    assert np.abs(line[:, :2] - expected).max() < 1e-6


def test_poly3_by_arc_length(tmp_path: Path) -> None:
    line = centre(tmp_path, '<poly3 a="0" b="0" c="0.004" d="-0.00002"/>')
    u = np.linspace(0, LENGTH, 40_001)
    v = 0.004 * u**2 - 0.00002 * u**3
    slope = 0.008 * u - 0.00006 * u**2
    assert away(line[:, :2], beside(u, v, np.arctan(slope), -WIDTH / 2)) < 0.01
    arc = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(u), np.diff(v)))])
    end = np.interp(LENGTH, arc, u)
    expected = beside(
        *(
            np.array([value])
            for value in (end, 0.004 * end**2 - 0.00002 * end**3, np.arctan(0.008 * end - 0.00006 * end**2))
        ),
        -WIDTH / 2,
    )
    assert np.abs(line[-1, :2] - expected[0]).max() < 0.01


@pytest.mark.parametrize(("kind", "scale"), [("normalized", 1.0), ("arcLength", LENGTH)])
def test_parametric_cubic(tmp_path: Path, kind: str, scale: float) -> None:
    p = np.linspace(0, 1, 40_001)
    u, v = 78 * p + 2 * p**2 - 3 * p**3, 20 * p**2 - 8 * p**3
    values = (
        [factor / scale**k for k, factor in enumerate((0, 78, 2, -3))],
        [factor / scale**k for k, factor in enumerate((0, 0, 20, -8))],
    )
    names = [f"{k}{axis}" for axis in "UV" for k in "abcd"]
    text = " ".join(f'{name}="{value!r}"' for name, value in zip(names, [*values[0], *values[1]], strict=True))
    line = centre(tmp_path, f'<paramPoly3 pRange="{kind}" {text}/>')
    heading = np.arctan2(np.gradient(v, p), np.gradient(u, p))
    assert away(line[:, :2], beside(u, v, heading, -WIDTH / 2)) < 0.01


def test_widths_offset_elevation_and_superelevation(tmp_path: Path) -> None:
    widths = '<width sOffset="0" a="3" b="0" c="0" d="0"/><width sOffset="40" a="3" b="0.05" c="0" d="0"/>'
    lanes = f'<lane id="-1" type="driving">{widths}</lane>'
    text = network(
        road(
            1,
            geometry("<line/>", LENGTH),
            LENGTH,
            right=lanes,
            offset='<laneOffset s="0" a="1" b="0" c="0" d="0"/>',
            elevation='<elevation s="0" a="2" b="0.05" c="0" d="0"/>',
            lateral='<superelevation s="0" a="0.04" b="0" c="0" d="0"/>',
        )
    )
    line = load(tmp_path, text).lanes.lanes[0].line
    s = line[:, 0]
    t = 1.0 - (3.0 + np.maximum(0.0, 0.05 * (s - 40))) / 2
    assert np.abs(line[:, 1] - t * np.cos(0.04)).max() < 1e-6
    assert np.abs(line[:, 2] - (2 + 0.05 * s + t * np.sin(0.04))).max() < 1e-6


def test_surface_markings_and_kerbs(tmp_path: Path) -> None:
    height = '<height sOffset="0" inner="0.12" outer="0.12"/>'
    right = (
        lane(-1, more=MARK.format(kind="solid"))
        + lane(-2, "curb", 0.15, more=height)
        + lane(-3, "sidewalk", 2.0, more=height)
    )
    text = network(
        road(1, geometry("<line/>", LENGTH), LENGTH, right=right, left=lane(1), centre=MARK.format(kind="broken"))
    )
    world = load(tmp_path, text)

    def below(x: float, y: float) -> tuple[str, float]:
        hits = world.cast([[x, y, 3.0]], [[0.0, 0.0, -1.0]])
        return world.label_names[int(world.parts.label[hits.part[0]])], round(3.0 - float(hits.range[0]), 4)

    assert below(40.0, -1.75) == ("road", 0.0)
    assert below(40.0, 1.75) == ("road", 0.0)
    assert below(40.0, -3.5) == ("lane-marking", 0.005)
    assert below(40.0, -3.6) == ("sidewalk", 0.12)
    assert below(40.0, -4.5) == ("sidewalk", 0.12)
    assert below(40.0, -10.0)[0] == "terrain"
    assert [below(3.0 + 9 * k + x, 0.0)[0] for k in (0, 3) for x in (1.0, 4.0, 7.0)] == [
        "lane-marking",
        "road",
        "road",
    ] * 2
    kerb = world.cast([[40.0, -2.0, 0.06]], [[0.0, -1.0, 0.0]])
    assert kerb.range[0] == pytest.approx(1.5, abs=1e-6)
    assert world.contents is not None
    assert world.contents.measure("lane type=driving") == pytest.approx(2 * 3.5 * LENGTH)


def test_objects_and_signals(tmp_path: Path) -> None:
    objects = """<objects><object id="1" type="pole" s="10" t="5" radius="0.1" height="4" name="p"/>
<object id="2" type="barrier" s="20" t="-6" length="2" width="0.3" height="0.8">
<repeat s="20" length="20" distance="5"/></object>
<object id="3" type="streetLamp" s="30" t="6" hdg="-1.5708" height="6"/>
<object id="4" type="magic" s="1" t="1"/></objects>
<signals><signal id="5" s="70" t="-5" type="274" subtype="50" orientation="+" dynamic="no"/>
<signal id="6" s="60" t="-5" type="1000001" orientation="+" dynamic="yes"/></signals>"""
    world = load(tmp_path, network(road(1, geometry("<line/>", LENGTH), LENGTH, right=lane(-1), more=objects)))
    assert world.contents is not None
    read = {entry.what: entry.count for entry in world.contents.read}
    assert read["object type=barrier"] == 5
    assert read["signal 274-50"] == read["signal light"] == read["object type=pole"] == 1
    assert [(entry.what, entry.count) for entry in world.contents.omitted] == [("object type=magic", 1)]
    pole = world.cast([[10.0, 0.0, 2.0]], [[0.0, 1.0, 0.0]])
    assert pole.range[0] == pytest.approx(4.9, abs=0.01)
    assert len(world.lamps) == 1
    sign = world.cast([[63.0, -5.0, 2.4]], [[1.0, 0.0, 0.0]])
    assert world.label_names[int(world.parts.label[sign.part[0]])] == "traffic-sign"


# ---- graph of lanes --------------------------------------------------------------------------------------------------


def test_routes_through_a_junction(tmp_path: Path) -> None:
    world = load(tmp_path, tee_junction())
    graph = world.lanes
    start, straight, right = graph.row("1", -1), graph.row("2", -1), graph.row("3", -1)
    assert [graph.lanes[row].key[0] for row in graph.route(start, straight)] == ["1", "10", "2"]
    assert [graph.lanes[row].key[0] for row in graph.route(start, right)] == ["1", "11", "3"]
    with pytest.raises(ConfigError, match="no route from lane -1 of road '3' to lane -1 of road '1'"):
        graph.route(right, start)
    with pytest.raises(ConfigError, match="no lane 7 on road '1'"):
        graph.row("1", 7)
    line = graph.line(graph.route(start, right))
    assert np.linalg.norm(np.diff(line, axis=0), axis=1).max() < 1.1, "the route has a gap"


def test_a_car_follows_its_lane_through_a_junction(tmp_path: Path) -> None:
    world = load(tmp_path, tee_junction())
    graph = world.lanes
    route = graph.route(graph.row("1", -1), graph.row("3", -1))
    motion = SplineMotion(graph.line(route), limits=MotionLimits(8.0, 2.0, 2.5))
    car = add_car(world, motion)
    times = np.linspace(motion.start_time, motion.end_time, 400)
    assert car.objects[0].trajectory is not None
    xyz, quat = car.objects[0].trajectory.sample(times)
    # West along y = -1.75, a right turn of radius 10 - 1.75 m about (-10, -10), then south along x = -1.75.
    x, y = xyz[:, 0], xyz[:, 1]
    error = np.where(
        x < -10, np.abs(y + 1.75), np.where(y < -10, np.abs(x + 1.75), np.abs(np.hypot(x + 10, y + 10) - 8.25))
    )
    assert error.max() < 0.02
    assert np.allclose(xyz[[0, -1]], [[-60, -1.75, 0], [-1.75, -60, 0]], atol=0.01)
    heading = np.degrees(2 * np.arctan2(quat[:, 2], quat[:, 3]))
    assert heading[5] == pytest.approx(0.0, abs=0.5)
    assert heading[-5] == pytest.approx(-90.0, abs=0.5)


def test_connections_of_a_junction_do_not_overlap(tmp_path: Path) -> None:
    world = load(tmp_path, tee_junction())
    surfaces = [item for item in world.objects if item.label == "road"]
    covered = sum(part.mesh.area() for item in surfaces for part in item.parts)
    gx, gy = np.meshgrid(np.arange(-70, 70, 0.2) + 0.03, np.arange(-70, 20, 0.2) + 0.07)
    start = np.column_stack([gx.ravel(), gy.ravel(), np.full(gx.size, 5.0)])
    hits = world.cast(start, np.tile([0.0, 0.0, -1.0], (len(start), 1)))
    number = {name: key for key, name in world.label_names.items()}["road"]
    seen = np.count_nonzero(hits.found & (world.parts.label[hits.part] == number)) * 0.04
    assert covered == pytest.approx(seen, rel=0.01)


def test_lanes_against_the_road_are_reversed(tmp_path: Path) -> None:
    world = load(tmp_path, network(road(1, geometry("<line/>", LENGTH), LENGTH, right=lane(-1), left=lane(1))))
    right, left = world.lanes.lanes[world.lanes.row("1", -1)], world.lanes.lanes[world.lanes.row("1", 1)]
    assert right.line[0, 0] < right.line[-1, 0]
    assert left.line[0, 0] > left.line[-1, 0]
    assert right.speed_m_s == pytest.approx(50 / 3.6)


def test_a_ring_is_a_loop(tmp_path: Path) -> None:
    half = np.pi * 20
    parts = []
    for k in range(2):
        other = '<{} elementType="road" elementId="{}" contactPoint="{}"/>'
        link = other.format("predecessor", 2 - k, "end") + other.format("successor", 2 - k, "start")
        shape = geometry('<arc curvature="0.05"/>', half, 0.0, 0.0 if k == 0 else 40.0, k * np.pi)
        parts.append(road(k + 1, shape, half, link=link, right=lane(-1, links=linked(-1, -1))))
    world = load(tmp_path, network(*parts))
    loops = world.lanes.loops()
    assert len(loops) == 1
    line = world.lanes.closed_line(loops[0])
    assert np.allclose(np.hypot(line[:, 0], line[:, 1] - 20), 21.75, atol=0.02)


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("<OpenDRIVE>", "not whole XML"),
        ("<osm/>", "the root element must be <OpenDRIVE>"),
        ("<OpenDRIVE/>", "has no roads"),
        (network('<road id="1" length="5" junction="-1"><planView/></road>'), r"road 1|planView"),
        (network(road(1, geometry("<line/>", 5.0), -5.0, right=lane(-1))), "length must be positive"),
        (
            network(road(1, geometry("<line/>", 5.0).replace('x="0.0"', 'x="nan"'), 5.0, right=lane(-1))),
            "x must be a finite number",
        ),
        (network(road(1, geometry("<line/>", 1e7), 1e7, right=lane(-1))), "length must be at most"),
        (
            network(road(1, geometry("<line/>", 5.0), 5.0, right=lane(-1, width=2000.0))),
            "lane -1 must be at most 1000 m wide",
        ),
        (network(road(1, geometry("<helix/>", 5.0), 5.0, right=lane(-1))), "needs one of line, arc"),
        (network(road(1, geometry("<line/>", 5.0), 5.0, right=lane(1))), "lane 1 must not be in <right>"),
        (network(road(1, geometry("<line/>", 5.0), 5.0)), "none of its lanes has a surface"),
        (network(*(road(1, geometry("<line/>", 5.0), 5.0, right=lane(-1)) for _ in range(2))), "is used twice"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises((ConfigError, FormatError), match=message) as caught:
        load(tmp_path, text)
    assert "roads.xodr" in str(caught.value)


# ---- built-in worlds -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "loops"), [("highway", 4), ("park", 2), ("roundabout", 2), ("suburb", 4)])
def test_built_in_roads_have_closed_routes(name: str, loops: int) -> None:
    world = World.load(name)
    assert len(world.lanes.separate_loops()) >= loops
    for loop in world.lanes.loops():
        line = world.lanes.closed_line(loop, 1.0)
        assert np.linalg.norm(np.diff(np.vstack([line, line[:1]]), axis=0), axis=1).max() < 2.0, (
            "a gap between two lanes"
        )
        # The lane lies on the road everywhere, at its height.
        middle = (line[1::5] + line[:-1:5][: len(line[1::5])]) / 2
        assert np.abs(world.height(middle[:, 0], middle[:, 1]) - middle[:, 2]).max() < 0.02
    assert world.path is not None


@pytest.mark.slow
def test_traffic_on_lanes_stays_on_its_lanes() -> None:
    from scipy.spatial import cKDTree

    from parhelion import Scenario

    scenario = Scenario.from_mapping(
        {"world": "roundabout", "duration_s": 4.0, "traffic": [{"routes": "lanes", "count": 12, "speed_m_s": 6.0}],
         "vehicles": [{"name": "post", "motion": {"fixed": {"xyz": [0, 0, 2]}}}],
         "sensors": [{"name": "imu", "type": "imu", "model": "bosch/bmi160", "vehicle": "post"}]}
    )  # fmt: skip
    graph = World.load("roundabout").lanes
    tree = cKDTree(np.concatenate([entry.line for entry in graph.lanes])[:, :2])
    for _ in scenario:
        pass
    cars = [item for item in scenario.world.objects if item.is_actor and item.label == "car" and "body" in item.name]
    middles = np.array([item.trajectory.sample(np.array([4.0]))[0][0] for item in cars if item.trajectory is not None])
    assert len(middles) >= 12
    assert tree.query(middles[:, :2])[0].max() < 0.7
