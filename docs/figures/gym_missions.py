"""Pictures of the missions: animation and map of the off-road one, docs/images/gym-off-road.*, map of the warehouse.

    python gym_missions.py [off-road] [warehouse]

Each frame of the animation shows the lidar's points around the robot, coloured by label, and the map: ground by height,
obstacles that the robot has found, its path and its plan.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

import gymnasium
import numpy as np
from matplotlib.colors import to_rgb
from page import IMAGES
from PIL import Image, ImageDraw, ImageFont

import parhelion as ph
from parhelion.gym.env import map_picture
from parhelion.pictures.scan import PinholeView, render
from parhelion.pictures.style import colour_labels

sys.path.insert(0, str(IMAGES.parents[1] / "examples" / "missions"))
import off_road
import warehouse

WIDTH, VIEW_HEIGHT, TITLE, EVERY, SEED = 760, 300, 30, 50, 1
EYE, AIM, BACKGROUND = (-9.0, 0.0, 5.5), (6.0, 0.0, -0.5), "#0a0c10"
LIMIT_BYTES = 1_500_000


def coloured(scan: ph.Scan) -> tuple[Any, Any]:
    """Points of a scan in the world and their colours, by label and reflectance."""
    light = 0.5 + 0.6 * np.sqrt(np.clip(scan.reflectivity, 0.0, 1.0))
    return scan.in_world().xyz, np.clip(colour_labels(scan.label, scan.names["label"]) * light[:, None], 0.0, 1.0)


def cloud_view(clouds: Any, pose: ph.Pose, path: Any) -> Image.Image:
    """Points of the latest scans from behind and above the robot."""
    trail = np.asarray(path[-60:])
    xyz = pose.inverse().apply(np.concatenate([*(points for points, _ in clouds), trail]))
    colour = np.concatenate([*(colours for _, colours in clouds), np.tile(to_rgb("#ff5a4f"), (len(trail), 1))])
    camera = PinholeView(ph.Pose.look_at(EYE, AIM), WIDTH, VIEW_HEIGHT, 66.0)
    image = render(xyz, colour, camera, background=to_rgb(BACKGROUND), point_size_m=0.06, fade_m=90.0)
    return Image.fromarray(np.asarray(np.clip(image, 0, 1) * 255, np.uint8))


def frame(env: Any, robot: Any, clouds: Any) -> Image.Image:
    """One frame of the animation."""
    found = np.argwhere(robot.blocked())
    obstacles = robot.low + (found + 0.5) * off_road.CELL_M
    plan = np.column_stack([robot.path, np.zeros(len(robot.path))])
    chart = map_picture(
        env.free_space, env.path, goal=env.goal, clouds=[np.column_stack([obstacles, 0 * obstacles[:, 0]]), plan],
        longest=WIDTH,
    )  # fmt: skip
    sheet = Image.new("RGB", (WIDTH, TITLE + VIEW_HEIGHT + chart.height), BACKGROUND)
    sheet.paste(cloud_view(clouds, env.outcome.records["lidar"].pose, env.path), (0, TITLE))
    sheet.paste(chart, (0, TITLE + VIEW_HEIGHT))
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(15)
    travelled = np.sum(np.linalg.norm(np.diff(env.path, axis=0), axis=1)) if len(env.path) > 1 else 0.0
    words = f"Husky with a VLP-16: {env.outcome.time:.0f} s, {travelled:.0f} m driven"
    draw.text((8, 7), f"{words}, {env.outcome.distance_m:.0f} m to the goal", fill="#e8ecf2", font=font)
    return sheet


def animate() -> None:
    """Off-road mission."""
    env, frames, clouds, count = off_road.environment(), [], deque(maxlen=15), 0

    def watch(env: Any, robot: Any) -> None:
        nonlocal count
        if count % 4 == 0:
            clouds.append(coloured(env.outcome.records["lidar"]))
        if count % EVERY == 0:
            frames.append(frame(env, robot, clouds))
            print(f"\r{env.outcome.time:.0f} s", end="", file=sys.stderr)
        count += 1

    result = off_road.drive(env, SEED, watch=watch)
    map_picture(env.free_space, env.path, goal=env.goal, longest=1200, file=IMAGES / "gym-off-road.png")
    file = IMAGES / "gym-off-road.webp"
    for quality in (60, 50, 40, 30):
        frames[0].save(file, save_all=True, append_images=frames[1:], duration=250, loop=0, quality=quality, method=6)
        if file.stat().st_size < LIMIT_BYTES:
            break
    print(f"\n{file}: {len(frames)} frames, {file.stat().st_size / 1e6:.2f} MB; {result}")


def draw_warehouse() -> None:
    """Map of the warehouse mission with the last scan."""
    env: Any = gymnasium.make("parhelion/Warehouse-v0", goal_distance_m=(12.0, 30.0), duration_s=120.0).unwrapped
    result = warehouse.drive(env, 8)
    cloud = env.outcome.records["lidar"].in_world().xyz
    map_picture(env.free_space, env.path, goal=env.goal, clouds=[cloud], file=IMAGES / "gym-warehouse.png")
    print(result)


PICTURES = {"off-road": animate, "warehouse": draw_warehouse}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()
