"""Graphs that are edited after they were built: an error, never the end of Python."""

from pathlib import Path

import numpy as np
import pytest
import torch

from all_pairs import all_pairs
from apart import run_script
from gttf_sampler import CompactAdj, Node2VecBias, sample_rooted, traverse

EDITED = "'adj' must not be edited in place to lead out of itself"


def ring(size=4000):
    """Every node leads to the next one; what it is built from is shared."""
    rowptr, col = torch.arange(size + 1), torch.arange(1, size + 1) % size
    return CompactAdj.from_csr(rowptr, col), rowptr, col


@all_pairs
@pytest.mark.parametrize("value", [4000, -1, 10**9, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("name", ["col", "rowptr"])
@pytest.mark.parametrize("how", ["tensor", "numpy", "source"])
def test_edit_that_leads_out_is_refused(name, how, value):
    adj, *given = ring()
    array = given[name == "col"] if how == "source" else getattr(adj, name)
    (array.numpy() if how == "numpy" else array)[7] = value
    calls = [
        lambda: sample_rooted(adj, [6, 7], [2, 2]),
        lambda: sample_rooted(adj, torch.arange(4000).repeat(9), [2, 2]),
        lambda: sample_rooted(adj, [6, 7], [2, 2], disjoint=True),
        lambda: traverse(adj, [6, 7], [1, 1, 1]),
        lambda: traverse(adj, [6, 7], [1] * 3, Node2VecBias(0.5, 2.0)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=EDITED):
            call()


def test_edited_scipy_matrix_is_refused():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_array(np.eye(5)[[1, 2, 3, 4, 0]])
    adj = CompactAdj.from_scipy(matrix, direction="out")
    matrix.indices[:] = 10**6
    with pytest.raises(ValueError, match=EDITED):
        sample_rooted(adj, [0], [1, 1])
    with pytest.raises(ValueError, match="'col' must hold ids below"):
        adj.validate()


def test_edit_inside_of_the_graph_is_followed():
    adj, _, col = ring()
    col[7] = 3
    assert sample_rooted(adj, [7], [1]).node.tolist() == [7, 3]


@pytest.mark.process
@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_random_edits_crash_nothing(backend):
    """`python tests/core/edits.py --rounds 2000` for more."""
    script = Path(__file__).with_name("edits.py")
    told = run_script(script, "--rounds", 25, "--backend", backend)
    assert any("our error" in line for line in told)
