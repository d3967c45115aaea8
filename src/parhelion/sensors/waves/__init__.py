"""Active and passive wave sensors (radar, sonar, UWB, GNSS): ray paths, reflections and received power."""
