"""Lidar simulation. `lidar.py` holds the public class; `device.py` runs the kernels in this order:

emit (`patterns`, `emit`) -> cast and reflect (`illuminate`, `specular`, `link_budget`) -> add echoes of the air
(`weather`, `air_echoes`) -> detect (`detection`, `reception`) -> record (`readout`, `profiles`, `points`).
`recorded*.py` apply weather to recordings; `fit.py` and `signal_model.py` fit a world to one. Data sheets are in
`sensors/presets/lidar`.
"""
