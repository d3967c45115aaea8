"""Radio and sound that sensors send out themselves: rays, bounces and what comes back."""
