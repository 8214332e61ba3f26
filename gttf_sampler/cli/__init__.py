"""The command `gttf`: a module per sub-command."""
