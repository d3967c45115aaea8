"""The page that tells of a run."""
