"""Measurements and truth as Foxglove messages, for recordings and for the live server."""
