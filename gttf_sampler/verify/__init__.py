"""`gttf verify`: the same draws here and on a device, compared bit by bit."""
