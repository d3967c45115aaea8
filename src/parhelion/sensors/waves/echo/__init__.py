"""Pulse-echo sensors: sound in air and water."""
