"""`python -m gttf_sampler.cli` is the command `gttf`."""

import sys

from gttf_sampler.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
