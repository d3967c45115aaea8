"""Live outputs: ROS 2 over DDS, vendor packets over UDP, Foxglove, the viewer in the browser."""
