"""Network of the detector: pillars, a convolutional backbone seen from above, and heads at the centres of objects.

Points are grouped in vertical columns ("pillars", Lang et al. 2019); each pillar takes the largest of the learned
features of its points. A backbone of three scales follows, and heads predict for each cell whether the centre of an
object of each class lies in it, and its box (as in CenterPoint, Yin et al. 2021). Headings are predicted up to half a
turn as the sine and cosine of twice the angle, and which end is the front as a separate probability: an average over
two opposite headings is then a heading along the object, not across it.

The network sees the shape only, not the intensity, whose scale differs between lidars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

CLASSES = ("Car", "Pedestrian", "Cyclist")
HALF_WIDTH_M = 51.2
"""Half side of the square around the lidar in which objects are found."""
PILLAR_M = 0.2
CELL_M = 0.4
LOWEST_M, HIGHEST_M = -4.0, 2.0
"""Heights of the points that are used, in the frame of the lidar."""
MEAN_SIZE_M = ((4.5, 2.0, 1.6), (0.7, 0.6, 1.7), (1.75, 0.6, 1.7))
"""Typical length, width and height of each class; sizes are predicted relative to them."""
_PILLARS, _CELLS = round(2 * HALF_WIDTH_M / PILLAR_M), round(2 * HALF_WIDTH_M / CELL_M)
_POINT_FEATURES = 8


@dataclass(frozen=True)
class Widths:
    """Number of channels of each part of the network."""

    pillar: int = 32
    scales: tuple[int, int, int] = (48, 96, 128)
    """At 0.4, 0.8 and 1.6 m per cell."""
    neck: int = 48
    head: int = 64


def _block(inputs: int, outputs: int, convolutions: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for k in range(1 + convolutions):
        layers += [
            nn.Conv2d(inputs if k == 0 else outputs, outputs, 3, 2 if k == 0 else 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers)


def _up(inputs: int, outputs: int, factor: int) -> nn.Sequential:
    convolution = nn.ConvTranspose2d(inputs, outputs, factor, factor, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class PillarNetwork(nn.Module):  # type: ignore[misc]  # PyTorch is not checked
    """Maps from points to what the heads predict in every cell."""

    def __init__(self, classes: int = len(CLASSES), widths: Widths = Widths()) -> None:
        super().__init__()
        self.widths, self.classes = widths, classes
        one, two, three = widths.scales
        self.points = nn.Sequential(
            nn.Linear(_POINT_FEATURES, widths.pillar, bias=False), nn.BatchNorm1d(widths.pillar), nn.ReLU(inplace=True)
        )
        self.down = nn.ModuleList([_block(widths.pillar, one, 2), _block(one, two, 3), _block(two, three, 3)])
        self.up = nn.ModuleList([_up(one, widths.neck, 1), _up(two, widths.neck, 2), _up(three, widths.neck, 4)])
        self.shared = nn.Sequential(
            nn.Conv2d(3 * widths.neck, widths.head, 3, 1, 1, bias=False),
            nn.BatchNorm2d(widths.head),
            nn.ReLU(inplace=True),
        )
        self.centre = nn.Conv2d(widths.head, classes, 3, 1, 1)
        self.box = nn.Sequential(
            nn.Conv2d(widths.head, widths.head, 3, 1, 1, bias=False),
            nn.BatchNorm2d(widths.head),
            nn.ReLU(inplace=True),
            nn.Conv2d(widths.head, len(BOX_CHANNELS), 1),
        )
        nn.init.constant_(self.centre.bias, -4.6)  # type: ignore[arg-type]  # 1 % of the cells at first

    def forward(self, clouds: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return the logits of centres (n, classes, y, x) and the box channels (n, 9, y, x) of n clouds (m, 3)."""
        image = self._image(clouds)
        scales = []
        for down in self.down:
            image = down(image)
            scales.append(image)
        joined = torch.cat([up(scale) for up, scale in zip(self.up, scales, strict=True)], 1)
        shared = self.shared(joined)
        return self.centre(shared), self.box(shared)

    def _image(self, clouds: Sequence[Tensor]) -> Tensor:
        """Features of the pillars (n, channels, y, x)."""
        points = torch.cat(list(clouds)).float()
        which = torch.repeat_interleave(
            torch.arange(len(clouds), device=points.device),
            torch.tensor([len(c) for c in clouds], device=points.device),
        )
        inside = (points[:, :2].abs() < HALF_WIDTH_M).all(1) & (points[:, 2] > LOWEST_M) & (points[:, 2] < HIGHEST_M)
        points, which = points[inside], which[inside]
        column = ((points[:, :2] + HALF_WIDTH_M) / PILLAR_M).long().clamp_(0, _PILLARS - 1)
        pillar = (which * _PILLARS + column[:, 1]) * _PILLARS + column[:, 0]
        known, row, counts = torch.unique(pillar, return_inverse=True, return_counts=True)
        mean = torch.zeros(len(known), 3, device=points.device).index_add_(0, row, points) / counts[:, None]
        middle = (column.float() + 0.5) * PILLAR_M - HALF_WIDTH_M
        features = torch.cat([points / 10.0, points - mean[row], points[:, :2] - middle], 1)
        learned = self.points(features)
        largest = torch.zeros(len(known), self.widths.pillar, device=points.device, dtype=learned.dtype)
        largest = largest.scatter_reduce(0, row[:, None].expand_as(learned), learned, "amax", include_self=True)
        canvas = learned.new_zeros(len(clouds) * _PILLARS * _PILLARS, self.widths.pillar)
        canvas[known] = largest
        return canvas.view(len(clouds), _PILLARS, _PILLARS, -1).permute(0, 3, 1, 2).contiguous()


BOX_CHANNELS = ("x", "y", "z", "length", "width", "height", "sin2", "cos2", "front")


# ---- targets and losses ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Targets:
    """Desired outputs of the heads for some clouds."""

    heat: Tensor
    """1 at the centres of objects, falling around them, shape (n, classes, y, x)."""
    counts: Tensor
    """Weight of each cell in the loss of centres: 0 around objects with too few points, shape (n, 1, y, x)."""
    cell: Tensor
    """Image, row and column of each cell with a box to learn, shape (m, 3)."""
    box: Tensor
    """Box channels of these cells, shape (m, 9)."""
    weight: Tensor
    """Weight of each of these cells, shape (m,)."""

    def to(self, device: torch.device) -> Targets:
        """Return the targets on a device."""
        return Targets(*(getattr(self, one.name).to(device, non_blocking=True) for one in fields(self)))


def targets_of(boxes: Sequence[np.ndarray], kinds: Sequence[np.ndarray], known: Sequence[np.ndarray]) -> Targets:
    """Targets of clouds with boxes (k, 7), classes (k,), and a mask (k,) of the boxes that count."""
    heat = np.zeros((len(boxes), len(CLASSES), _CELLS, _CELLS), np.float32)
    counts = np.ones((len(boxes), 1, _CELLS, _CELLS), np.float32)
    cells, channels, weights = [], [], []
    for n, (own, own_kinds, own_known) in enumerate(zip(boxes, kinds, known, strict=True)):
        near = np.all(np.abs(own[:, :2]) < HALF_WIDTH_M, axis=1)
        for box, kind, counting in zip(own[near], own_kinds[near].tolist(), own_known[near].tolist(), strict=True):
            # Gaussian whose width follows the smaller side: a shift by one standard deviation is still a match.
            sigma = max(0.7, 0.3 * float(min(box[3], box[4])) / CELL_M)
            reach = int(np.ceil(3.0 * sigma))
            at = (box[:2] + HALF_WIDTH_M) / CELL_M
            column, row = np.minimum(at.astype(int), _CELLS - 1).tolist()
            xs = np.arange(max(column - reach, 0), min(column + reach + 1, _CELLS))
            ys = np.arange(max(row - reach, 0), min(row + reach + 1, _CELLS))
            bell = np.exp(-((ys[:, None] - row) ** 2 + (xs[None] - column) ** 2) / (2.0 * sigma**2))
            window = np.s_[ys[0] : ys[-1] + 1, xs[0] : xs[-1] + 1]
            if not counting:
                counts[n, 0][window] = np.where(bell > 0.1, 0.0, counts[n, 0][window])
                continue
            heat[n, kind][window] = np.maximum(heat[n, kind][window], bell)
            rows, columns = np.nonzero(bell > 0.5)
            for y, x in zip(ys[rows], xs[columns], strict=True):
                offset = at - (x + 0.5, y + 0.5)
                size = np.log(box[3:6] / MEAN_SIZE_M[kind])
                yaw = float(box[6])
                front = float(np.cos(yaw) + 1e-3 * np.sin(yaw) > 0.0)
                cells.append((n, int(y), int(x)))
                channels.append([*offset, box[2], *size, np.sin(2 * yaw), np.cos(2 * yaw), front])
                weights.append(float(np.exp(-((y - row) ** 2 + (x - column) ** 2) / (2.0 * sigma**2))))
    counts = np.maximum(counts, heat.max(axis=1, keepdims=True) > 0.1)
    return Targets(
        torch.from_numpy(heat),
        torch.from_numpy(counts.astype(np.float32)),
        torch.tensor(cells, dtype=torch.int64).view(-1, 3),
        torch.tensor(np.array(channels, np.float32).reshape(-1, len(BOX_CHANNELS))),
        torch.tensor(weights, dtype=torch.float32),
    )


def loss_of(centre: Tensor, box: Tensor, targets: Targets) -> tuple[Tensor, Tensor]:
    """Loss of the centres (focal, of Law and Deng 2018) and of the boxes (absolute differences)."""
    centre = centre.float()
    log_hit, log_miss = F.logsigmoid(centre), F.logsigmoid(-centre)
    hit = log_hit.exp()
    right = targets.heat > 0.999
    positive = right * (1.0 - hit) ** 2 * log_hit
    negative = ~right * (1.0 - targets.heat) ** 4 * hit**2 * log_miss * targets.counts
    objects = right.sum().clamp(min=1)
    of_centres = -(positive.sum() + negative.sum()) / objects
    n, y, x = targets.cell.T
    found = box.permute(0, 2, 3, 1)[n, y, x].float()
    away = (found[:, :-1] - targets.box[:, :-1]).abs().sum(1)
    front = F.binary_cross_entropy_with_logits(found[:, -1], targets.box[:, -1], reduction="none")
    weight = targets.weight.sum().clamp(min=1.0)
    return of_centres, ((away + 0.2 * front) * targets.weight).sum() / weight


# ---- boxes ----------------------------------------------------------------------------------------------------------


def decoded(centre: Tensor, box: Tensor, least_score: float, most: int = 200) -> list[dict[str, Any]]:
    """Boxes (k, 7), classes and scores of each image: cells whose probability exceeds that of their neighbours."""
    chance = torch.sigmoid(centre.float())
    peak = chance * (F.max_pool2d(chance, 3, 1, 1) == chance)
    found = []
    for n in range(len(centre)):
        score, place = peak[n].flatten().topk(most)
        place, score = place[score >= least_score], score[score >= least_score]
        kind, cell = place // (_CELLS * _CELLS), place % (_CELLS * _CELLS)
        y, x = cell // _CELLS, cell % _CELLS
        values = box[n][:, y, x].T.float()
        xy = (torch.stack([x, y], 1) + 0.5 + values[:, :2]) * CELL_M - HALF_WIDTH_M
        size = values[:, 3:6].clamp(-1.5, 1.5).exp() * torch.tensor(MEAN_SIZE_M, device=box.device)[kind]
        yaw = 0.5 * torch.atan2(values[:, 6], values[:, 7])  # -90° to 90°: the front is at positive x
        backward = values[:, 8] < 0.0
        yaw = torch.where(backward, yaw + torch.pi * torch.where(yaw > 0.0, -1.0, 1.0), yaw)
        boxes = torch.cat([xy, values[:, 2:3], size, yaw[:, None]], 1)
        found.append({"boxes": boxes.cpu().numpy(), "kind": kind.cpu().numpy(), "score": score.cpu().numpy()})
    return found
