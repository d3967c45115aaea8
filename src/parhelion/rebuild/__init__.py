"""Recordings → worlds: a drive becomes a place that any sensor can scan again."""

from __future__ import annotations
