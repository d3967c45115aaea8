"""Common parts of light sensors: scene with materials and textures, beams in time, and air along them."""
