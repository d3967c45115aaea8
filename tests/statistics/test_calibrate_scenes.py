"""ApolloSim's two scenes, a zigzag of foam pads and a U: shots drop at the angles of incidence of the recording."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import parhelion as ph
from chance import LIKELY
from parhelion.calibrate.boards.example import SETUPS, TRUTHS, make_shots
from parhelion.calibrate.boards.find import find_boards
from parhelion.calibrate.boards.profile import fit_profile, shots_at
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene
from parhelion.sensors.optics.lidar.config import LidarConfig, MaterialProfile

SENSOR, SCANS = "slamtec/rplidar-a1", 150


@pytest.fixture(scope="module")
def foam() -> MaterialProfile:
    """Profile that depends on the angle: 5 % of shots drop at normal incidence, and many more at oblique angles."""
    truth = TRUTHS[SENSOR]["bare-metal"]
    shots = make_shots(truth, SETUPS[SENSOR], SENSOR, seed=31)
    return fit_profile(shots_at(find_boards(shots)[0], shots))[0]


@pytest.mark.parametrize("name", ["boards-zigzag", "boards-u"])
def test_shots_drop_at_the_angles_of_the_recording(name: str, foam: MaterialProfile) -> None:
    config = ph.Lidar(SENSOR).config
    section = {"materials": {material: foam.model_dump() for material in ("foam", "wood")}}
    lidar = ph.Lidar(LidarConfig.model_validate({**config.model_dump(), "calibration": section}))
    world = ph.World.load(name, room=False)
    pose = world.viewpoint
    table = lidar.shots()
    # Neighbours hit the same face of the same pad, so the shot is not at an edge.
    origin, direction = pose.apply(table.origin), table.direction @ pose.rotation.T
    hits = RayScene(world.geometry("lidar")).cast(Rays.of(origin, direction))
    part = hits.part
    inner = part >= 0
    for step in (1, -1):
        same = np.sum(np.roll(hits.normal, step, axis=0) * hits.normal, axis=1) > 0.999
        inner &= (np.roll(part, step) == part) & same
    quiet = ph.Lidar(SENSOR, noise=False).scan(world, pose=pose)
    is_pad = np.zeros(len(table), bool)
    is_pad[quiet.fields["shot"]] = [
        quiet.names["material"][n] in section["materials"] for n in quiet.fields["material"].tolist()
    ]
    angle = np.degrees(np.arccos(np.clip(np.abs(np.sum(hits.normal * direction, axis=1)), 0.0, 1.0)))
    lost = np.zeros(len(table))
    for scan in lidar.scan_many(world, [pose] * SCANS, seed=3, frames=list(range(SCANS))):
        lost += np.bincount(scan.fields["shot"], minlength=len(table)) == 0
    edges = np.asarray(foam.angle_deg)
    bins = np.clip(np.searchsorted(edges, angle, side="right") - 1, 0, len(foam.drop) - 1)
    # Angles are quantised to 0.35 degrees: shots near the border of two bins may belong to either.
    inside = np.abs(angle[:, None] - edges[None]).min(axis=1) > 0.4
    seen = np.unique(bins[inner & is_pad & inside])
    assert len(seen) >= 4  # several angles of incidence in one scene
    for k in seen:
        own = inner & is_pad & inside & (bins == k)
        shots, drops = SCANS * int(own.sum()), int(lost[own].sum())
        low, high = stats.binom.ppf([0.5 * LIKELY / len(seen), 1 - 0.5 * LIKELY / len(seen)], shots, foam.drop[k])
        assert low <= drops <= high, f"{edges[k]:g} degrees: {drops} of {shots}, recorded {foam.drop[k]:.3f}"
