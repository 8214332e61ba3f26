"""GTTF for DGL.

Importing this package needs the host; this version checks that it is there and
exports nothing yet.
"""

try:
    import dgl  # noqa: F401
except ImportError as err:
    raise ImportError(
        "'gttf_dgl' needs dgl; install it with: pip install 'gttf-sampler[dgl]'"
    ) from err

__all__: list[str] = []
