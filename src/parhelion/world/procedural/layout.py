"""Layouts: a world as a list of objects, without triangles. Read and written as YAML or JSON.

A layout is plain data, so that other programs can write one; `world_of` builds the world.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

from parhelion.core import config
from parhelion.core.config import Config
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.files import write_whole
from parhelion.core.pose import Pose
from parhelion.core.reading import read_bytes, reading
from parhelion.world.procedural.kinds import KINDS, Coordinate, Metres, Mobility, Params, Plan, Seed

Height = Annotated[float, Field(ge=0.0, le=1000.0)]
Speed = Annotated[float, Field(gt=0.0, le=100.0)]


class LayoutPose(Config):
    """Pose of an object: the middle of its base, and its rotation about the vertical. Objects are upright."""

    xyz: tuple[Coordinate, Coordinate, Coordinate] = (0.0, 0.0, 0.0)
    yaw_deg: Annotated[float, Field(ge=-360.0, le=360.0)] = 0.0

    def pose(self) -> Pose:
        """Return the pose."""
        return Pose(self.xyz, rpy_deg=(0.0, 0.0, self.yaw_deg))


class LayoutObject(Config):
    """One object of a layout. By default, `label` and `mobility` are those of its kind."""

    kind: str
    name: str = ""
    """Name in messages and in the world; by default the kind and the row in the list."""
    pose: LayoutPose = LayoutPose()
    size: tuple[Metres, Metres, Height]
    """Outer length, width and height [m], along the x, y, z of the object."""
    params: SerializeAsAny[Params] = Field(default=Params(), validate_default=True)
    """Parameters of the kind; see `kinds.py`."""
    label: str = Field(default="", validate_default=True)
    mobility: Mobility = Field(default=None, validate_default=True)  # type: ignore[assignment]

    @field_validator("kind")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in KINDS:
            raise ValueError(str(unknown_name("kind", value, KINDS)))
        return value

    @field_validator("size")
    @classmethod
    def _tall(cls, value: tuple[float, float, float], info: ValidationInfo) -> tuple[float, float, float]:
        kind = info.data.get("kind")
        if value[2] <= 0.0 and kind not in ("ground", "terrain", "streets", None):
            raise ValueError(f"the height of a {kind} must be above 0 m, got {value[2]:g}")
        return value

    @field_validator("params", mode="before")
    @classmethod
    def _of_the_kind(cls, value: Any, info: ValidationInfo) -> Any:
        if "kind" not in info.data:
            return Params()
        model = KINDS[info.data["kind"]].params
        if type(value) is model:
            return value
        if isinstance(value, Params) and type(value) is not Params:
            raise ValueError(f"a {info.data['kind']} accepts {model.__name__}, got {type(value).__name__}")
        return model.model_validate({} if isinstance(value, Params) else value)

    @classmethod
    def type_of(cls, field: str, data: Mapping[Any, Any]) -> Any:
        """Type of `params`, which depends on the kind."""
        kind = data.get("kind")
        return KINDS[kind].params if field == "params" and isinstance(kind, str) and kind in KINDS else None

    @field_validator("label", mode="before")
    @classmethod
    def _own_label(cls, value: Any, info: ValidationInfo) -> Any:
        return KINDS[info.data["kind"]].label if value == "" and "kind" in info.data else value

    @field_validator("mobility", mode="before")
    @classmethod
    def _own_mobility(cls, value: Any, info: ValidationInfo) -> Any:
        return KINDS[info.data["kind"]].mobility if value is None and "kind" in info.data else value


class Passage(Config):
    """A strip of floor that a robot must be able to pass from end to end, for example an aisle."""

    name: str
    points: Annotated[tuple[Plan, ...], Field(min_length=2)]
    """Centre line [m]."""
    width_m: Metres = 2.0
    needs_m: Metres | None = None
    """Width that must be free, for example for a car; by default that of the robot in `check`."""


class PlannedDrive(Config):
    """A drive along a line; the sensor keeps its height above the ground."""

    points: Annotated[tuple[Plan, ...], Field(min_length=2)]
    speed_m_s: Speed = 1.5
    speeds_m_s: tuple[Speed, ...] | None = None
    """Speed at each point, instead of the constant `speed_m_s`."""
    height_m: Height = 1.5

    @model_validator(mode="after")
    def _one_per_point(self) -> PlannedDrive:
        if self.speeds_m_s is not None and len(self.speeds_m_s) != len(self.points):
            raise ValueError(f"speeds_m_s must be one per point, got {len(self.speeds_m_s)} for {len(self.points)}")
        return self


class Layout(Config):
    """A plan with its origin in the middle, x along its length, y along its width, z up."""

    name: str = "layout"
    seed: Seed = 0
    """Seed from which it was generated; for information only."""
    size: tuple[Metres, Metres]
    """Length and width of the plan [m], which contains all objects."""
    objects: tuple[LayoutObject, ...] = ()
    ways: tuple[Passage, ...] = ()
    drive: PlannedDrive | None = None
    viewpoint: LayoutPose | None = None

    def title(self, row: int) -> str:
        """Return the name of an object, or its kind and row."""
        item = self.objects[row]
        return item.name or f"{item.kind}-{row}"

    def to_mapping(self) -> dict[str, Any]:
        """Return plain data without default values; mobility and label are always included."""
        content = self.model_dump(mode="json", exclude_defaults=True)
        for entry, item in zip(content.get("objects", []), self.objects, strict=True):
            entry |= {"label": item.label, "mobility": item.mobility}
        return content

    @classmethod
    def from_mapping(cls, data: Any, source: str | PathLike[str] = "layout") -> Layout:
        """Return the layout of plain data; `source` is for messages."""
        return config.parse(cls, data, source)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the layout as .yaml or .json; reading it gives the same layout, bit for bit."""
        file = Path(path)
        if _is_json(file):
            text = json.dumps(self.to_mapping(), indent=1)
        else:
            text = yaml.dump(self.to_mapping(), Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=110)
        write_whole(file, text.encode("utf-8"))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Layout:
        """Read a .yaml or .json file."""
        file = Path(path)
        with reading(file, ConfigError):
            return cls.from_mapping(read_json(file, "a layout") if _is_json(file) else config.read_yaml(file), file)


_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def _is_json(file: Path) -> bool:
    ending = file.suffix.lower()
    if ending not in (".yaml", ".yml", ".json"):
        raise ConfigError(f"{file}: the name of a layout file must end in .yaml or .json")
    return ending == ".json"


def read_json(file: Path, what: str) -> Any:
    """Return the content of a JSON file; `what` describes it in messages."""
    content = read_bytes(file, ConfigError, largest=config.LARGEST_CONFIG_BYTES, what=what)
    try:
        return json.loads(content.decode("utf-8"))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{file}: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (UnicodeDecodeError, RecursionError, ValueError):
        raise ConfigError(f"{file}: is not valid JSON text") from None
