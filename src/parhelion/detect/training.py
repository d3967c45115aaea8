"""Training of the detector on simulated scans only, from a file of settings.

study = TrainingStudy.load("detector.yaml")
train(study, "weights/")
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parhelion.core.files import atomic_write
from parhelion.core.pose import Floats
from parhelion.detect.detector import WEIGHTS, network_device, write_weights
from parhelion.detect.network import (
    HALF_WIDTH_M,
    HIGHEST_M,
    LOWEST_M,
    PillarNetwork,
    Targets,
    loss_of,
    targets_of,
)
from parhelion.detect.scenes import TrainingStudy, street_scans

LEAST_POINTS = 5
"""Objects with fewer points are neither learned nor counted as background."""
_UNIT_M = 2e-3
"""Step in which the points of training scans are stored."""
_SCANS_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class _Scan:
    """A labelled scan in memory."""

    points: Tensor
    """Points in steps of 2 mm, int16, shape (n, 3), on the device of the network."""
    boxes: Floats
    kind: NDArray[np.int32]
    known: NDArray[np.bool_]
    """Mask of the boxes with enough points."""


@dataclass(frozen=True)
class Trained:
    """Result of a training run."""

    weights: Path
    parameters: int
    steps: int
    loss: float
    """Mean loss of the last epoch."""


def train(
    study: TrainingStudy,
    folder: str | PathLike[str],
    progress: Callable[[str, int, int], None] = lambda task, done, total: None,
) -> Trained:
    """Simulate the scans, train the network, and write its weights and the losses into a folder.

    On the CPU, the same settings give the same weights on the same machine. On a GPU, sums of gradients have no fixed
    order, so weights differ in the last digits, and slightly more after many steps.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    device = network_device()
    torch.manual_seed(study.seed)
    scans = list(simulated(study, device, progress))
    network = PillarNetwork().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    per_epoch = len(scans) // study.batch or 1
    steps = per_epoch * study.epochs
    optimiser = torch.optim.AdamW(network.parameters(), lr=study.learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, study.learning_rate, steps, pct_start=0.3)
    losses: list[tuple[float, float]] = []
    network.train()
    for step, (clouds, targets) in enumerate(_batches(scans, study, device)):
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            centre, box = network(clouds)
        of_centres, of_boxes = loss_of(centre, box, targets)
        optimiser.zero_grad(set_to_none=True)
        (of_centres + of_boxes).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        optimiser.step()
        schedule.step()
        losses.append((of_centres.item(), of_boxes.item()))
        progress("training", step + 1, steps)
    network.eval()
    about = {"sensor": study.sensor, "scans": len(scans), "streets": study.streets, "seed": study.seed}
    write_weights(network, target / WEIGHTS, about)
    last = np.array(losses[-per_epoch:])
    with atomic_write(target / "training.json") as temporary:
        content = {"study": study.model_dump(mode="json"), "device": device.type, "loss": losses}
        temporary.write_text(json.dumps(content) + "\n", encoding="utf-8")
    count = sum(values.numel() for values in network.parameters())
    return Trained(target / WEIGHTS, count, len(losses), float(last.sum(axis=1).mean()))


def simulated(study: TrainingStudy, device: torch.device, progress: Callable[[str, int, int], None]) -> Iterator[_Scan]:
    """Simulate the scans of a training run; they stay on the device."""
    dataset = street_scans(
        study.sensor,
        streets=range(study.streets),
        length=study.scans,
        weathers=study.weathers,
        heights_m=study.heights_m,
        seed=study.seed,
    )
    done = 0
    for indices, tensors in dataset.batches(_SCANS_AT_ONCE):
        found = dataset.boxes_of(indices, tensors)
        points = tensors.torch()["xyz"].to(device)
        for row, boxes in enumerate(found):
            own = points[int(tensors.first[row]) : int(tensors.first[row + 1])]
            inside = (own[:, :2].abs() < HALF_WIDTH_M + 5.0).all(1) & (own[:, 2] > LOWEST_M) & (own[:, 2] < HIGHEST_M)
            stored = (own[inside] / _UNIT_M).round().to(torch.int16)
            seen = boxes["box_points"] > 0
            yield _Scan(
                stored,
                boxes["boxes"][seen].astype(np.float64),
                boxes["box_class"][seen],
                boxes["box_points"][seen] >= LEAST_POINTS,
            )
        done += len(indices)
        progress("simulating", done, study.scans)


def _batches(
    scans: Sequence[_Scan], study: TrainingStudy, device: torch.device
) -> Iterator[tuple[list[Tensor], Targets]]:
    """Augmented batches of all epochs; the next one is prepared while the network learns."""
    rng = np.random.default_rng(study.seed)
    per_epoch = len(scans) // study.batch or 1
    orders = [rng.permutation(len(scans)) for _ in range(study.epochs)]
    groups = [order[k * study.batch : (k + 1) * study.batch] for order in orders for k in range(per_epoch)]
    seeds = rng.integers(0, 2**31, len(groups))

    def prepared(number: int) -> tuple[list[Tensor], Targets]:
        own = np.random.default_rng(seeds[number])
        made = [_augmented(scans[row], own) for row in groups[number]]
        targets = targets_of([m[1] for m in made], [m[2] for m in made], [m[3] for m in made])
        return [m[0] for m in made], targets.to(device)

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(prepared, number) for number in range(min(8, len(groups)))]
        for number in range(len(groups)):
            yield waiting.pop(0).result()
            if number + 8 < len(groups):
                waiting.append(pool.submit(prepared, number + 8))


def _augmented(scan: _Scan, rng: np.random.Generator) -> tuple[Tensor, Floats, NDArray[np.int32], NDArray[np.bool_]]:
    """Points and boxes turned about the vertical, mirrored, scaled by up to 5 %, shifted in height, and thinned."""
    turn, scale, lift = rng.uniform(-np.pi, np.pi), rng.uniform(0.95, 1.05), rng.normal(0.0, 0.1)
    mirror = -1.0 if rng.random() < 0.5 else 1.0
    cosine, sine = np.cos(turn), np.sin(turn)
    matrix = np.array([[cosine, -sine, 0.0], [mirror * sine, mirror * cosine, 0.0], [0.0, 0.0, 1.0]])
    points = scan.points.float() * _UNIT_M
    kept = float(rng.uniform(0.5, 1.0)) if rng.random() < 0.5 else 1.0
    if kept < 1.0:
        generator = torch.Generator(points.device).manual_seed(int(rng.integers(2**31)))
        points = points[torch.rand(len(points), generator=generator, device=points.device) < kept]
    points = points @ torch.tensor(scale * matrix.T, dtype=torch.float32, device=points.device)
    points[:, 2] += lift
    boxes = scan.boxes.copy()
    boxes[:, :3] = scale * boxes[:, :3] @ matrix.T + [0.0, 0.0, lift]
    boxes[:, 3:6] *= scale
    boxes[:, 6] = (boxes[:, 6] + turn) * mirror
    return points, boxes, scan.kind, scan.known
