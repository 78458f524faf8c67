"""What cannot be used gets a sentence that names it, and a remedy."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch_geometric.data import Data

import hinterland as hl
from hinterland.pyg import FeatureStore, GraphStore, LinkNeighborLoader, NeighborLoader, Sampler
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange


def refused(error, match, make):
    with pytest.raises(error, match=match):
        make()


def test_features_without_a_row_for_each_node(data):
    data.num_nodes = 301
    refused(GraphError, "data.x has 300 rows, but there are 301 nodes; it needs one row for each", lambda: Sampler(data, [2]))
    del data.num_nodes
    data.x = data.x[:200]
    refused(GraphError, "an edge names node 279, but there are 200 nodes.*features need one row", lambda: Sampler(data, [2]))


def test_tables_without_a_row_for_each_node(data):
    data.z = hl.UnifiedTensor.from_tensor(torch.zeros(9, 2))
    refused(GraphError, "z is a table of 9 rows in host memory", lambda: NeighborLoader(data, [2], device="cpu"))
    data.x = hl.UnifiedTensor.from_tensor(torch.zeros(9, 2))
    refused(GraphError, "an edge names node 279, but there are 9 nodes", lambda: NeighborLoader(data, [2], device="cpu"))


def test_stores_that_disagree(data):
    features, graphs = FeatureStore(), GraphStore()
    refused(ConfigError, "the graph store is empty", lambda: Sampler((features, graphs), [2]))
    features.put_tensor(data.x[:7], group_name=None, attr_name="x", index=None)
    graphs.put_edge_index(data.edge_index, edge_type=None, layout="coo", size=(300, 300))
    refused(
        GraphError, "'x' has 7 rows, but the edges were put with a size of 300 nodes", lambda: Sampler((features, graphs), [2])
    )
    features, graphs = FeatureStore(), GraphStore()
    graphs.put_edge_index(data.edge_index, edge_type=None, layout="coo")
    refused(ConfigError, "nothing says how many nodes", lambda: Sampler((features, graphs), [2]))


def test_fanouts(data):
    refused(ConfigError, r"num_neighbors holds -2; use whole numbers", lambda: Sampler(data, [3, -2]))
    refused(ConfigError, r"num_neighbors holds 2.5", lambda: Sampler(data, [2.5]))
    refused(ConfigError, r"a number for each hop, as \[15, 10, 5\], not 3", lambda: Sampler(data, 3))
    refused(ConfigError, r"by edge type is for heterogeneous", lambda: Sampler(data, {("a", "b", "c"): [2]}))


def test_seeds(data):
    refused(IndexOutOfRange, "input_nodes names 300, but there are 300 nodes", lambda: NeighborLoader(data, [2], [300]))
    refused(IndexOutOfRange, "input_nodes names -1", lambda: NeighborLoader(data, [2], torch.tensor([-1])))
    refused(GraphError, r"the mask of input_nodes has shape \(9,\)", lambda: NeighborLoader(data, [2], torch.ones(9).bool()))
    data.t = torch.zeros(300, dtype=torch.int64)
    timed = {"time_attr": "t", "device": "cpu"}
    refused(
        ConfigError,
        "input_time has 300 times, but there are 2 input nodes; give one for each",
        lambda: NeighborLoader(data, [2], torch.tensor([7, 8]), input_time=data.t, **timed),
    )
    refused(
        ConfigError,
        "edge_label_time has 300 times, but there are 2 edges of edge_label_index",
        lambda: LinkNeighborLoader(data, [2], data.edge_index[:, :2], edge_label_time=data.t, **timed),
    )
    labels = torch.ones(3)
    words = "edge_label has 3 labels, but there are 1500 edges of edge_label_index; give one for each"
    refused(ConfigError, words, lambda: LinkNeighborLoader(data, [2], edge_label=labels, device="cpu"))
    edges = torch.tensor([[0], [300]])
    refused(IndexOutOfRange, "edge_label_index names 300", lambda: LinkNeighborLoader(data, [2], edges))


def test_times_and_weights(data):
    refused(ConfigError, "time_attr='when' is no attribute of nodes or edges", lambda: Sampler(data, [2], time_attr="when"))
    data.edge_time = torch.rand(data.num_edges)
    words = "time_attr='edge_time' is torch.float32 of shape .*; it needs a whole number for each of 1500 edges"
    refused(ConfigError, words, lambda: Sampler(data, [2], time_attr="edge_time"))
    refused(ConfigError, "time_attr='x' is torch.float32 of shape", lambda: Sampler(data, [2], time_attr="x"))
    refused(ConfigError, "weight_attr='heft' is no attribute of edges", lambda: Sampler(data, [2], weight_attr="heft"))
    refused(ConfigError, "weight_attr='y' is no attribute of edges", lambda: Sampler(data, [2], weight_attr="y"))
    data.weight[3] = -1
    refused(GraphError, "weight_attr='weight' holds negative or infinite", lambda: Sampler(data, [2], weight_attr="weight"))
    words = "time_window=3 counts back from the seeds' times; name times in time_attr="
    refused(ConfigError, words, lambda: Sampler(data, [2], time_window=3))
    refused(ConfigError, words, lambda: NeighborLoader(data, [2], time_window=3))
    data.t = torch.zeros(300, dtype=torch.int64)
    for wrong in (-1, 2.5, "1d", 2**63):
        made = partial(Sampler, data, [2], time_attr="t", time_window=wrong)
        refused(ConfigError, "time_window .* is not a whole number", made)
    own = Sampler(data, [2], time_attr="t")
    for loader in (NeighborLoader, LinkNeighborLoader):
        made = partial(loader, data, [2], neighbor_sampler=own, time_attr="t", time_window=3)
        refused(ConfigError, "give it to neighbor_sampler", made)
    refused(ValueError, "input_time", lambda: NeighborLoader(data, [2], input_time=torch.zeros(300).long()))


def test_options(data):
    refused(ConfigError, "subgraph_type='whole' is none of", lambda: Sampler(data, [2], subgraph_type="whole"))
    refused(ConfigError, "temporal_strategy='first' is neither", lambda: Sampler(data, [2], temporal_strategy="first"))
    refused(ConfigError, "subgraph_type='induced' joins", lambda: Sampler(data, [2], subgraph_type="induced", disjoint=True))
    refused(ConfigError, "a loader takes Data, HeteroData or", lambda: NeighborLoader("cora", [2]))
    refused(GraphError, "is_sorted=True promises that targets ascend, but edge", lambda: Sampler(data, [2], is_sorted=True))
    words = r"weight_attr='weight' is no attribute of edges.*in the feature store: put_tensor\(..., group_name=None"
    refused(ConfigError, words, lambda: Sampler(stores_of(data), [2], weight_attr="weight"))
    refused(ConfigError, "sample_direction='up' is neither", lambda: Sampler(data, [2], sample_direction="up"))
    data.adj_t, data.edge_index = "a matrix", None
    refused(GraphError, "the edges are in adj_t; give them as edge_index", lambda: Sampler(data, [2]))


def test_rows_are_all_that_a_table_gives(data):
    from hinterland.pyg.table_tensor import TableTensor

    rows = TableTensor(hl.UnifiedTensor.from_tensor(data.x), torch.device("cpu"))
    assert "Rows(UnifiedTensor" in repr(rows)
    refused(ConfigError, "read by rows, not by aten.add", lambda: rows + 1)


def test_nodes_that_nothing_counts():
    with pytest.warns(UserWarning, match="num_nodes"):
        loader = NeighborLoader(Data(edge_index=torch.tensor([[0, 1], [1, 2]])), [1], device="cpu", batch_size=3)
    (batch,) = loader
    assert batch.num_nodes == 3


def stores_of(data):
    features, graphs = FeatureStore(), GraphStore()
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    graphs.put_edge_index(data.edge_index, edge_type=None, layout="coo", size=(300, 300))
    return features, graphs


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"is_sorted": torch.zeros(3)}, "is_sorted a torch.float32 tensor .* is neither True nor False"),
        ({"directed": "no"}, "directed 'no' is neither True nor False"),
        ({"time_attr": [None]}, "time_attr is a list, but must be a str"),
        ({"weight_attr": [None]}, "weight_attr is a list, but must be a str"),
        ({"placement": [None]}, "placement is a list, but must be a str"),
    ],
)
def test_options_of_another_kind(data, options, match):
    refused(ConfigError, match, lambda: Sampler(data, [2], **options))
