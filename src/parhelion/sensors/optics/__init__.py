"""What sensors of light share: the world as targets with materials and textures, rays in time, the air along them."""
