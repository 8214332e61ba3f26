"""The fuzzer's lines for PyG and DGL; see `fuzz_words`."""

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
        "gttf_pyg.PPRNeighbors(k=$count; restart=$share, walks=$count, length=$few, "
        "weight_attr=$weight, generator=$generator)($data!)",
        "batches(GTTFLoader(data=$data, num_neighbors=$hops; labor=$labor, "
        "seed=$seed, layerwise=$flag, batch_size=$count!))",
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
        "some(gttf_pyg.NeighborLoader(data=$data, num_neighbors=$hops; "
        "input_nodes=$seeds, max_nodes=$count, max_edges=$count, batch_size=$count!))",
        "some(gttf_pyg.LinkNeighborLoader(data=$data, num_neighbors=$hops; "
        "edge_label_index=$labelled, neg_sampling=$chosen, batch_size=$count!))",
        "gttf_pyg.NeighborSampler(data=$data, num_neighbors=$hops; replace=$flag)"
        ".sample_from_nodes(inputs=$nodeinput)",
        "gttf_pyg.BidirectionalNeighborSampler(data=$data, num_neighbors=$hops; "
        "subgraph_type=$type, replace=$flag, disjoint=$flag, weight_attr=$weight)"
        ".sample_from_nodes(inputs=$nodeinput)",
        "some(gttf_pyg.HGTLoader(data=$typed, num_samples=$budgets, "
        "input_nodes=$typedseeds; is_sorted=$flag, max_neighbors=$count, seed=$seed, "
        "batch_size=$count!))",
        "gttf_pyg.HGTSampler(data=$typed, num_samples=$budgets; max_neighbors=$count)"
        ".sample_from_nodes(inputs=$typedinput)",
        "some(gttf_pyg.ShaDowKHopSampler(data=$data, depth=$count, "
        "num_neighbors=$count; node_idx=$seeds, replace=$flag, seed=$seed, "
        "batch_size=$count!))",
        "some(gttf_pyg.GraphSAINTNodeSampler(data=$data, batch_size=$count; "
        "num_steps=$few, scheme=$formulas, seed=$seed))",
        "some(gttf_pyg.GraphSAINTEdgeSampler(data=$data, batch_size=$count; "
        "num_steps=$few, scheme=$formulas, seed=$seed))",
        "some(gttf_pyg.GraphSAINTRandomWalkSampler(data=$data, batch_size=$count, "
        "walk_length=$count; num_steps=$few, scheme=$formulas, seed=$seed))",
        "no_future(batch=$batch; time_attr=$time, time_window=$span, seeds=$flag)",
        "gttf_pyg.unbiased(model=$gnn; scale=$scale)",
        "summed(gttf_pyg.fused(model=$gnn; trim=$trim))",
        "gttf_pyg.fused_layers(model=$gnn)",
        "gttf_pyg.inference(model=$gnn, data=$data; edge_attrs=$attrs, progress=$flag)",
        "gttf_pyg.check_unbiased(model=$gnn, loader=$loader; data=$data, seeds=$count, "
        "rounds=$count, tolerance=$factor, linear=$flag)",
        "gttf_pyg.partition(data=$data, path=fresh('parts'), parts=$count; "
        "weight_attr=$weight, time_attr=$time)",
        "gttf_pyg.FileStore(; graph=$ownrows)",
        "coded(GTTFLoader(data=stores($layout!, $owner!), num_neighbors=$hops; "
        "input_nodes=$seeds, input_time=$seedtimes, replace=$flag, "
        "subgraph_type=$type, disjoint=$flag, time_attr=$time, weight_attr=$weight, "
        "exclude_edges=$hidden, bias=$bias, seed=$seed, prefetch=$few, "
        "max_edges=$count, batch_size=$count!, shuffle=$flag!, pin_memory=$flag!))",
        "coded(GTTFLoader(data=typed_stores($layout!), num_neighbors=$typedhops, "
        "input_nodes=$typedseeds; input_time=$seedtimes, replace=$flag, "
        "subgraph_type=$type, disjoint=$flag, time_attr=$time, seed=$seed, "
        "prefetch=$few, batch_size=$count!, pin_memory=$flag!))",
        "coded(GTTFLinkLoader(data=stores($layout!, $owner!), num_neighbors=$hops; "
        "edge_label_index=$labelled, edge_label_time=$seedtimes, time_attr=$time, "
        "neg_sampling=$negatives, exclude_edges=$hides, batch_size=$count!, "
        "pin_memory=$flag!))",
        "coded(gttf_pyg.HGTLoader(data=typed_stores($layout!), num_samples=$budgets, "
        "input_nodes=$typedseeds; max_neighbors=$count, batch_size=$count!, "
        "pin_memory=$flag!))",
    ],
    "layout": ["'coo'", "'csr'", "'csc'", "'sorted'"],
    "owner": ["None", "(None, None)"],
    "chosen": [
        "None",
        "gttf_pyg.NegativeSampling($mode!; amount=$count!, dst_weight=$masses, "
        "src_nodes=$ids, dst_nodes=$ids, avoid_edges=$flag)",
    ],
    "budgets": ["[2, 2]", "[3]", "dict.fromkeys(['a', 'b'], [2, 1])"],
    "typedinput": ["nodes_in(node=$tensor, input_type='a'; time=$seedtimes)"],
    "batch": [
        "data()",
        "next(iter(GTTFLoader(data(), [2], input_time=torch.arange(5), "
        "time_attr='time', batch_size=2)))",
    ],
    "gnn": ["torch_geometric.nn.GCN(3, 4, 1)", "torch_geometric.nn.SGConv(3, 2)"],
    "scale": ["None", "'sum'"],
    "trim": ["None", "True", "False"],
    "attrs": ["()", "['w']"],
    "ownrows": ["None", "toy()"],
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
    "labor": [
        "True",
        "gttf_pyg.Labor(; importance=$few, layer_dependency=$flag, "
        "batch_dependency=$few)",
    ],
    "formulas": ["'unbiased'", "'pyg'"],
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

METIS = {  # beside PYG, where pymetis is installed
    "metis": [
        "gttf_pyg.ClusterData(data=$data, num_parts=$count; recursive=$flag, "
        "save_dir=$nowhere, keep_inter_cluster_edges=$flag, sparse_format=$form)",
        "clustered(gttf_pyg.ClusterLoader(cluster_data=$clusters; seed=$seed, "
        "batch_size=$count!, shuffle=$flag!, pin_memory=$flag!))",
    ],
    "clusters": [
        "gttf_pyg.ClusterData(coded_data(), 2, log=False)",
        "gttf_pyg.ClusterData(coded_data(), $parts!; recursive=$flag!, log=False, "
        "keep_inter_cluster_edges=$flag!, sparse_format=$form!)",
    ],
    "parts": ["1", "3", "4", "5", "7"],
    "nowhere": ["None"],
    "form": ["'csr'", "'csc'"],
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
        "blocks(gttf_dgl.NeighborSampler(fanouts=$layered; replace=$flag), $g, $ids)",
        "blocks(gttf_dgl.MultiLayerNeighborSampler(fanouts=$layered; prob=$column), "
        "$g, $ids)",
        "blocks(gttf_dgl.MultiLayerFullNeighborSampler(num_layers=$count), $g, $ids)",
        "blocks(gttf_dgl.LaborSampler(fanouts=$layered; edge_dir=$way, prob=$column, "
        "importance_sampling=$whole, layer_dependency=$flag, batch_dependency=$count, "
        "mask=$masked, generator=$generator, seed=$seed2), $g, $ids; "
        "exclude_eids=$eids)",
        "gttf_dgl.ShaDowKHopSampler(fanouts=$layered; replace=$flag)"
        ".sample(g=$g, seed_nodes=$ids)",
        "gttf_dgl.SAINTSampler(mode=$saint!, budget=$budget; cache=$flag, "
        "output_device=$device, seed=$seed2).sample(g=$g, indices=$ids)",
        "gttf_dgl.SAINTSampler(mode=$saint, budget=2)",
        "gttf_dgl.PinSAGESampler(G=two_ways(), ntype='a', other_type='b', "
        "num_traversals=$count, termination_prob=$factor, num_random_walks=$count, "
        "num_neighbors=$count; generator=$generator)(seed_nodes=$ids)",
        "gttf_dgl.RandomWalkNeighborSampler(G=$g, num_traversals=$count, "
        "termination_prob=$factor, num_random_walks=$count, num_neighbors=$count; "
        "metapath=$path2, generator=$generator)(seed_nodes=$ids)",
        "gttf_dgl.sample_neighbors(g=$g, nodes=$ids, fanout=$count; edge_dir=$way, "
        "prob=$column, replace=$flag, copy_ndata=$flag, copy_edata=$flag, "
        "exclude_edges=$eids, output_device=$device, bias=$bias, generator=$generator)",
        "gttf_dgl.sample_labors(g=$g, nodes=$ids, fanout=$count; edge_dir=$way, "
        "prob=$column, importance_sampling=$whole, random_seed=$seed2, "
        "copy_ndata=$flag, copy_edata=$flag, exclude_edges=$eids)",
        "some(gttf_dgl.DataLoader($g!, $ids!, gttf_dgl.GTTFSampler([2]); "
        "batch_size=$count!, shuffle=$flag!, thread_workers=$flag))",
        "gttf_dgl.unbiased(model=$conv; scale=$scaled)",
        "gttf_dgl.fused(model=$conv)(graph(), torch.rand(5, 3))",
        "gttf_dgl.fused_layers(model=$conv)",
        "gttf_dgl.check_unbiased(model=$conv, sampler=gttf_dgl.GTTFSampler([2]), g=$g, "
        "x=$values, forward=lambda m, b, x: m(b[0], x); seeds=$count, rounds=$count, "
        "tolerance=$factor, linear=$flag)",
        "gttf_dgl.partition(g=$g, path=fresh('parts'), parts=$count; prob=$column)",
        "gttf_dgl.ppr_graph(g=$g, k=$count; restart=$share, walks=$count, "
        "length=$steps, prob=$column, generator=$generator)",
    ],
    "whole": ["0", "1", "-1"],
    "saint": ["'node'", "'edge'", "'walk'"],
    "budget": ["2", "(2, 2)"],
    "conv": ["dgl.nn.GraphConv(3, 2, allow_zero_in_degree=True)"],
    "values": ["torch.rand(5, 3)"],
    "scaled": ["None", "'sum'"],
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
