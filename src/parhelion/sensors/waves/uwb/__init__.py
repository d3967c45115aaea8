"""Ranging by radio: UWB, Wi-Fi and Bluetooth tags against anchors at known places."""
