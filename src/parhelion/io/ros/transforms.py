"""Tree of ROS transforms (`/tf`, `/tf_static`): pose of a sensor in the fixed frame of its tree."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field

import numpy as np

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Pose, quat_slerp
from parhelion.io.ros.types import decode, nanoseconds

TF_MESSAGE = "tf2_msgs/msg/TFMessage"
_MOST_FRAMES = 4096
_DEEPEST = 64


@dataclass
class _Edge:
    """Pose of a frame in its parent over time."""

    parent: str
    static: bool
    samples: list[tuple[int, Pose]] = field(default_factory=list)
    """Times [ns] and poses, in order of time."""

    def at(self, time_ns: int) -> Pose:
        """Pose at a time, interpolated between samples and constant beyond them."""
        after = bisect_right(self.samples, time_ns, key=lambda sample: sample[0])
        if self.static or after == len(self.samples):
            return self.samples[-1][1]
        if after == 0:
            return self.samples[0][1]
        (begin, a), (end, b) = self.samples[after - 1 : after + 1]
        share = (time_ns - begin) / (end - begin)
        xyz = np.asarray(a.xyz) + share * (np.asarray(b.xyz) - np.asarray(a.xyz))
        turn = quat_slerp(np.asarray(a.quat_xyzw), np.asarray(b.quat_xyzw), np.asarray(share))
        return Pose(xyz=xyz, quat_xyzw=turn)


class TransformTree:
    """Transforms received so far.

    tree = TransformTree()
    tree.add(data, static=False)              # CDR bytes of a TFMessage
    tree.pose("velodyne", time_ns)            # in the root of the tree, or in a given frame above it
    """

    def __init__(self, keep_s: float = float("inf")) -> None:
        """Create an empty tree; samples older than the newest of their frame by more than `keep_s` are dropped."""
        self._edges: dict[str, _Edge] = {}
        self._keep_s = keep_s
        self.refused = 0
        """Number of unreadable messages and transforms."""

    def add(self, data: bytes, *, static: bool) -> None:
        """Add the transforms of a message; unreadable ones are counted."""
        try:
            entries = decode(TF_MESSAGE, data).transforms
        except FormatError:
            self.refused += 1
            return
        for one in entries:
            place, turn = one.transform.translation, one.transform.rotation
            try:
                pose = Pose(xyz=(place.x, place.y, place.z), quat_xyzw=(turn.x, turn.y, turn.z, turn.w))
            except ConfigError:
                self.refused += 1
                continue
            self._add(one.header.frame_id.lstrip("/"), one.child_frame_id.lstrip("/"), one.header.stamp, pose, static)

    def _add(self, parent: str, child: str, stamp: object, pose: Pose, static: bool) -> None:
        edge = self._edges.get(child)
        if edge is None or edge.parent != parent or edge.static != static:
            if edge is None and len(self._edges) >= _MOST_FRAMES:
                self.refused += 1
                return
            edge = self._edges[child] = _Edge(parent, static)
        time_ns = nanoseconds(stamp)
        if static:
            edge.samples = [(time_ns, pose)]
            return
        at = bisect_right(edge.samples, time_ns, key=lambda sample: sample[0])
        if at and edge.samples[at - 1][0] == time_ns:
            return  # the first of several with one stamp counts, so that repetitions change nothing
        insort(edge.samples, (time_ns, pose), key=lambda sample: sample[0])
        oldest = edge.samples[-1][0] - self._keep_s * 1e9
        while len(edge.samples) > 2 and edge.samples[1][0] < oldest:
            del edge.samples[0]

    def _chain(self, frame: str, fixed: str | None) -> list[_Edge] | None:
        """Edges from a frame up to the fixed frame, by default the root; None if there is no such path."""
        found: list[_Edge] = []
        name = frame.lstrip("/")
        while name != fixed and name in self._edges:
            if len(found) >= _DEEPEST:
                return None  # a cycle
            found.append(self._edges[name])
            name = found[-1].parent
        return found if fixed is None or name == fixed else None

    def pose(self, frame: str, time_ns: int, fixed: str | None = None) -> Pose | None:
        """Pose of a frame in the fixed frame, by default the root of its tree; None without a transform."""
        chain = self._chain(frame, fixed)
        if not chain:
            return None
        pose = Pose()
        for edge in chain:
            pose = edge.at(time_ns) @ pose
        return pose

    def reaches(self, frame: str, time_ns: int, fixed: str | None = None) -> bool:
        """True if the transforms of a frame are known up to a time, so that later ones do not change its pose."""
        chain = self._chain(frame, fixed)
        return (
            chain is not None
            and len(chain) > 0
            and all(edge.static or edge.samples[-1][0] >= time_ns for edge in chain)
        )
