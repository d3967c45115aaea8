"""Worlds from maps and floor plans: OpenStreetMap, GeoJSON, CityJSON, ROS maps, drawings and images of walls."""
