"""Parhelion."""
