"""The lidar. `lidar.py` is the sensor as its user sees it; `device.py` is the order in which its kernels run:

emit (`patterns`, `beam`, `emit`) -> cast and reflect (`target`, `illuminate`, `specular`, `link_budget`) ->
detect (`detection`, `reception`, `noise`) -> record (`intensity`, `readout`, `points`,
`tensors`, `waveform`). Data sheets are in `presets`.
"""
