"""Parts of worlds and actors: buildings, vehicles, trees, props and waterfront objects."""
