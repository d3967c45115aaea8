"""Detectors: the protocol, their boxes, and our own detector of cars, pedestrians and cyclists.

detector = ph.detect.Pillars()
found = detector.detect(scan)
found.boxes, found.kind, found.score
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import FormatError, MissingDependencyError
from parhelion.core.files import atomic_write
from parhelion.core.pose import Floats
from parhelion.core.reading import file_reader
from parhelion.detect.scenes import CLASSES
from parhelion.evaluate.detections.kitti import Boxes, overlaps

if TYPE_CHECKING:
    import torch

    from parhelion.detect.network import PillarNetwork

WEIGHTS = "pillars.npz"
"""Name of the file of weights."""
BUNDLED = Path(__file__).with_name(WEIGHTS)
"""Weights that were trained with the settings of `examples/studies/detector.yaml`."""
FOCAL_PX = 721.5377
"""Focal length of KITTI's camera, which gives the height of boxes in an image for its difficulties."""
_MOST_OVERLAP = 0.1
"""Two boxes of a class that overlap more than this from above are one object."""


@dataclass(frozen=True, eq=False)
class Detections:
    """Boxes of one scan in the frame of the lidar, one row per object."""

    boxes: Floats
    """Centre x, y, z, length, width, height [m] and heading [rad], shape (n, 7)."""
    kind: tuple[str, ...]
    """Types: Car, Pedestrian, Cyclist or others of KITTI."""
    score: Floats
    """Scores, shape (n,); a higher one is more certain."""

    def __len__(self) -> int:
        return len(self.kind)

    def as_kitti(self, occluded: Floats | None = None) -> Boxes:
        """Boxes in KITTI's form, in the axes of a camera at the lidar.

        The rectangle has the height that the box has in KITTI's camera at its distance, in any direction.
        """
        boxes = self.boxes
        height = FOCAL_PX * boxes[:, 5] / np.maximum(np.hypot(boxes[:, 0], boxes[:, 1]), 0.1)
        picture = np.column_stack([np.zeros((len(boxes), 3)), height])
        foot = np.column_stack([-boxes[:, 1], -(boxes[:, 2] - 0.5 * boxes[:, 5]), boxes[:, 0]])
        return Boxes(
            self.kind,
            np.zeros(len(boxes)),
            np.zeros(len(boxes)) if occluded is None else occluded,
            picture,
            boxes[:, 3:6],
            foot,
            -boxes[:, 6] - 0.5 * np.pi,
            self.score,
        )


@runtime_checkable
class Detector(Protocol):
    """Anything that finds objects in a scan. Ten lines connect a detector of your own:

    class Mine:
        name = "mine"

        def detect(self, scan):
            boxes, names, scores = my_network(scan.xyz, scan.intensity)
            return ph.detect.Detections(boxes, tuple(names), scores)
    """

    name: str
    """Name in reports."""

    def detect(self, scan: PointCloud) -> Detections:
        """Return the objects of a scan, in the frame of its points."""
        ...


class Pillars:
    """A detector of cars, pedestrians and cyclists within 51 m of a lidar on a car, trained on simulated scans.

    It uses the shape only, not the intensity.

    Args:
        weights: File of weights from `train`; by default those of the package, for an HDL-64E.
        least_score: Smallest score of a detection.
    """

    def __init__(self, weights: str | PathLike[str] | None = None, *, least_score: float = 0.1) -> None:
        path = BUNDLED if weights is None else Path(weights)
        self.network, self.about = read_weights(path)
        self.name, self.least_score = path.stem, least_score

    def detect(self, scan: PointCloud) -> Detections:
        """Return the objects of a scan; points of a moving scan are deskewed to its start."""
        import torch

        from parhelion.detect.network import decoded

        cloud = scan.deskewed() if isinstance(scan, Scan) else scan
        device = next(self.network.parameters()).device
        xyz = np.asarray(cloud.xyz, np.float32)
        with torch.inference_mode():
            points = torch.from_numpy(xyz[np.isfinite(xyz).all(axis=1)]).to(device)
            centre, box = self.network([points])
            (found,) = decoded(centre, box, self.least_score)
        boxes = Detections(
            found["boxes"].astype(np.float64),
            tuple(CLASSES[kind] for kind in found["kind"]),
            found["score"].astype(np.float64),
        )
        return _without_repeats(boxes)


def _without_repeats(found: Detections) -> Detections:
    """Detections without those that overlap a more certain one of their class; they are sorted by score."""
    if not len(found):
        return found
    shape = found.as_kitti()
    above = overlaps(shape, shape)[1]
    kind = np.array(found.kind, object)
    kept: list[int] = []
    for row in range(len(found)):
        rivals = [other for other in kept if kind[other] == kind[row]]
        if not rivals or above[row, rivals].max() <= _MOST_OVERLAP:
            kept.append(row)
    return Detections(found.boxes[kept], tuple(kind[kept]), found.score[kept])


# ---- weights --------------------------------------------------------------------------------------------------------


def network_device() -> torch.device:
    """Device of the network: the first NVIDIA GPU, or the processor."""
    torch = _torch()
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingDependencyError("the detector needs PyTorch: pip install 'parhelion[detect]'") from None
    return torch


def write_weights(network: PillarNetwork, path: Path, about: Mapping[str, Any]) -> None:
    """Write weights as NPZ: matrices in half precision, vectors in single precision."""
    arrays = {}
    for name, values in network.state_dict().items():
        array = values.detach().float().cpu().numpy()
        arrays[name] = array.astype(np.float16) if array.ndim > 1 else array
    with atomic_write(path) as temporary, temporary.open("wb") as stream:
        text = np.frombuffer(json.dumps(dict(about), sort_keys=True).encode(), np.uint8)
        np.savez_compressed(stream, about=text, **arrays)


@file_reader()
def read_weights(path: Path) -> tuple[PillarNetwork, dict[str, Any]]:
    """Read a network and the description of its training."""
    torch = _torch()
    from parhelion.detect.network import PillarNetwork

    network = PillarNetwork()
    wanted = network.state_dict()
    with np.load(path, allow_pickle=False) as file:
        missing = sorted(set(wanted) - set(file.files))
        if missing:
            raise FormatError(f"{path}: no weights of the detector: {missing[0]} is missing")
        arrays = {name: file[name] for name in wanted}
        about = json.loads(file["about"].tobytes().decode()) if "about" in file.files else {}
    for name, array in arrays.items():
        if array.shape != tuple(wanted[name].shape) or not np.all(np.isfinite(array)):
            raise FormatError(f"{path}: {name}: expected finite numbers of shape {tuple(wanted[name].shape)}")
    network.load_state_dict({name: torch.from_numpy(np.array(array, np.float32)) for name, array in arrays.items()})
    return network.to(network_device()).eval(), about
