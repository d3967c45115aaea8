"""What becomes of measurements: files, bags, captures, data sets, Foxglove recordings, the report of a run."""
