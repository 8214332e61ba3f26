"""What the fuzzer writes for PyG and DGL; see `fuzz_words`."""

PYG = {
    "pyg": [
        "batches(GTTFLoader(data=$data, num_neighbors=$hops; input_nodes=$seeds, "
        "input_time=$seedtimes, replace=$flag, subgraph_type=$type, disjoint=$flag, "
        "temporal_strategy=$strategy, time_attr=$time, weight_attr=$weight, "
        "is_sorted=$flag, exclude_edges=$hidden, bias=$bias, seed=$seed, "
        "time_window=$span, device=$device, prefetch=$few, normalize=$norm, "
        "batch_size=$count!, shuffle=$flag!, generator=$draws))",
        "batches(GTTFLoader(data=$typed, num_neighbors=$typedhops, "
        "input_nodes=$typedseeds; input_time=$seedtimes, replace=$flag, "
        "subgraph_type=$type, disjoint=$flag, time_attr=$time, weight_attr=$weight, "
        "bias=$bias, exclude_edges=$hidden, seed=$seed, time_window=$span))",
        "batches(GTTFLinkLoader(data=$data, num_neighbors=$hops; "
        "edge_label_index=$labelled, edge_label=$edgelabels, "
        "edge_label_time=$seedtimes, replace=$flag, subgraph_type=$type, "
        "disjoint=$flag, neg_sampling=$negatives, neg_sampling_ratio=$factor, "
        "time_attr=$time, weight_attr=$weight, exclude_edges=$hides, bias=$bias, "
        "seed=$seed, device=$device, prefetch=$few, batch_size=$count!))",
        "GTTFSampler(data=$data, num_neighbors=$hops; subgraph_type=$type, "
        "replace=$flag, time_attr=$time, weight_attr=$weight, share_memory=$flag, "
        "sample_direction=$toward, bias=$bias, exclude_edges=$hidden, device=$device)"
        ".sample_from_nodes(inputs=$nodeinput)",
        "GTTFSampler(data=$data, num_neighbors=$hops; replace=$flag, "
        "exclude_edges=$hides).sample_from_edges(inputs=$edgeinput; "
        "neg_sampling=$sampling)",
        "ToCompact(; time_attr=$time, weight_attr=$weight, is_sorted=$flag, "
        "sample_direction=$toward)($data!)",
        "GTTFNorm(data=$data; scheme=$two)($data!)",
        "layerwise_inference(layers=$layers, x=$features, loader=$loader; "
        "device=$device)",
        "sampled_inference(model=$network, loader=$loader, num_nodes=$five; "
        "rounds=$count!)",
        "trained(gttf_pyg.Node2Vec(edge_index=$index, embedding_dim=$count, "
        "walk_length=$long, context_size=$short; walks_per_node=$count, p=$factor, "
        "q=$factor, num_negative_samples=$count, num_nodes=$size, sparse=$flag, "
        "edge_weight=$weights, generator=$draws))",
        "gttf_pyg.Node2Vec(torch.tensor(ENDS), 2, 4, 3).sample(batch=$ids)",
        "trained(gttf_pyg.DeepWalk(edge_index=$index, embedding_dim=$count, "
        "walk_length=$long, context_size=$short; fanout=$count, "
        "num_negative_samples=$count, contrast=$contrast, num_nodes=$size, "
        "sparse=$flag))",
        "trained(gttf_pyg.WatchYourStep(edge_index=$index, embedding_dim=$even, "
        "walk_length=$long; fanout=$count, num_negative_samples=$count, "
        "num_nodes=$size, sparse=$flag))",
    ],
    "data": [
        "data()",
        "data(edge_index=$index)",
        "data(w=$weights)",
        "data(time=$dates)",
        "data(t=$times)",
    ],
    "index": ["torch.tensor(ENDS)", "torch.tensor(ENDS).int()"],
    "hops": ["[2, 2]", "[-1]", "(1, 1)", "torch.tensor([2])"],
    "seeds": ["None", "$ids", "torch.arange(5) > 2"],
    "seedtimes": ["None", "torch.arange(5)", "torch.tensor([3, 3])"],
    "type": ["'directional'", "'bidirectional'", "'induced'"],
    "time": ["None", "'time'", "'t'"],
    "weight": ["None", "'w'"],
    "hidden": ["False", "[0, 3]", "torch.arange(10) < 2"],
    "hides": ["True", "$hidden"],
    "seed": ["None", "3"],
    "few": ["0", "2"],
    "norm": ["None", "'unbiased'"],
    "typed": ["several()"],
    "typedhops": ["$hops", "dict.fromkeys(several().edge_types, $hops)"],
    "typedseeds": ["'a'", "('a', $ids)", "('b', None)"],
    "labelled": ["None", "$index", "torch.tensor(ENDS)[:, :3]"],
    "edgelabels": ["None", "torch.arange(10)"],
    "negatives": ["None", "'binary'", "'triplet'", "$sampling"],
    "sampling": ["NegativeSampling($mode!; amount=$count!, dst_weight=$masses)"],
    "mode": ["'binary'", "'triplet'"],
    "masses": ["None", "torch.ones(5)"],
    "toward": ["'forward'", "'backward'"],
    "nodeinput": ["nodes_in(node=$tensor; time=$seedtimes)"],
    "edgeinput": ["edges_in(row=$tensor, col=$tensor; label=$tensor)"],
    "tensor": ["torch.tensor([0, 1])", "torch.tensor([2, 2]).int()"],
    "layers": ["[lambda x, batch: x] * 2"],
    "features": ["torch.rand(5, 3)"],
    "loader": ["GTTFLoader(data(), [-1], batch_size=2)"],
    "network": ["lambda batch: batch.x"],
    "five": ["5"],
    "long": ["4", "3"],
    "short": ["2", "3"],
}

DGL = {
    "dgl": [
        "blocks(gttf_dgl.GTTFSampler(fanouts=$layered; edge_dir=$way, prob=$column, "
        "mask=$masked, replace=$flag, prefetch_node_feats=$feats, "
        "prefetch_labels=$feats, prefetch_edge_feats=$columns, output_device=$device, "
        "bias=$bias, generator=$generator, seed=$seed2, rooted=$flag, "
        "normalize=$normal), $g, $ids; exclude_eids=$eids)",
        "blocks(gttf_dgl.GTTFSubgraphSampler(fanouts=$layered; edge_dir=$way, "
        "prob=$column, mask=$masked, replace=$flag, output_device=$device, bias=$bias, "
        "generator=$generator, seed=$seed2, normalize=$normal), $g, $ids; "
        "exclude_eids=$eids)",
        "blocks(gttf_dgl.GTTFSampler($layered), several_g(), $typedids; "
        "exclude_eids=$eids)",
        "gttf_dgl.from_subgraph(g=$g, subgraph=$subgraph; edge_dir=$way)",
        "gttf_dgl.to_compact(g=$g; etype=$etype, direction=$way, prob=$column, "
        "mask=$masked)",
        "gttf_dgl.random_walk(g=$g, nodes=$ids, length=$steps; prob=$column, "
        "restart_prob=$chance, return_eids=$flag, generator=$generator)",
        "gttf_dgl.random_walk(g=$g, nodes=$ids, metapath=$path2; prob=$column, "
        "restart_prob=$chance, return_eids=$flag)",
        "gttf_dgl.node2vec_random_walk(g=$g, nodes=$ids, p=$factor, q=$factor, "
        "walk_length=$steps; prob=$column, return_eids=$flag, generator=$generator)",
    ],
    "g": ["graph()", "graph(w=$weights)", "graph(m=$masks)"],
    "layered": ["[2, 2]", "[-1]", "(3, 1)"],
    "column": ["None", "'w'"],
    "masked": ["None", "'m'"],
    "masks": ["torch.arange(10) > 3"],
    "feats": ["None", "['x']"],
    "columns": ["None", "['w']"],
    "seed2": ["None", "3"],
    "normal": ["None", "'both'", "'right'"],
    "eids": ["None", "torch.arange(3)", "[1]"],
    "etype": ["None", "'_E'"],
    "steps": ["3", "0"],
    "path2": ["['_E'] * 2"],
    "chance": ["None", "0.5", "torch.full((3,), 0.1)"],
}
