"""Satellite navigation: orbits, signals through the world, a receiver and its fix."""
