"""Ranging by radio: UWB, Wi-Fi and Bluetooth tags and anchors at known positions."""
