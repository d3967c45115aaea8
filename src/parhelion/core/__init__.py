"""Records, poses, trajectories, random streams, typed configuration and errors. Imports no other Parhelion package."""
