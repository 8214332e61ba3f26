"""`python -m gttf_pyg script.py …` runs a script with our classes in PyG's place."""

import sys

from gttf_pyg import install
from gttf_sampler._swap import run_as_main

if __name__ == "__main__":
    install()
    run_as_main(sys.argv[1:], "python -m gttf_pyg")
