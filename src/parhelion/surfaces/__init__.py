"""Surfaces: BRDFs, materials with their reflectance by wavelength, spectra and textures."""
