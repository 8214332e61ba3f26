"""The CPU backend: kernels compiled by numba, run by threads; `ops` lists them."""
