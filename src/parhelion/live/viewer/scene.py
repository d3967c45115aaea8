"""3D scene of the page: world, moving bodies, sensor, beams, cloud, images and the picked point."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.image import OPTICAL
from parhelion.core.pose import Pose
from parhelion.core.trajectory import Trajectory, pose_at
from parhelion.live.viewer.colours import Colours
from parhelion.live.viewer.opening import POINT_SIZE_M
from parhelion.live.viewer.session import Pick, Shown
from parhelion.live.viewer.stages import Beams, PlainBody, ViewFrame
from parhelion.outputs.foxglove.scene import linear_colour
from parhelion.world.parts import WorldPart
from parhelion.world.world import World

# ---- display meshes of a world: few meshes, each of one colour ------------------------------------------------------


MOST_TRIANGLES = 1_500_000
"""Maximum number of displayed static triangles; the smallest are omitted on the screen, never in the scan."""
_EXPOSURE = 1.1


@dataclass(frozen=True, eq=False)
class ScreenMesh:
    """Triangles of one material."""

    name: str
    vertices: NDArray[np.float32]
    """Shape (n, 3) [m]."""
    faces: NDArray[np.uint32]
    """Shape (m, 3)."""
    colour: tuple[int, int, int]
    opacity: float | None = None

    def split(self, cut_m: float) -> tuple[ScreenMesh, ScreenMesh]:
        """Triangles that reach below a height [m], and those entirely above it."""
        above = self.vertices[self.faces, 2].min(axis=1) >= cut_m
        return self._only(~above), self._only(above)

    def _only(self, kept: NDArray[np.bool_]) -> ScreenMesh:
        used, rows = np.unique(self.faces[kept], return_inverse=True)
        faces = rows.reshape(-1, 3).astype(np.uint32)
        return ScreenMesh(self.name, self.vertices[used], faces, self.colour, self.opacity)


@dataclass(frozen=True, eq=False)
class ScreenBody:
    """Moving body: meshes in its own frame, and the motion of that frame."""

    name: str
    meshes: tuple[ScreenMesh, ...]
    motion: Trajectory


def standing_meshes(world: World, most: int = MOST_TRIANGLES) -> tuple[list[ScreenMesh], int]:
    """Static meshes, one per material, and the number of omitted triangles."""
    parts = [part for item in world.objects if not item.is_actor for part in item.parts]
    smallest, left_out = _smallest_shown(parts, most)
    return _by_material(parts, smallest), left_out


def moving_bodies(world: World) -> list[ScreenBody]:
    """Moving bodies."""
    return [
        ScreenBody(f"{item.index}-{item.name}", tuple(_by_material(item.parts)), item.trajectory)
        for item in world.objects
        if item.trajectory is not None
    ]


def _areas(part: WorldPart) -> NDArray[np.float64]:
    a, b, c = (part.placed[part.mesh.faces[:, k]] for k in range(3))
    return np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2.0


def _smallest_shown(parts: Sequence[WorldPart], most: int) -> tuple[float, int]:
    """Minimum area [m²] of displayed triangles, and the number of smaller ones."""
    total = sum(len(part.mesh.faces) for part in parts)
    if total <= most:
        return 0.0, 0
    areas = np.concatenate([_areas(part) for part in parts])
    smallest = float(np.partition(areas, total - most)[total - most])
    return smallest, int(np.count_nonzero(areas < smallest))


def _by_material(parts: Iterable[WorldPart], smallest_m2: float = 0.0) -> list[ScreenMesh]:
    groups: dict[str, list[WorldPart]] = {}
    for part in parts:
        groups.setdefault(part.material.name, []).append(part)
    meshes = []
    for name, group in groups.items():
        starts = np.cumsum([0, *(len(part.placed) for part in group)])
        faces = [
            (part.mesh.faces[_areas(part) >= smallest_m2] if smallest_m2 > 0 else part.mesh.faces) + start
            for part, start in zip(group, starts, strict=False)
        ]
        vertices = np.concatenate([part.placed for part in group]).astype(np.float32)
        colour, opacity = part_colour(group[0]), linear_colour(group[0].material)[1]
        meshes.append(ScreenMesh(name, vertices, np.concatenate(faces).astype(np.uint32), colour, opacity))
    return [mesh for mesh in meshes if len(mesh.faces)]


def part_colour(part: WorldPart) -> tuple[int, int, int]:
    """sRGB colour (0 to 255) of a part, from its reflectance in red, green and blue."""
    linear, _ = linear_colour(part.material)
    red, green, blue = (round(255.0 * min(1.0, _EXPOSURE * value) ** (1 / 2.2)) for value in linear)
    return red, green, blue


# ---- scene ----------------------------------------------------------------------------------------------------------


BODY_COLOUR = (222, 226, 232)
PICK_COLOUR = (255, 64, 160)
LOST_COLOUR = (24, 28, 36)
PLAIN_COLOUR, PLAIN_OPACITY = (120, 132, 148), 0.55
_DIMMED = (22.0, 0.38)
"""Surfaces are displayed darker and with less contrast, so that points stand out."""
_AXES_M = 0.8
FRUSTUM_COLOUR = (255, 180, 84)
_FRUSTUM_M = 1.2
_JPEG_QUALITY = 85
_ROUND: dict[str, Any] = {"point_shape": "circle", "point_shading": "flat", "precision": "float32"}


class Scene:
    """Scene in the browser. Only the measuring thread calls it.

    `cut_m` is the height [m] of a cut through a building: what is above is hidden until `show_roof`. `plain` are
    vehicles without a body, drawn as boxes.
    """

    def __init__(
        self,
        server: Any,
        world: World | None,
        *,
        cut_m: float | None = None,
        plain: Sequence[PlainBody] = (),
        point_size_m: float = POINT_SIZE_M,
    ) -> None:
        self._server, self._api = server, server.scene
        self.cut_m = cut_m
        self._roof: Any = None
        self._plain: list[tuple[PlainBody, Any]] = []
        self._bodies: list[tuple[ScreenBody, Any]] = []
        self._poses: dict[str, Pose] = {}
        self._cloud: Any = None
        self._beams: Any = None
        self._sensor: Any = None
        self._world: Any = None
        self._picked: Any = None
        self._frustums: dict[str, Any] = {}
        self._segments: list[Any] = []
        self._dots: list[Any] = []
        self._point_size = point_size_m
        self._beams_shown = True
        self.left_out = 0
        """Number of omitted triangles."""
        self._add_light()
        if world is not None:
            self._add_world(world)
        for number, body in enumerate(plain):
            self._add_plain(number, body)

    def _add_light(self) -> None:
        """Simple light from above: the default of viser, with environment and shadows, delays pages by seconds."""
        self._api.configure_default_lights(enabled=False)
        self._api.configure_environment_map(hdri=None)
        self._api.add_light_hemisphere(
            "/light/sky", sky_color=(255, 255, 255), ground_color=(120, 116, 110), intensity=2.2
        )
        self._api.add_light_directional("/light/sun", intensity=1.6, cast_shadow=False, position=(-0.5, -0.8, 1.0))

    # ---- world -------------------------------------------------------------------------------------------------

    def _add_world(self, world: World) -> None:
        self._world = self._api.add_frame("/world", show_axes=False)
        meshes, self.left_out = standing_meshes(world)
        if self.cut_m is not None:
            self._roof = self._api.add_frame("/world/roof", show_axes=False, visible=False)
        for number, mesh in enumerate(meshes):
            below, above = (mesh, None) if self.cut_m is None else mesh.split(self.cut_m)
            if len(below.faces):
                self._add_mesh(f"/world/standing/{number}", below)
            if above is not None and len(above.faces):
                self._add_mesh(f"/world/roof/{number}", above)
        for number, body in enumerate(moving_bodies(world)):
            frame = self._api.add_frame(f"/world/moving/{number}", show_axes=False)
            for row, mesh in enumerate(body.meshes):
                self._add_mesh(f"/world/moving/{number}/{row}", mesh)
            self._bodies.append((body, frame))

    def set_world(self, world: World, plain: Sequence[PlainBody] = ()) -> None:
        """Draw another version of the world."""
        shown, roof = self._world is None or self._world.visible, not self.hides_roof
        with self._server.atomic():
            for frame in (self._world, *(frame for _, frame in self._plain)):
                if frame is not None:
                    frame.remove()
            self._bodies, self._plain, self._poses = [], [], {}
            self._add_world(world)
            for number, body in enumerate(plain):
                self._add_plain(number, body)
            self.show_world(shown)
            self.show_roof(roof)

    def _add_mesh(self, name: str, mesh: ScreenMesh) -> None:
        red, green, blue = (int(_DIMMED[0] + _DIMMED[1] * part) for part in mesh.colour)
        self._api.add_mesh_simple(
            name,
            mesh.vertices,
            mesh.faces,
            color=(red, green, blue),
            opacity=mesh.opacity,
            flat_shading=True,
            side="double",
            cast_shadow=False,
            receive_shadow=False,
        )

    def show_world(self, visible: bool) -> None:
        """Show or hide all triangles."""
        if self._world is not None:
            self._world.visible = visible

    def _add_plain(self, number: int, body: PlainBody) -> None:
        """Box of a vehicle without a body, with a wedge at its front."""
        frame = self._api.add_frame(f"/plain/{number}", show_axes=False)
        length, width, height = body.size_m
        options: dict[str, Any] = {"cast_shadow": False, "receive_shadow": False, "opacity": PLAIN_OPACITY}
        middle = (0.0, 0.0, height / 2.0)
        self._api.add_box(f"/plain/{number}/box", PLAIN_COLOUR, body.size_m, position=middle, **options)
        nose = (0.12 * length, 0.5 * width, 0.5 * height)
        ahead = (0.56 * length, 0.0, height / 2.0)
        self._api.add_box(f"/plain/{number}/front", FRUSTUM_COLOUR, nose, position=ahead, **options)
        self._plain.append((body, frame))

    def show_roof(self, visible: bool) -> None:
        """Show or hide everything above the cut."""
        if self._roof is not None:
            self._roof.visible = visible

    @property
    def hides_roof(self) -> bool:
        """True while triangles and points above the cut are hidden."""
        return self._roof is not None and not self._roof.visible

    # ---- cloud -------------------------------------------------------------------------------------------------

    def show(self, shown: Shown) -> None:
        """Show a new cloud, or new colours of the same one."""
        measured = shown.measured
        with self._server.atomic():
            if shown.new_cloud or self._cloud is None or self.hides_roof:
                self._show_cloud(measured, shown.painted.colours)
                self._show_sensor(measured)
                self._show_pictures(measured)
                self._show_segments(measured)
                self._show_dots(measured)
                self._move(measured.time_s)
                self.mark(None)
            else:
                self._cloud.colors = shown.painted.colours
            self._show_beams(measured.beams, shown.painted.colours)
        self._server.flush()

    def _show_cloud(self, measured: ViewFrame, colours: Colours) -> None:
        # Single precision relative to the sensor: half precision has steps of 6 cm at 100 m.
        centre = measured.offset if measured.pose is None else measured.pose.xyz
        xyz = measured.cloud.xyz
        if self.cut_m is not None and self.hides_roof:
            below = xyz[:, 2] < self.cut_m
            xyz, colours = xyz[below], colours[below]
        points = (xyz - centre).astype(np.float32)
        position = tuple(float(v) for v in centre - measured.offset)
        # Points and colours share one message, so that no viewer combines new points with old colours.
        self._cloud = self._api.add_point_cloud(
            "/cloud",
            points,
            colours,
            point_size=self._point_size,
            **_ROUND,
            position=position,
        )

    def _show_beams(self, beams: Beams | None, colours: Colours) -> None:
        if beams is None or not self._beams_shown:
            if self._beams is not None:
                self._beams.remove()
                self._beams = None
            return
        if self.cut_m is not None and self.hides_roof:
            below = (beams.point < 0) | (beams.ends[:, 1, 2] < self.cut_m)
            beams = Beams(beams.ends[below], beams.point[below])
        far = np.tile(np.array(LOST_COLOUR, dtype=np.uint8), (len(beams.point), 1))
        met = beams.point >= 0
        far[met] = colours[beams.point[met]] // 2
        ends = np.stack([far // 6, far], axis=1)  # dark at the sensor, where all beams meet
        self._beams = self._api.add_line_segments(
            "/beams", beams.ends.astype(np.float32), ends, thickness=1.0, thickness_units="screen"
        )

    def show_beams(self, visible: bool, shown: Shown | None) -> None:
        """Show or hide the beams."""
        self._beams_shown = visible
        if shown is not None:
            self._show_beams(shown.measured.beams, shown.painted.colours)

    def point_size(self, size_m: float) -> None:
        """Diameter of the points [m]."""
        self._point_size = size_m
        if self._cloud is not None:
            self._cloud.point_size = size_m

    # ---- moving bodies -----------------------------------------------------------------------------------------

    def _show_sensor(self, measured: ViewFrame) -> None:
        if measured.pose is None:
            return
        if self._sensor is None:
            self._sensor = self._api.add_frame("/sensor", axes_length=_AXES_M, axes_radius=_AXES_M / 40)
            self._api.add_cylinder(
                "/sensor/body", 0.06, 0.1, color=BODY_COLOUR, cast_shadow=False, receive_shadow=False
            )
        _place(self._sensor, measured.pose)

    def _show_pictures(self, measured: ViewFrame) -> None:
        """Show each camera as a frustum with its image."""
        for name in set(self._frustums) - {shot.name for shot in measured.pictures}:
            self._frustums.pop(name).remove()
        for number, shot in enumerate(measured.pictures):
            if shot.pose is None:
                continue
            place = Pose(shot.pose.xyz - measured.offset, shot.pose.quat_xyzw) @ OPTICAL
            x, y, z, w = (float(v) for v in place.quat_xyzw)
            height, width = shot.pixels.shape[:2]
            # Image and pose share one message, so that no viewer combines a new image with an old pose.
            self._frustums[shot.name] = self._api.add_camera_frustum(
                f"/cameras/{number}",
                shot.fov_rad,
                width / height,
                scale=_FRUSTUM_M,
                thickness=0.01,
                color=FRUSTUM_COLOUR,
                image=shot.pixels,
                format="jpeg",
                jpeg_quality=_JPEG_QUALITY,
                wxyz=(w, x, y, z),
                position=tuple(float(v) for v in place.xyz),
                cast_shadow=False,
                receive_shadow=False,
            )

    def _show_segments(self, measured: ViewFrame) -> None:
        """Show lines of other sensors, such as those from a tag to its anchors."""
        for old in self._segments[len(measured.segments) :]:
            old.remove()
        self._segments = [
            self._api.add_line_segments(
                f"/segments/{number}",
                (lines.ends - measured.offset).astype(np.float32),
                lines.colours,
                thickness=1.5,
                thickness_units="screen",
            )
            for number, lines in enumerate(measured.segments)
        ]

    def _show_dots(self, measured: ViewFrame) -> None:
        """Show points of other sensors. A cloud has one point size, so each size is a separate cloud."""
        clouds = [
            (dots.xyz[same] - measured.offset, dots.colours[same], float(size))
            for dots in measured.dots
            for size in np.unique(dots.size_m)
            if (same := dots.size_m == size).any()
        ]
        for old in self._dots[len(clouds) :]:
            old.remove()
        centre = np.zeros(3) if measured.pose is None else measured.pose.xyz - measured.offset
        self._dots = [
            self._api.add_point_cloud(
                f"/dots/{number}",
                (xyz - centre).astype(np.float32),
                colours,
                point_size=size,
                **_ROUND,
                position=tuple(float(v) for v in centre),
            )
            for number, (xyz, colours, size) in enumerate(clouds)
        ]

    def _move(self, time_s: float) -> None:
        for body, frame in self._bodies:
            pose = pose_at(body.motion, time_s)
            if self._poses.get(body.name) != pose:
                self._poses[body.name] = pose
                _place(frame, pose)
        for plain, frame in self._plain:
            _place(frame, pose_at(plain.motion, time_s))

    def mark(self, pick: Pick | None) -> None:
        """Mark a point with a short label, or remove the mark."""
        if self._picked is not None:
            self._picked.remove()
            self._picked = None
        if pick is not None:
            self._picked = self._api.add_frame("/picked", show_axes=False, position=pick.xyz)
            self._api.add_point_cloud(
                "/picked/point",
                np.zeros((1, 3), np.float32),
                PICK_COLOUR,
                point_size=3.0 * self._point_size,
                **{**_ROUND, "point_shape": "diamond"},
            )
            self._api.add_label("/picked/note", pick.in_short, anchor="bottom-left")


def _place(frame: Any, pose: Pose) -> None:
    x, y, z, w = (float(v) for v in pose.quat_xyzw)
    frame.wxyz = (w, x, y, z)
    frame.position = tuple(float(v) for v in pose.xyz)
