"""Camera model. `config.py` defines the data sheet, `lens.py` the projection of directions to pixels.

`calibration_files.py` reads calibrations of real cameras. Data sheets are in `sensors/presets/camera`.
"""
