"""GTTF for PyTorch Geometric.

Importing this package needs the host; this version checks that it is there and
exports nothing yet.
"""

try:
    import torch_geometric  # noqa: F401
except ImportError as err:
    raise ImportError(
        "'gttf_pyg' needs torch-geometric; "
        "install it with: pip install 'gttf-sampler[pyg]'"
    ) from err

__all__: list[str] = []
