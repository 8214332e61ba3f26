"""`python -m gttf_dgl script.py …` runs a script with our samplers in DGL's place."""

import sys

from gttf_dgl import install
from gttf_sampler._swap import run_as_main

if __name__ == "__main__":
    install()
    run_as_main(sys.argv[1:], "python -m gttf_dgl")
