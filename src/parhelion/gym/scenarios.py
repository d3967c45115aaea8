"""Registered environments and their scenarios."""

from __future__ import annotations

from typing import Any

import gymnasium

DYNAMICS = "rays"
"""Value of `dynamics` for vehicles that wheels carry and walls stop."""


def _scenario(world: Any, model: str, lidar: str, mount: tuple[float, float, float], **options: Any) -> dict[str, Any]:
    """Scenario with one vehicle that carries a lidar."""
    return {
        "duration_s": 60.0,
        "step_s": 0.05,
        "world": world,
        "vehicles": [{"name": "robot", "model": model, "dynamics": DYNAMICS, "start": {"xyz": [0, 0, 0.2]}}],
        "sensors": [
            {
                "name": "lidar", "type": "lidar", "model": lidar, "vehicle": "robot", "mount": {"xyz": list(mount)},
                "options": options,
            },
        ],
    }  # fmt: skip


# Three rays per beam: edges give mixed returns as with all 25, in about half of the time.
WAREHOUSE = _scenario("warehouse", "clearpath/husky", "velodyne/vlp-16", (0.08, 0.0, 0.72), sub_rays=3)
"""A Husky with a VLP-16 in the warehouse."""
CITY = _scenario("city", "bmw/320i", "velodyne/vlp-16", (0.0, 0.0, 1.9), sub_rays=3)
"""A car with a VLP-16 in the city."""
OFF_ROAD = _scenario("off-road", "clearpath/husky", "velodyne/vlp-16", (0.08, 0.0, 0.72), sub_rays=3)
"""A Husky with a VLP-16 in open country."""

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "parhelion/Warehouse-v0": {"scenario": WAREHOUSE, "goal_distance_m": (4.0, 15.0)},
    "parhelion/City-v0": {"scenario": CITY, "goal_distance_m": (15.0, 60.0), "goal_radius_m": 2.0},
    "parhelion/OffRoad-v0": {"scenario": OFF_ROAD, "goal_distance_m": (10.0, 40.0), "goal_radius_m": 1.0},
}
"""Arguments of `ScenarioEnv` by identifier."""


def register() -> None:
    """Register the environments; `import parhelion.gym` calls this."""
    for name, arguments in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point="parhelion.gym.env:ScenarioEnv", kwargs=arguments)
