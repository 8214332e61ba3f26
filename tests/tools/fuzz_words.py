"""The fuzzer's lines: every public call, and the odd things to pass to it.

A rule holds alternatives in Python; `$name` stands for an alternative of that rule, and
what follows a semicolon are arguments that may be left out. What is written for a
`$name`, but not for a `$name!` or a `$name.`, may be replaced by something odd, or be
twisted; see `fuzz_twists`.
"""

from importlib.util import find_spec

from fuzz_host_words import DGL, METIS, PYG

ENGINE = {
    # graphs
    "adj": [
        "toy()",
        "heavy()",
        "timed()",
        "CompactAdj.from_edge_index(edge_index=$ends; num_nodes=$size, direction=$way, "
        "edge_weight=$weights, edge_time=$times, node_time=$dates, sort_by_time=$flag)",
    ],
    "built": [
        "CompactAdj.from_edge_index(edge_index=$ends; num_nodes=$size, direction=$way, "
        "edge_weight=$weights, edge_time=$times, node_time=$dates, sort_by_time=$flag)",
        "CompactAdj.from_csr(rowptr=$rowptr, col=$col; num_cols=$size, direction=$way, "
        "edge_id=$order, edge_weight=$weights, edge_time=$times)",
        "CompactAdj.from_scipy(matrix=$matrix; direction=$way, weighted=$flag)",
        "CompactAdj(rowptr=$rows, col=$cols, num_cols=$width; direction=$way, "
        "edge_id=$order, edge_weight=$weights, edge_time=$times).validate()",
    ],
    "ends": ["torch.tensor(ENDS)", "ENDS", "np.array(ENDS)"],
    "size": ["5", "None", "6", "(5, 5)", "np.int64(5)"],
    "way": ["'in'", "'out'"],
    "weights": ["torch.arange(10.0)", "[0.5] * 10", "np.ones(10)", "None"],
    "times": ["torch.arange(10)", "torch.arange(10).flip(0) / 3", "[1] * 10", "None"],
    "dates": ["None", "torch.arange(5)"],
    "flag": ["True", "False"],
    "rowptr": ["torch.tensor([0, 1, 5, 6, 8, 10])", "[0, 1, 5, 6, 8, 10]"],
    "col": ["torch.tensor(ENDS[1])", "torch.tensor(ENDS[1]).int()", "ENDS[1]"],
    "rows": ["torch.tensor([0, 1, 5, 6, 8, 10])"],
    "cols": ["torch.tensor(ENDS[1])", "torch.tensor(ENDS[1]).int()"],
    "width": ["5", "6"],
    "order": ["None", "torch.arange(10).flip(0)", "list(range(10))"],
    "matrix": ["csr()", "csr().tocsc()", "csr().tocoo()", "csr().todia()"],
    "asked": [
        "$adj.neighbor(node=$ids, slot=$zeros)",
        "$adj.edges_between(node=$ids, neighbor=$ids)",
        "$adj.original_edge(edge=$ids)",
        "$adj.to($device)",
        "$adj.cuda(device=$device)",
        "$adj.to_edge_index()",
        "kept($adj!, mmap=$flag, verify=$flag)",
        "damaged($adj!, $number!, mmap=$flag, verify=$flag)",
        "$adj.save($path)",
        "CompactAdj.open($path; mmap=$flag, verify=$flag)",
    ],
    "zeros": ["0", "torch.zeros(3).long()", "[0]"],
    "device": ["'cpu'", "torch.device('cpu')"],
    "path": ["folder()", "str(folder())"],
    "number": ["0", "1", "2", "3", "4", "5", "17", "1000"],
    # walks and samples
    "traverse": [
        "walk(adj=$adj, seeds=$ids, fanouts=$widths; bias=$bias, accumulate=$acc, "
        "replace=$flag, generator=$generator)",
    ],
    "rooted": [
        "rooted(adj=$adj, seeds=$ids, fanouts=$fanouts; replace=$flag, bias=$bias, "
        "disjoint=$flag, generator=$generator)",
        "typed(adj=$relations, seeds=$typedids, fanouts=$typedfans; replace=$flag, "
        "bias=$bias, disjoint=$flag, generator=$generator)",
        "padded(adj=$adj, seeds=$ids, fanouts=$static; replace=$flag, bias=$bias, "
        "disjoint=$flag, generator=$generator)",
        "padded(adj=$relations, seeds=$typedids, fanouts=$static; replace=$flag, "
        "bias=$bias, disjoint=$flag, generator=$generator)",
    ],
    "static": ["[2, 2]", "[1]", "[0, 3]", "[]", "(2, 1, 1)"],
    "ids": ["[4, 0]", "torch.tensor([0, 1, 1])", "torch.arange(5).int()", "[]"],
    "widths": ["[2, 2]", "[1] * 4", "(3,)", "torch.tensor([2, 1])"],
    "fanouts": ["[2, 2]", "[-1, 1]", "[0]", "[]", "torch.tensor([2, 1])", "(30,)"],
    "generator": ["None", "7", "torch.Generator().manual_seed(3)"],
    "bias": [
        "None",
        "EdgeWeightBias()",
        "NoRevisitBias()",
        "Node2VecBias(; p=$factor, q=$factor, weighted=$flag)",
        "AttentionBias(score_fn=$scores)",
        "TemporalBias(seed_time=$times3; strategy=$strategy, window=$span, "
        "weighted=$flag)",
        "ExcludeBias(edge=$ids)",
        "LADIESBias(size=$count)",
        "LABORBias(fanout=$count, importance=$count)",
        "FastGCNBias(size=$count)",
        "StratifiedBias(; bias=$scored, systematic=$flag)",
        "NoRevisitBias() * Node2VecBias(p=$factor)",
        "gives($answer)",
        "gives($answer) * NoRevisitBias()",
    ],
    "scored": ["None", "EdgeWeightBias()", "AttentionBias(score_fn=$scores)"],
    "scores": ["lambda here, there: here + there", "lambda here, there: $answer"],
    "answer": ["'ones'", "'zeros'", "'mask'", "'integers'", "'grad'"],
    "factor": ["1.0", "0.25", "4", "np.float32(2)"],
    "times3": ["torch.arange(3)", "[5, 5]", "torch.full((5,), 3.5)"],
    "strategy": ["'uniform'", "'last'"],
    "span": ["None", "2", "0.5"],
    "count": ["1", "3", "np.int32(2)"],
    "acc": [
        "RootedAdjAcc()",
        "TransitionAcc(k=$count)",
        "[TransitionAcc(0), RootedAdjAcc()]",
        "lambda path, node, fanout: None",
        "$loss",
    ],
    "relations": ["relations()", "{('a', 'r', 'a'): $adj}", "pairing($kind, toy())"],
    "kind": ["('a', 'r', 'a')"],
    "typedids": ["{'a': $ids}", "{'a': $ids, 'b': [1]}", "{}"],
    "typedfans": ["$fanouts", "dict.fromkeys(relations(), $fanouts)"],
    # what is made of them
    "forest": [
        "traverse($adj, [4, 0, 1], [2, 2])",
        "traverse(toy(), [4, 0], [1, 1, 1])",
        "traverse(toy(), [], [2])",
    ],
    "subgraph": [
        "sample_rooted(toy(), [4, 0], [2, 2])",
        "sample_rooted(toy(), [], [])",
    ],
    "used": [
        "$forest.path(k=$count)",
        "$forest.walk_weight(k=$count)",
        "$forest.edge_index()",
        "$forest.to($device)",
        "$forest.text(tree=$tree)",
        "$forest.draw(tree=$tree)",
        "walk_subgraph(forest=$forest)",
        "$subgraph.bidirectional()",
        "$subgraph.induced(adj=$adj)",
        "$subgraph.gcn_weight(adj=$adj; scheme=$scheme)",
        "$subgraph.to_sparse(weight=$edgeweights)",
        "sample_rooted(relations(), {'a': [0]}, [2]).induced(adjs=$relations)",
        "LADIESBias(2).factor(subgraph=$subgraph)",
        "LABORBias(2).factor(subgraph=$subgraph)",
        "AttentionBias($scores).factor(adj=$adj, subgraph=$subgraph)",
        "gather_rows(values=$matrixes, index=$ids)",
        "set_backend(name=$backend)",
    ],
    "tree": ["None", "0", "1"],
    "scheme": ["'unbiased'", "'paper'", "'sampled'"],
    "edgeweights": ["None", "torch.ones(8)", "torch.zeros(0)"],
    "matrixes": ["torch.rand(5, 3)", "torch.arange(5)", "torch.rand(5, 2, 2)"],
    "backend": ["'auto'", "'torch'"],
    # losses, embeddings and link prediction
    "loss": [
        "DeepWalkAcc(embedding=$vectors, window=$count; num_negatives=$count, "
        "negative_power=$factor, contrast=$contrast, right=$vectors, symmetric=$flag, "
        "negative_weight=$factor, generator=$draws)",
        "Node2VecAcc(embedding=$vectors, window=$count; p=$pq, q=$pq, "
        "num_negatives=$count, negative_power=$factor, contrast=$contrast, "
        "right=$vectors, negative_weight=$factor, "
        "weighted=$flag, scheme=$two, generator=$draws)",
        "WYSAcc(left=$vectors, right=$vectors, context=$logits; num_negatives=$count, "
        "negative_weight=$factor, scheme=$two, generator=$draws)",
        "TransitionFactorizationAcc(left=$vectors, right=$vectors, "
        "coefficients=$coefficients)",
    ],
    "losses": ["$loss.loss(forest=$forest)"],
    "vectors": [
        "torch.nn.Embedding(5, 4)",
        "torch.rand(5, 4)",
        "torch.rand(5, 4).double()",
    ],
    "contrast": ["'partition'", "'logistic'"],
    "draws": ["None", "torch.Generator()"],
    "pq": ["$factor", "torch.tensor(2.0, requires_grad=True)"],
    "two": ["'unbiased'", "'paper'"],
    "logits": ["torch.zeros(2)", "torch.zeros(3, requires_grad=True)"],
    "coefficients": ["[1.0, 0.5]", "[1, 1, 1]"],
    "model": [
        "DeepWalk(adj=$adj, embedding_dim=$count; window=$count, fanouts=$widths, "
        "num_negatives=$count, negative_power=$factor, contrast=$contrast, "
        "halves=$flag, symmetric=$flag, negative_weight=$factor, sparse=$flag)",
        "Node2Vec(adj=$adj, embedding_dim=$count; window=$count, fanouts=$widths, "
        "num_negatives=$count, p=$factor, q=$factor, trainable=$flag)",
        "WatchYourStep(adj=$adj, embedding_dim=$even; fanouts=$widths, "
        "num_negatives=$count, negative_weight=$factor, scheme=$two, penalty=$factor, "
        "sparse=$flag)",
    ],
    "even": ["2", "4"],
    "models": [
        "trained($model!)",
        "trained($model!; batch_size=$count!, shuffle=$flag!)",
        "$model.loss(forest=$forest)",
        "$model!(batch=$nodes)",
        "$model.score(edge=$pairs)",
        "DeepWalk.test(train_z=$vectors2, train_y=$labels, test_z=$vectors2, "
        "test_y=$labels)",
    ],
    "nodes": ["torch.tensor([0, 1])", "None"],
    "pairs": ["torch.tensor([[0, 1], [2, 3]])"],
    "vectors2": ["torch.rand(4, 2)", "torch.rand(4, 1)"],
    "labels": ["torch.tensor([0, 1, 0, 1])", "torch.tensor([0, 2, 0, 1]).int()"],
    "links": [
        "split(edge_index=$ends; num_nodes=$size, hide=$share, generator=$generator)",
        "largest_component(edge_index=$ends; num_nodes=$size)",
        "roc_auc(positive=$floats, negative=$floats)",
        "link_auc(score=$score, split=$split)",
        "mean_rank(score=$score, split=$split; num_negatives=$count, "
        "generator=$generator)",
        "NegativeSampler(adj=$adj; power=$factor).draw(shape=$shape; "
        "generator=$generator)",
        "communities(adj=$adj; rounds=$count!, generator=$generator)",
        "draw_embeddings(embedding=$vectors2; label=$labels, method=$method, "
        "title=$title)",
    ],
    "share": ["0.5", "0.2"],
    "floats": ["torch.rand(4)", "torch.arange(3)", "torch.rand(2).double()"],
    "score": ["lambda pair: (pair[0] * pair[1]).float()"],
    "split": ["split_links(ENDS, 9, 0.5)"],
    "shape": ["3", "(2, 3)", "[1]", "0"],
    "method": ["'pca'", "'auto'"],
    "title": ["''", "'dots'"],
    "files": [
        "edges(text=$text)",
        "edges(text=$text, name='e.txt.gz')",
        "read_edge_list(path=$path)",
        "table(random.random())",
        "table(random.random())",
        "commanded(random.random())",
        "commanded(random.random())",
        "write_embeddings(path=$file, embedding=$vectors2, node_id=$names)",
    ],
    "text": ["b'0 1\\n1 2 0.5\\n'", "b'a,b\\n1,2\\n'", "b'# no\\nx y z\\n'", "$noise"],
    "noise": ["noise($number!)"],
    "file": ["folder('e.npy')", "folder('e.npz')", "folder('e.txt')"],
    "names": ["np.arange(4)", "['a', 'b', 'c', 'd']"],
    "disk": [
        "featured(random.random())",
        "featured(random.random())",
        "pinned(random.random())",
        "FeatureFile.from_array(path=$path, values=$matrixes; stored=$stored, "
        "overwrite=$flag)",
        "FeatureFile.from_chunks(path=$path, chunks=[$matrixes, $matrixes]; "
        "stored=$stored)",
        "feature_file(; direct=$flag, pin_memory=$flag).read(ids=$ids; out=$room)",
        "feature_file(; direct=$flag).rows(ids=$ids; out=$room, place=$places)",
        "feature_file().cache(nbytes=$bytes; rows=$ids)[$picked]",
    ],
    "stored": ["None", "'float16'", "'bfloat16'", "'int8'", "torch.bfloat16"],
    "room": ["torch.empty(3, 3)", "torch.empty(2, 3)", "None"],
    "places": ["torch.tensor([1, 0, 2])", "torch.arange(2)", "None"],
    "bytes": ["0", "200", "10**6"],
    "picked": ["2", "[0, 9]", "slice(2, 7)", "torch.arange(10) > 5"],
}

RULES = dict(ENGINE)
STARTS = ["built", "asked", "traverse", "rooted", "used", "losses", "models", "links"]
STARTS += ["files", "disk"]
for _host, _rules in (("torch_geometric", PYG), ("dgl", DGL), ("pymetis", METIS)):
    if find_spec(_host) and (_rules is not METIS or find_spec("torch_geometric")):
        RULES.update(_rules)
        STARTS += [next(iter(_rules))] * (1 if _rules is METIS else 2)
