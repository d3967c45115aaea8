"""Recordings become data sheets: the noise of the user's own sensor, from drives and from boards."""
