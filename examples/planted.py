"""The graph of the examples: communities to be found, made in no time and offline."""

import warnings

import torch


def planted_partition(nodes, classes, inside=5, outside=4):
    """Edges [2, m], every pair of neighbours once, and the class y [n] of every node.

    A node chooses `inside` neighbours of its own class and `outside` anywhere, so that
    mean degrees are about twice these numbers.
    """
    y = torch.arange(nodes) % classes
    start = torch.arange(nodes).repeat(inside)
    same = torch.randint(nodes // classes, start.shape) * classes + y[start]
    other = torch.randint(nodes, (2, nodes * outside))
    u, v = torch.cat([torch.stack([start, same]), other], dim=1).sort(dim=0).values
    pair = (u * nodes + v)[u < v].unique()
    return torch.stack([pair // nodes, pair % nodes]), y


def noisy_features(y, signal=0.3, size=32):
    """x [n, size], so noisy that the neighbours have to be asked."""
    return signal * torch.randn(int(y.max()) + 1, size)[y] + torch.randn(len(y), size)


def for_pyg(nodes, classes, inside=5, outside=4, signal=0.3):
    """PyG's Data with a tenth of the nodes to train on."""
    from torch_geometric.data import Data
    from torch_geometric.utils import to_undirected

    edges, y = planted_partition(nodes, classes, inside, outside)
    train_mask = torch.rand(nodes) < 0.1
    masks = {"train_mask": train_mask, "test_mask": ~train_mask}
    x, edge_index = noisy_features(y, signal), to_undirected(edges, num_nodes=nodes)
    return Data(x=x, y=y, edge_index=edge_index, **masks)


def for_dgl(nodes, classes, inside=5, outside=4):
    """A DGLGraph with self-loops, features "x" and classes "y"."""
    import dgl

    # DGL advises to pin threads to cores, which is not worth it for a graph this small.
    warnings.filterwarnings("ignore", "Dataloader CPU affinity opt is not enabled")
    (u, v), y = planted_partition(nodes, classes, inside, outside)
    g = dgl.graph((torch.cat([u, v]), torch.cat([v, u])), num_nodes=nodes)
    g.ndata.update(x=noisy_features(y), y=y)
    return dgl.add_self_loop(g)
