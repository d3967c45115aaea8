"""Outputs of a run: files, bags, captures, data sets, Foxglove recordings and the run report."""
