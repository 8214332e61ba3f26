"""Tasks for tests of Lightning; a script, as its processes are started anew."""

import json
import sys
import warnings
from pathlib import Path

import lightning
import torch
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import SAGEConv

from gttf_pyg import LightningNodeData

QUIET = {
    "accelerator": "cpu",
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
    "logger": False,
}


class Model(lightning.LightningModule):
    """A layer that remembers what it was trained on."""

    def __init__(self, stop: int | None = None, path: Path | None = None) -> None:
        super().__init__()
        self.conv = SAGEConv(34, 4)
        self.seen: list[list[int]] = []
        self.stop, self.path = stop, path

    def training_step(self, batch, number):
        self.seen.append(batch.n_id.tolist())
        out = self.conv(batch.x, batch.edge_index)[: batch.batch_size]
        return torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])

    def on_train_batch_end(self, *_):
        if self.stop is not None and len(self.seen) == self.stop:
            self.trainer.save_checkpoint(self.path)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def module(**how) -> LightningNodeData:
    every = torch.ones(34, dtype=torch.bool)
    given = {"num_neighbors": [3, 2], "batch_size": 4, **how}
    return LightningNodeData(KarateClub()[0], every, **given)


if __name__ == "__main__":  # two processes, each of which writes what it saw
    warnings.simplefilter("ignore")
    place = Path(sys.argv[1])
    lightning.seed_everything(0, verbose=False)
    trainer = lightning.Trainer(max_epochs=2, devices=2, strategy="ddp", **QUIET)
    model = Model()
    trainer.fit(model, datamodule=module())
    (place / f"{trainer.global_rank}.json").write_text(json.dumps(model.seen))
