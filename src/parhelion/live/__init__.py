"""Live outputs: ROS 2 over DDS, vendor packets over UDP, Foxglove, and the browser viewer."""
