"""Contact of vehicles with the solid parts of a world."""
