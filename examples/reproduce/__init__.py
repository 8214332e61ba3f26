"""Every method of the paper, on both hosts, with its numbers: `make reproduce`."""
