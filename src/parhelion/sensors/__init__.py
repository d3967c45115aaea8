"""Sensors: each one emits and receives; data sheets are data."""
