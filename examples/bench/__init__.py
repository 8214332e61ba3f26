"""Tables that only our own pages show; what a user asks is `gttf bench`."""
