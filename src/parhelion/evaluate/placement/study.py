"""Placement study, from its file to the answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core import config
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Floats, Pose
from parhelion.core.trajectory import pose_at
from parhelion.evaluate.placement.cells import Cells, cells_of, disc_cells, ground_around
from parhelion.evaluate.placement.objectives import Covered, Located, information
from parhelion.evaluate.placement.schema import (
    MOST_CANDIDATES,
    AnchorSite,
    BlindEntry,
    Box,
    CoverageEntry,
    LocalisationEntry,
    PlacementFile,
)
from parhelion.evaluate.placement.search import BestSet, Exact, Objective, Score, greedy, silent
from parhelion.evaluate.placement.sights import Eye, Surroundings, eye_of
from parhelion.rays import RayScene, SceneGeometry
from parhelion.scenario.scenario import Scenario
from parhelion.scenario.schema import WorldEntry
from parhelion.sensors.waves.radio import without_housings
from parhelion.sensors.waves.uwb.solve import check_layout
from parhelion.sensors.waves.uwb.uwb import Uwb
from parhelion.world.world import World

Advance = Callable[[], None]

_FLOOR_M = 0.05
_MOST_PLACES = 1_000_000


@dataclass(frozen=True, eq=False)
class Candidate:
    """Pose of one sensor or anchor."""

    name: str
    type: str
    model: str
    pose: Pose
    """Pose on the vehicle, or in the world without a vehicle."""
    eye: Eye | None = None


@dataclass(eq=False)
class Maps:
    """Data for pictures."""

    cells: list[Cells] = field(default_factory=list)
    """Cells of the coverage; one entry per pose if the region is attached to the vehicle."""
    ground: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    """Ground around the vehicle at its first pose, in the world [m], shape (m, 3)."""
    places: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    """Places of the tag [m], shape (p, 3)."""


class Placement:
    """Placement file with its world and candidates.

    question = Placement.load("lidars.yaml")
    answer = question.solve()
    answer.result["chosen"]
    """

    def __init__(self, settings: PlacementFile, folder: str | PathLike[str] = ".", source: str = "placement") -> None:
        self.settings, self.folder, self.source = settings, Path(folder), source
        self.world, vehicle = self._load_world()
        self.candidates = self._at("candidates", self._candidates)
        count, choose = len(self.candidates), settings.choose
        if choose > count:
            raise ConfigError(f"{source}: choose: {choose} of {count} candidates cannot be chosen")
        self.poses = [Pose()] if vehicle is None else [vehicle]
        if settings.vehicle is not None and settings.vehicle.poses is not None:
            self.poses = [entry.pose() for entry in settings.vehicle.poses]
        self.maps = Maps()

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Placement:
        """Read a placement file."""
        file = Path(path)
        return cls(config.load(PlacementFile, file), file.parent, str(path))

    @classmethod
    def from_mapping(cls, fields: dict[str, Any], folder: str | PathLike[str] = ".") -> Placement:
        """Create a study from the fields of a placement file."""
        return cls(config.parse(PlacementFile, fields, "placement"), folder)

    @property
    def casts(self) -> int:
        """Number of calls of `advance` while rays of candidates are cast."""
        score = self.settings.score
        return len(self.candidates) * sum(one is not None for one in (score.coverage, score.blind, score.localisation))

    @property
    def steps(self) -> int:
        """Number of calls of `advance` during the search."""
        choose = self.settings.choose
        return choose + (len(self.candidates) - choose + 1 if self.is_exact() else 0)

    # ---- building ----------------------------------------------------------------------------------------------

    def _at(self, where: str, make: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return make(*arguments)
        except (ConfigError, FormatError) as error:
            text = str(error)
            raise ConfigError(text if text.startswith(self.source) else f"{self.source}: {where}: {text}") from None

    def _load_world(self) -> tuple[World, Pose | None]:
        settings = self.settings
        if settings.scenario is not None:
            scenario: Scenario = self._at("scenario", Scenario.load, self.folder / settings.scenario)
            name = None if settings.vehicle is None else settings.vehicle.name
            if name is None:
                return scenario.world, None
            if name not in scenario.bodies:
                known = ", ".join(scenario.bodies) or "none"
                raise ConfigError(f"{self.source}: vehicle: {name!r} is not a vehicle of the scenario ({known})")
            return scenario.world, pose_at(scenario.bodies[name].motion, settings.time_s)
        assert settings.world is not None
        entry = WorldEntry(name=settings.world) if isinstance(settings.world, str) else settings.world
        place: Any = self.folder / entry.name if Path(entry.name).suffix else entry.name
        return self._at("world", lambda: World.load(place, seed=entry.seed, **entry.params)), None

    def _candidates(self) -> list[Candidate]:
        found: list[Candidate] = []
        for number, site in enumerate(self.settings.candidates):
            eye = None
            if isinstance(site, AnchorSite):
                poses, model = [Pose(site.xyz)] if site.xyz is not None else [], ""
            else:
                eye = self._at(f"candidates[{number}]", eye_of, site, self.folder)
                poses, model = [site.mount.pose()] if site.mount is not None else [], site.model
            word = site.name or f"{site.type}-{number}"
            if site.grid is not None:
                poses = site.grid.poses()
            names = [word] if site.grid is None else [f"{word}-{k}" for k in range(len(poses))]
            found += [Candidate(name, site.type, model, pose, eye) for name, pose in zip(names, poses, strict=True)]
            if len(found) > MOST_CANDIDATES:
                raise ConfigError(f"there are more than {MOST_CANDIDATES}; use coarser grids")
        names = [one.name for one in found]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"the name {twice[0]!r} is given twice")
        return found

    def _check_region(self, where: str, region: Box, poses: Sequence[Pose]) -> None:
        """Raise ConfigError if a region lies outside the world."""
        bounds = self.world.bounds
        low, high = np.array(region.min), np.array(region.max)
        corners = np.array([[(low, high)[(k >> axis) & 1][axis] for axis in range(3)] for k in range(8)])
        placed = np.concatenate([pose.apply(corners) for pose in poses])
        if bounds is None:
            raise ConfigError(f"{self.source}: world: it is empty")
        if np.any(placed.max(axis=0) < bounds[0]) or np.any(placed.min(axis=0) > bounds[1]):
            ends = [", ".join(f"{value:.4g}" for value in corner) for corner in bounds]
            raise ConfigError(
                f"{self.source}: {where}: region: lies outside the world, which extends from ({ends[0]}) to "
                f"({ends[1]}) m"
            )

    def _body(self) -> World:
        """Body of the vehicle in its own frame."""
        vehicle = self.settings.vehicle
        body = World("body")
        if vehicle is None:
            return body
        for number, shape in enumerate(vehicle.body):
            what: Any = self.folder / shape.mesh if shape.mesh is not None else shape.shape
            self._at(
                f"vehicle.body[{number}]",
                lambda what=what, shape=shape: body.add(what, material=shape.material, pose=shape.pose.pose()),
            )
        return body

    def body_triangles(self) -> Floats:
        """Body of the vehicle from above in its own frame [m], shape (n, 3, 2)."""
        soup = self._body().geometry().static
        return soup.vertices[soup.faces][:, :, :2]

    # ---- ray casting -------------------------------------------------------------------------------------------

    def objectives(self, advance: Advance = silent) -> list[Objective]:
        """Cast the rays of all candidates; return the objectives with the contribution of each candidate."""
        score = self.settings.score
        found: list[Objective] = []
        if score.localisation is not None:
            return [self._localisation(score.localisation, advance)]
        body = self._body()
        scene = RayScene(body.geometry()) if body.objects else None
        around = Surroundings(RayScene(self.world.geometry()), scene, self.poses, self.settings.time_s)
        if score.coverage is not None:
            found.append(self._coverage(score.coverage, around, advance))
        if score.blind is not None:
            found.append(self._blind(score.blind, around, advance))
        return found

    def _coverage(self, entry: CoverageEntry, around: Surroundings, advance: Advance) -> Covered:
        along = entry.frame == "vehicle"
        frames = self.poses if along else [Pose()]
        self._check_region("score: coverage", entry.region, frames)
        cells = [
            self._at("score: coverage", cells_of, self.world, entry, pose, self.settings.time_s, self.settings.seed)
            for pose in frames
        ]
        count = sum(map(len, cells))
        if not count:
            raise ConfigError(f"{self.source}: score: coverage: region: contains no surface with a weight")
        points = np.zeros((len(self.candidates), count), np.int32)
        for row, candidate in enumerate(self.candidates):
            assert candidate.eye is not None
            views = around.rays_at(candidate.eye, candidate.pose)
            seen = [cells[k if along else 0].counts(*view) for k, view in enumerate(views)]
            total = np.concatenate(seen) if along else np.sum(seen, axis=0)
            points[row] = np.minimum(total * candidate.eye.points, entry.at_least)
            advance()
        if not points.any():
            raise ConfigError(f"{self.source}: score: coverage: region: no candidate covers any of it")
        self.maps.cells = cells
        weight = np.concatenate([one.weight for one in cells])
        return Covered("coverage", entry.weight, points, weight, entry.at_least)

    def _blind(self, entry: BlindEntry, around: Surroundings, advance: Advance) -> Covered:
        level = disc_cells(entry.radius_m, entry.cell_m)
        grounds = [ground_around(around, pose, level, entry) for pose in self.poses]
        count = sum(map(len, grounds))
        if not count:
            raise ConfigError(f"{self.source}: score: blind: there is no ground around the vehicle at its poses")
        points = np.zeros((len(self.candidates), count), np.int32)
        for row, candidate in enumerate(self.candidates):
            assert candidate.eye is not None
            seen = [
                around.sees(candidate.eye, candidate.pose, pose, ground)
                for pose, ground in zip(self.poses, grounds, strict=True)
            ]
            points[row] = np.concatenate(seen)
            advance()
        self.maps.ground = grounds[0]
        return Covered("blind", entry.weight, points, np.ones(count))

    def _localisation(self, entry: LocalisationEntry, advance: Advance) -> Located:
        self._check_region("score: localisation", entry.region, [Pose()])
        anchors = np.array([one.pose.xyz for one in self.candidates])
        flat = entry.dimensions == 2
        self._at("candidates", check_layout, anchors * [1.0, 1.0, 0.0] if flat else anchors, flat, False)
        least = entry.dimensions + 1
        if self.settings.choose < least:
            raise ConfigError(
                f"{self.source}: choose: {self.settings.choose} anchors give no position in {entry.dimensions} "
                f"dimensions; choose at least {least}"
            )
        radio = self._at("score: localisation: model", Uwb, entry.model).config
        sigma = radio.range_noise_m if entry.sigma_m is None else entry.sigma_m
        if sigma <= 0.0:
            raise ConfigError(f"{self.source}: score: localisation: {entry.model} has no range noise; give sigma_m")
        seen = self.world.geometry("uwb")
        scene = RayScene(SceneGeometry(without_housings(self.world, seen.static), seen.actors, seen.surface))
        around = Surroundings(scene, None, self.poses, self.settings.time_s)
        places = self._at("score: localisation", _places, entry, around)
        visible = np.zeros((len(anchors), len(places)), bool)
        reach = radio.max_range_m if entry.range_m is None else entry.range_m
        for row, anchor in enumerate(anchors):
            near = np.flatnonzero(np.linalg.norm(places - anchor, axis=1) <= reach)
            visible[row, near] = around.free(scene, places[near], np.broadcast_to(anchor, (len(near), 3)))
            advance()
        self.maps.places = places
        parts = information(anchors, places, visible, entry.dimensions)
        located = Located(entry.weight, parts, visible, least, sigma, entry.limit_m)
        if located.value_with_all(located.start(), np.arange(len(anchors))) <= 0.0:
            raise ConfigError(
                f"{self.source}: score: localisation: even all candidates together give no position in the region "
                f"with an error below limit_m, {entry.limit_m:g} m"
            )
        return located

    # ---- searching ---------------------------------------------------------------------------------------------

    def is_exact(self) -> bool:
        """Test whether the search will be exact; ConfigError if an exact one is requested but too large."""
        search = self.settings.search
        number = math.comb(len(self.candidates), self.settings.choose)
        if search.method == "exact" and number > search.exact_limit:
            raise ConfigError(
                f"{self.source}: search: {number} combinations are more than exact_limit, {search.exact_limit}; "
                "use method: greedy, fewer candidates, or a higher limit"
            )
        return search.method != "greedy" and number <= search.exact_limit

    def solve(self, advance: Advance = silent) -> Answer:
        """Cast rays and search; `advance` is called `casts` times, and then for each step of the search."""
        self.is_exact()  # report a search that is too large before the casts
        return self.search(self.objectives(advance), advance)

    def search(self, objectives: Sequence[Objective], advance: Advance = silent) -> Answer:
        """Best set for the given objectives."""
        score = Score(objectives, len(self.candidates))
        quick = greedy(score, self.settings.choose, advance)
        best: BestSet | None = None
        visited = 0
        if self.is_exact():
            exact = Exact(score, self.settings.choose, quick)
            best = exact.run(advance)
            visited = exact.visited
        return Answer(self, score, quick, best, visited)


@dataclass(frozen=True, eq=False)
class Answer:
    """Result of a placement study."""

    question: Placement
    score: Score
    greedy: BestSet
    exact: BestSet | None
    visited: int
    """Number of sets that the exact search evaluated."""

    @property
    def best(self) -> BestSet:
        """Exact set if available, otherwise the greedy one."""
        return self.greedy if self.exact is None else self.exact

    @property
    def upper_bound(self) -> float:
        """Upper bound of the score of any set of this size."""
        if self.exact is not None:
            return self.exact.score
        everyone = np.arange(self.score.count)
        state = self.score.start()
        return self.score.bound(state, self.score.parts(state, everyone), everyone, self.question.settings.choose)


def _places(entry: LocalisationEntry, around: Surroundings) -> Floats:
    """Possible places of the tag [m], shape (p, 3)."""
    low, high = np.array(entry.region.min), np.array(entry.region.max)
    count = np.maximum(np.round((high - low)[:2] / entry.cell_m).astype(int), 1)
    if float(count[0]) * float(count[1]) * len(entry.heights_m) > _MOST_PLACES:
        raise ConfigError(f"cell_m: {entry.cell_m:g} m gives more than {_MOST_PLACES} places; use larger cells")
    axes = [low[k] + (np.arange(count[k]) + 0.5) * (high[k] - low[k]) / count[k] for k in range(2)]
    level = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    if entry.over_floor:
        start = np.column_stack([level, np.full(len(level), high[2])])
        down: NDArray[Any] = np.broadcast_to([0.0, 0.0, -1.0], start.shape)
        deep = float(high[2] - low[2])
        met = around.ranges(around.scene, start, down, deep + _FLOOR_M)
        level = level[np.isfinite(met) & (met >= deep - _FLOOR_M)]
        if not len(level):
            raise ConfigError(
                "region: from its upper face down, no ray meets a floor at its lower face; move the faces, or set "
                "over_floor: false"
            )
    return np.concatenate(
        [np.column_stack([level, np.full(len(level), low[2] + height)]) for height in entry.heights_m]
    )
