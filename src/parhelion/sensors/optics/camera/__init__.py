"""The camera. `config.py` is its data sheet, `lens.py` where the lens puts directions on the picture.

Calibrations of real cameras come in through `lens_files.py`; data sheets are in `presets`.
"""
