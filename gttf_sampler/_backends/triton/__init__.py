"""The GPU backend: fused Triton kernels and what launches them; `ops` lists them."""
