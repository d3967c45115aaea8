"""Paths of reacting people and their speed by density: docs/images/reacting-actors.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.patches import Circle
from page import BLUE, GREY, ORANGE, RED, finish, sheet

import parhelion as ph
from parhelion.motion.actors.walkers import Capsules, Path, Walker, Walkers
from parhelion.motion.actors.walls import Walls

NOBODY = Capsules(np.zeros((0, 3)), np.zeros((0, 2)), np.zeros(0), np.zeros(0), np.zeros((0, 2)))


def draw_square(axes: Any) -> None:
    """People who cross a square between opposite points of a circle, with a wall in the middle."""
    walkers = Walkers(1)
    for angle in np.linspace(0.0, 2.0 * np.pi, 25)[:-1]:
        way = np.linspace(-1.0, 1.0, 80)[:, None] * 10.0 * np.array([np.cos(angle), np.sin(angle)])
        walkers.add(Walker(Path(np.column_stack([way, np.zeros(80)]), closed=False), 0.0, 1.34, 1.75))
    walkers.begin(ph.World())
    corners = np.array([[-0.2, -1.0], [0.2, -1.0], [0.2, 0.6], [-0.2, 0.6]])
    walkers.walls = Walls(np.stack([corners, np.roll(corners, -1, axis=0)], axis=1))
    places = []
    for step in range(300):
        if step >= 60:
            places.append(walkers.xyz[:, :2].copy())
        walkers.step(NOBODY)
    tracks = np.stack(places, axis=1)
    axes.add_collection(LineCollection(list(tracks), colors=BLUE, linewidths=0.5, alpha=0.6))
    for place in tracks[:, -1]:
        axes.add_patch(Circle(place, 0.25, facecolor=ORANGE, edgecolor="black", linewidth=0.4, zorder=3))
    axes.fill(*corners.T, color=GREY)
    axes.set(xlim=(-11, 11), ylim=(-11, 11), aspect="equal", xlabel="x [m]", ylabel="y [m]")
    axes.set_title("24 people cross a square, from 3 s to 15 s")


def speed_in_ring(density: float, radius: float = 6.0) -> float:
    """Mean speed [m/s] of a crowd that walks one way through a ring 2.4 m wide."""
    lanes = np.array([-0.9, -0.3, 0.3, 0.9])
    count = round(density * 2.0 * np.pi * radius * 2.4)
    ends = np.round(count * np.concatenate([[0.0], np.cumsum(radius + lanes)]) / np.sum(radius + lanes))
    rng, walkers = np.random.default_rng(2), Walkers(1)
    for lane, people in zip(lanes, np.diff(ends).astype(int), strict=True):
        turn = np.arange(0.0, 2.0 * np.pi, 0.25 / (radius + lane))
        points = (radius + lane) * np.column_stack([np.cos(turn), np.sin(turn), 0.0 * turn])
        for number in range(people):
            start = (number + rng.uniform(-0.2, 0.2)) / people % 1.0
            walkers.add(Walker(Path(points, closed=True), start, float(1.34 * rng.uniform(0.85, 1.15)), 1.75))
    walkers.begin(ph.World())
    turn = np.linspace(0.0, 2.0 * np.pi, 73)
    rings = [np.column_stack([r * np.cos(turn), r * np.sin(turn)]) for r in (radius - 1.2, radius + 1.2)]
    walkers.walls = Walls(np.concatenate([np.stack([ring[:-1], ring[1:]], axis=1) for ring in rings]))
    speeds = []
    for step in range(240):
        walkers.step(NOBODY)
        if step >= 120:
            speeds.append(np.mean(np.hypot(*walkers.velocity.T)))
    return float(np.mean(speeds))


def draw_density(axes: Any) -> None:
    """Mean speed by density."""
    density = np.linspace(0.05, 4.0, 200)
    published = 1.34 * (1.0 - np.exp(-1.913 * (1.0 / density - 1.0 / 5.4)))
    axes.plot(density, published, color=RED, label="Weidmann 1993")
    axes.fill_between(density, published - 0.2, published + 0.2, color=RED, alpha=0.12, linewidth=0)
    tried = [0.2, 0.5, 0.8, 1.0, 1.4, 1.8, 2.2, 2.5]
    axes.plot(tried, [speed_in_ring(one) for one in tried], "o", color=BLUE, label="reacting people")
    axes.set(xlim=(0, 4), ylim=(0, 1.6), xlabel="density [people/m²]", ylabel="speed [m/s]")
    axes.set_title("One-way flow; shaded: 0.2 m/s")
    axes.legend(fontsize=8)


if __name__ == "__main__":
    figure, (left, right) = sheet(10.0, 4.4, 2, width_ratios=(1.0, 1.1))
    draw_square(left)
    draw_density(right)
    finish(figure, "reacting-actors")
