"""A camera for tests of image outputs: uniform light, and the ground truth of every pixel from one ray."""

from __future__ import annotations

from typing import Any

import numpy as np

from parhelion.core.image import Image, Intrinsics, SeenObject
from parhelion.core.pose import Pose, quat_conjugate, quat_rotate
from parhelion.core.trajectory import Trajectory, pose_at
from parhelion.motion.boxes import BoxTruth
from parhelion.pictures.style import colour_labels
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene
from parhelion.world.world import World


def presets() -> list[str]:
    """Names of its presets."""
    return ["toy/colour"]


class ToyCamera:
    """One ray per pixel; colours are those of labels, light falls from above and behind."""

    frame_duration_s, noise = 0.01, False

    def __init__(
        self, model: str, *, name: str = "", rate_hz: float = 10.0, width: int = 96, height: int = 64,
        truth: bool = True, stereo: bool = False, measures_depth: bool = False, bands: int = 3, deep: bool = False,
    ) -> None:  # fmt: skip
        self.model, self.rate_hz, self.name = model, float(rate_hz), name
        self.truth, self.stereo, self.measures_depth, self.count, self.deep = truth, stereo, measures_depth, bands, deep
        self.intrinsics = Intrinsics(
            width, height, 0.8 * width, 0.8 * width, (width - 1) / 2, (height - 1) / 2,
            baseline_m=0.12 if stereo else 0.0,
        )  # fmt: skip
        self.bands = {1: ("mono",), 3: ("red", "green", "blue")}.get(bands, tuple(f"band{k}" for k in range(bands)))
        self.visibility_keys = ("camera", model, name)
        self._scene: tuple[int, Any] | None = None

    def directions(self) -> Any:
        """Unit vectors (h w, 3) in the sensor's frame."""
        lens = self.intrinsics
        v, u = np.mgrid[: lens.height, : lens.width].reshape(2, -1)
        along = np.stack([np.ones(u.size), -(u - lens.cx) / lens.fx, -(v - lens.cy) / lens.fy], axis=1)
        return along / np.linalg.norm(along, axis=1, keepdims=True)

    def measure(
        self, world: World, motion: Trajectory, time: float = 0.0, seed: int = 0, *, frame: int | None = None
    ) -> Image:
        """One picture."""
        pose = pose_at(motion, time)
        seen = self._seen(world, pose, time)
        size = (self.intrinsics.height, self.intrinsics.width)
        truth = dict(seen)
        colour = truth.pop("colour")
        fields: dict[str, Any] = truth if self.truth else {}
        if self.truth:
            fields["flow"] = np.full((*size, 2), 0.25, np.float32)
            fields["flow"][~np.isfinite(truth["depth"])] = np.nan
            fields["objects"] = self._objects(world, time, pose, truth)
        if self.measures_depth:
            fields["measured_depth"] = np.where(truth["depth"] < 30.0, truth["depth"], np.nan)
        if self.stereo:
            aside = pose @ Pose((0.0, -self.intrinsics.baseline_m, 0.0))
            fields["right"] = self._seen(world, aside, time)["colour"]
        return Image(
            colour, self.bands, self.intrinsics, time, pose, names={"label": world.label_names},
            metadata={"sensor": self.model, "seed": seed}, **fields,
        )  # fmt: skip

    def _seen(self, world: World, pose: Pose, time: float) -> dict[str, Any]:
        if self._scene is None or self._scene[0] != world.version:
            self._scene = (world.version, RayScene(world.geometry(*self.visibility_keys)))
        size = (self.intrinsics.height, self.intrinsics.width)
        along = self.directions()
        hits = self._scene[1].cast(Rays.of(pose.xyz, quat_rotate(pose.quat_xyzw, along), time, 200.0))
        part = np.maximum(hits.part, 0)
        label = np.where(hits.found, world.parts.label[part], 0).astype(np.uint16)
        up = np.where(hits.normal[:, 2:] < 0, -hits.normal, hits.normal)
        light = 0.45 + 0.55 * np.abs(up @ np.array([0.3, 0.2, 0.93]))
        colour = np.where(hits.found[:, None], colour_labels(label, world.label_names) * light[:, None], 0.78)
        picture = np.round(colour * 255).astype(np.uint8).reshape(*size, 3)
        if self.count != 3:
            picture = np.repeat(picture[:, :, 1:2], self.count, axis=2)
        if self.count == 1:
            picture = picture[:, :, 0]
        normal = quat_rotate(quat_conjugate(pose.quat_xyzw), hits.normal)
        return {
            "colour": picture.astype(np.uint16) * 257 if self.deep else picture,
            "depth": (hits.range * along[:, 0]).astype(np.float32).reshape(size),
            "normal": normal.astype(np.float32).reshape(*size, 3),
            "label": label.reshape(size),
            "mobility": np.where(hits.found, 1, 0).astype(np.uint8).reshape(size),
            "window": np.ones(size, np.float32),
            "instance": np.where(hits.found, world.parts.instance[part], 0).astype(np.uint32).reshape(size),
        }

    def _objects(self, world: World, time: float, pose: Pose, truth: dict[str, Any]) -> tuple[SeenObject, ...]:
        found = []
        for box in BoxTruth(world, mobility=("movable", "dynamic"), sensor=self.visibility_keys).at(time):
            rows, columns = np.nonzero(truth["instance"] == box.instance)
            if not len(rows):
                continue
            local = box.seen_from(pose)
            number = next(n for n, word in world.label_names.items() if word == box.label)
            edges = (float(columns.min()), float(rows.min()), float(columns.max() + 1), float(rows.max() + 1))
            found.append(
                SeenObject(
                    box.instance, number, edges, edges, len(rows), 0.0, 0.0, Pose(local.centre, local.quat_xyzw),
                    tuple(local.size.tolist()),
                )
            )  # fmt: skip
        return tuple(found)
