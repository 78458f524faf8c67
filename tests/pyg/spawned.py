"""Lightning's ddp_fork or ddp_spawn with our loader, for test_training.py: writes the inputs that each of two
processes saw to a folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytorch_lightning
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

import hinterland as hl
from hinterland.pyg import NeighborLoader

FOLDER, STRATEGY = Path(sys.argv[1]), sys.argv[2]
NODES, INPUTS = 400, 200


class Model(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = SAGEConv(16, 8), []

    def training_step(self, batch, _):
        self.seen.append(batch.input_id)
        return cross_entropy(self.layer(batch.x, batch.edge_index)[: batch.batch_size], batch.y[: batch.batch_size])

    def on_train_end(self):
        torch.save(torch.cat(self.seen), FOLDER / f"{self.global_rank}.pt")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


if __name__ == "__main__":
    rows = hl.UnifiedTensor.from_tensor(torch.randn(NODES, 16))  # in pageable memory, which a process does not share
    data = Data(x=rows.cpu(), edge_index=torch.randint(0, NODES, (2, 3000)), y=torch.randint(0, 8, (NODES,)))
    loader = NeighborLoader(data, num_neighbors=[5], input_nodes=torch.arange(INPUTS), batch_size=25, shuffle=True)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = pytorch_lightning.Trainer(accelerator="cpu", devices=2, strategy=STRATEGY, max_epochs=1, **quiet)
    trainer.fit(Model(), loader)
