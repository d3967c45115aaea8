"""The kit of parts: buildings, vehicles, trees, props and waterfront pieces that worlds and actors are made of."""
