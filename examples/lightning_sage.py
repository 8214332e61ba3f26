"""GraphSAGE with Lightning on two processes, each with the whole graph; 30 seconds.

    python examples/lightning_sage.py

Lightning starts the processes; each takes its share of the seeds, for training by a
sampler, for tests by `input_nodes`. Needs Lightning: `pip install lightning`.
"""

import argparse

import lightning
import torch
import torch.nn.functional as F
from torch.utils.data import DistributedSampler
from torch_geometric.nn import GraphSAGE

from gttf_pyg import GTTFLoader
from planted import for_pyg


class Model(lightning.LightningModule):
    def __init__(self, data):
        super().__init__()
        self.data = data
        self.sage = GraphSAGE(32, 32, 2, 6, dropout=0.5)

    def train_dataloader(self):
        rank, world = self.trainer.global_rank, self.trainer.world_size
        seeds = self.data.train_mask.nonzero().view(-1)
        share = DistributedSampler(seeds, world, rank)  # Lightning tells it the epoch
        how = {"batch_size": 64 // world, "sampler": share, "num_workers": 1}
        return GTTFLoader(self.data, [10, 10], seeds, seed=rank, **how)

    def val_dataloader(self):
        rank, world = self.trainer.global_rank, self.trainer.world_size
        share = self.data.test_mask.nonzero().view(-1)[rank::world]
        return GTTFLoader(self.data, [-1, -1], share, batch_size=1024)

    def loss_and_right(self, batch):
        """The loss of the seeds, and which of them are right."""
        out = self.sage(batch.x, batch.edge_index)[: batch.batch_size]
        y = batch.y[: batch.batch_size]
        return F.cross_entropy(out, y), out.argmax(dim=1) == y

    def training_step(self, batch, number):
        return self.loss_and_right(batch)[0]

    def validation_step(self, batch, number):
        share = 100 * self.loss_and_right(batch)[1].float().mean()
        self.log("accuracy", share, batch_size=batch.batch_size, sync_dist=True)

    def on_validation_epoch_end(self):
        if self.trainer.is_global_zero and not self.trainer.sanity_checking:
            right = self.trainer.callback_metrics["accuracy"]
            print(f"epoch {self.current_epoch + 1:2}  test accuracy {right:.1f} %")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01, weight_decay=5e-4)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    lightning.seed_everything(0, verbose=False)  # the same graph everywhere
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=args.processes,
        strategy="ddp" if args.processes > 1 else "auto",
        max_epochs=args.epochs,
        use_distributed_sampler=False,  # the loaders have their shares
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )
    trainer.fit(Model(for_pyg(6_000, 6)))
    if trainer.is_global_zero:
        print("Expected after 6 epochs: 97 % or more.")
