"""`gttf bench`: this package and its peers, side by side, on your machine."""
