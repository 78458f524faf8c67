"""What a layer of PyG's reads of a sample."""

from __future__ import annotations

from itertools import accumulate

import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..sampling import PaddedSample, Sample


def trim_to_layer(layer: int, sample: Sample, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows and edges that a layer needs, as ``torch_geometric.utils.trim_to_layer`` gives them, of a batch of
    ``hinterland.training``: also of a captured one, whose counts stay on the GPU.

    Args:
        layer: 0 reads all hops, the next one a hop less, and so on.
        sample: a batch's ``sample``, of one type of vertices.
        x: what the layer before has made, or the batch's ``x``: ``[n, ...]``, on the device of ``sample``.

    Returns:
        The first rows of ``x``, and int64 ``[2, e]`` in their numbers. Edges that do not count lead from the last row to
        itself, which no other edge names.

    Raises:
        ConfigError: ``sample`` has no such layer, or ``x`` is no dense tensor, or has fewer rows than that reads.
    """
    arguments.instance("sample", sample, Sample, "as batch.sample is")
    hops = len(sample.num_sampled_edges)
    layer = arguments.whole_number("layer", layer, 0)
    if layer >= hops:
        raise ConfigError(f"layer={layer}, but the sample has {hops} hops, one for each layer; layers count from 0")
    reads = hops - layer
    rows, edges = sum(sample.num_sampled_nodes[: reads + 1]), list(accumulate(sample.num_sampled_edges))[reads - 1]
    if arguments.dense("x", x).dim() == 0 or len(x) < rows:
        raise ConfigError(
            f"x is {list(x.shape)}, but layer {layer} reads {rows} rows; pass what the layer before has made of its own"
        )
    edge_index = torch.stack([sample.row[:edges], sample.col[:edges]])
    if isinstance(sample, PaddedSample) and layer:  # there is room for edges of the next hop, which name rows behind these
        counts = torch.arange(edges, device=edge_index.device) < sample.ends[1, reads]
        edge_index = torch.where(counts, edge_index, rows - 1)
    return x[:rows], edge_index
