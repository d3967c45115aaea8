"""The UDP packets that real sensors send, and network captures that hold them."""
