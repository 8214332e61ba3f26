"""The command `gttf`: sub-commands, by what they work on."""
