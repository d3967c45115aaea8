"""Folders laid out as public data sets: KITTI odometry and object, SemanticKITTI, nuScenes."""
