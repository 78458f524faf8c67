"""A graph neural network on a whole graph that is divided in parts: on every GPU that there is, or in two parts of the CPU.

First a training loop as one writes it for a graph in one piece: x is a list with the rows of each part. Then the same by
train_full, which also validates, writes checkpoints, and runs in several processes.
"""

import torch
import torch.nn.functional as F

import hinterland as hl
from hinterland import datasets
from hinterland.nn import GCNConv, each
from hinterland.training import train_full

vertices, edges, splits = {"node": 5_000}, {("node", "to", "node"): 50_000}, (1_500, 500, 1_500)
shape = datasets.Shape(vertices, {"node": 32}, edges, splits, classes=8, undirected=True)
data = datasets.generate(shape, seed=1)
devices = [torch.device("cuda", i) for i in range(torch.cuda.device_count())] or ["cpu", "cpu"]

# The graph in parts, and what belongs to its vertices in the same parts. A part knows which rows of others its sums read.
p = hl.PartitionedGraph.from_graph(data.graph, devices=devices)
print(p)
learned = torch.full_like(data.labels, -1)  # the classes of training vertices; the others do not count
learned[data.splits["train"]] = data.labels[data.splits["train"]]
x, y = (p.each(p.scatter(one)) for one in (data.features, learned[:, None]))


class GCN(torch.nn.Module):
    """As with torch_geometric.nn.GCNConv, but the partitioned graph stands where edge_index does."""

    def __init__(self, inputs: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first, self.last = GCNConv(inputs, hidden), GCNConv(hidden, classes)

    def forward(self, x: list[torch.Tensor], p: hl.PartitionedGraph) -> list[torch.Tensor]:
        return self.last(each(torch.relu, self.first(x, p)), p)


torch.manual_seed(0)
model = GCN(32, 32, 8).to(devices[0])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(30):
    optimizer.zero_grad()
    losses = [
        F.cross_entropy(scores, classes[:, 0], ignore_index=-1, reduction="sum")
        for scores, classes in zip(p.each(model(p.as_given(x), p)), y, strict=True)
    ]
    loss = sum(one.to(devices[0]) for one in losses) / len(data.splits["train"])
    loss.backward()  # through the parts, by the edges turned round
    optimizer.step()
    if epoch % 10 == 9:
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

found = train_full(data, "gcn", devices=devices, hidden=32, epochs=30, dropout=0.0, on_epoch=None)
print(f"train_full: loss {found.history[-1]['loss']:.3f}, test accuracy {found.test['accuracy']:.1%}")
for choice in found.choices:
    print(choice.explain())  # which way of reading other parts' rows was the quickest, and what each would have cost
