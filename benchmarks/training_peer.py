"""The peer's side of the training benchmark; needs nothing of keras_msd."""

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from workers import serve_methods

PACKAGES = ("sentence-transformers", "transformers", "torch", "accelerate")
TRIAL = 4  # batches on which numbers of threads are compared


class Peer:
    """Trains a copy of the model with SentenceTransformerTrainer.

    Args:
        job: File with the model's folder, pairs, batch size and precision.
    """

    def __init__(self, job: Path) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        self.default = torch.get_num_threads()
        self.about = json.loads(job.read_text(encoding="utf-8"))
        self.vectors = np.load(job.with_name("vectors.npz"))["vectors"]
        self.model = SentenceTransformer(self.about["folder"], device="cpu")
        self.model.max_seq_length = self.about["tokens"]
        self.weights = {
            name: value.clone() for name, value in self.model.state_dict().items()
        }
        self.scratch = tempfile.mkdtemp()

    def prepare(self, stage: str, batches: list[list[int]]) -> dict[str, Any]:
        """Make the loss and the rows; `batches` are the pairs of ours."""
        from datasets import Dataset
        from sentence_transformers import losses

        self.model.load_state_dict(self.weights)
        self.batches = batches
        english, other = zip(*self.about["pairs"], strict=True)
        columns: dict[str, Any] = {"english": list(english), "other": list(other)}
        if stage == "teach_assistant":
            columns["label"] = self.vectors.tolist()
            self.criterion = losses.MSELoss(self.model)
        else:
            self.criterion = losses.MultipleNegativesRankingLoss(self.model)
        self.dataset = Dataset.from_dict(columns)
        return {}

    def loss(self) -> dict[str, float]:
        """Return the loss of the first batch, without dropout and before training."""
        import torch

        rows = self.dataset[self.batches[0]]
        sides = [self.model.preprocess(rows[name]) for name in ("english", "other")]
        labels = torch.tensor(rows["label"]) if "label" in rows else None
        self.model.eval()
        with torch.no_grad():
            loss = self.criterion(sides, labels)
        self.model.train()
        return {"loss": float(loss)}

    def choose_threads(self) -> dict[str, int]:
        """Keep the number of threads that is fastest on a few batches."""
        import torch

        times = {}
        for threads in sorted({1, os.cpu_count() or 1, self.default}):
            torch.set_num_threads(threads)
            times[threads] = self._seconds(self.batches[:TRIAL])
        self.best = min(times, key=times.__getitem__)
        return {"threads": self.best, "default_threads": self.default}

    def train(self, grouped: bool) -> dict[str, float]:
        """Train on every pair once and return the seconds."""
        import torch

        torch.set_num_threads(self.best if grouped else self.default)
        return {"seconds": self._seconds(self.batches if grouped else None)}

    def _seconds(self, batches: list[list[int]] | None) -> float:
        from sentence_transformers import (
            SentenceTransformerTrainer,
            SentenceTransformerTrainingArguments,
        )
        from sentence_transformers.training_args import BatchSamplers

        bfloat16 = self.about["precision"] == "bfloat16"
        sampler = BatchSamplers.BATCH_SAMPLER if batches is None else ours(batches)
        began = time.perf_counter()
        SentenceTransformerTrainer(
            model=self.model,
            args=SentenceTransformerTrainingArguments(
                output_dir=self.scratch,
                num_train_epochs=1,
                per_device_train_batch_size=self.about["batch_size"],
                learning_rate=2e-5,
                warmup_steps=0.1,
                batch_sampler=sampler,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                use_cpu=True,
                bf16=bfloat16,
            ),
            train_dataset=self.dataset,
            loss=self.criterion,
        ).train()
        return time.perf_counter() - began


def ours(batches: list[list[int]]) -> Any:
    """Return a sampler class that gives these batches."""
    from sentence_transformers.sampler import DefaultBatchSampler

    class Given(DefaultBatchSampler):
        def __iter__(self) -> Any:
            return iter(batches)

        def __len__(self) -> int:
            return len(batches)

    return Given


if __name__ == "__main__":
    serve_methods(Peer, PACKAGES)
