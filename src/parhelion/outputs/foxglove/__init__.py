"""Measurements and truth as Foxglove has them, for recordings and for the live server."""
