"""Run report."""
