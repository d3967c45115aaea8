"""Records, poses, trajectories, random streams, typed configuration and errors. Imports nothing of ours."""
