"""ROS 2 messages and bags without ROS: CDR bytes, PointCloud2, MCAP and SQLite bags."""

from parhelion.io.ros.bag import BagReader, BagWarning, BagWriter, Topic, is_bag, read_bag
from parhelion.io.ros.messages import Message, cloud_of, decode

__all__ = ["BagReader", "BagWarning", "BagWriter", "Message", "Topic", "cloud_of", "decode", "is_bag", "read_bag"]
