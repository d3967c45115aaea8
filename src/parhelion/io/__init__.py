"""Point cloud files: one module per format, one table of formats."""

from parhelion.core.files import atomic_write
from parhelion.io.captures import read_frames
from parhelion.io.columns import FieldsDroppedWarning
from parhelion.io.formats import FORMATS, Format, format_of, read_cloud, write_cloud, write_noting_drops

__all__ = [
    "FORMATS",
    "FieldsDroppedWarning",
    "Format",
    "atomic_write",
    "format_of",
    "read_cloud",
    "read_frames",
    "write_cloud",
    "write_noting_drops",
]
