"""Our side of the training benchmark, in a process of its own."""

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from workers import serve_methods

PACKAGES = ("tensorflow", "keras", "keras-hub", "numpy")


class Ours:
    """Trains a copy of the model with a stage.

    Args:
        job: File with the model's folder, pairs, batch size and precision.
    """

    def __init__(self, job: Path) -> None:
        import keras_msd as msd
        from keras_msd.training.precision import computing_in

        about = json.loads(job.read_text(encoding="utf-8"))
        self.batch_size, self.tokens = about["batch_size"], about["tokens"]
        self.pairs = [msd.data.Pair(*pair, "xx") for pair in about["pairs"]]
        with computing_in(about["precision"]):
            self.encoder = msd.load_encoder(about["folder"])
        self.weights = self.encoder.model.get_weights()
        self.folder = Path(tempfile.mkdtemp())
        guide = msd.load_teacher(job.with_name("vectors.npz"))
        self.guides = {"teacher": (msd.data.GuideStore(guide, job.parent), "source")}
        self.stage: Any = None

    def dataset(self) -> Any:
        """Return batches of all pairs, made from texts and stored vectors."""
        import keras_msd as msd

        shutil.rmtree(self.folder, ignore_errors=True)
        return msd.data.PairBatches(
            self.pairs,
            self.encoder,
            self.guides,
            batch_size=self.batch_size,
            max_length=self.tokens,
            epochs=1,
            folder=self.folder,
        )

    def prepare(self, stage: str) -> dict[str, Any]:
        """Make a stage with the first weights; return the pairs of each batch."""
        import keras_msd as msd

        self.encoder.model.set_weights(self.weights)
        if stage == "teach_assistant":
            self.stage = msd.stages.TeachAssistant(self.encoder)
            self.scale = 0.5  # the peer takes the mean over both sides, not their sum
        else:
            self.stage = msd.stages.ContrastiveLearning(
                self.encoder, "ce_hard", contrastive_weight=1, kd_weight=0
            )
            self.scale = 1.0
        steps = len(self.pairs) // self.batch_size
        self.stage.compile(msd.training.make_optimizer(learning_rate=2e-5, steps=steps))
        batches = self.dataset()
        rows = [batches.stream.rows(number) for number in range(len(batches))]
        place = {pair.source: number for number, pair in enumerate(self.pairs)}
        lines = [text for one in batches.table.texts.chunks("source") for text in one]
        return {"batches": [[place[lines[row]] for row in one] for one in rows]}

    def loss(self) -> dict[str, float]:
        """Return the loss of the first batch, without dropout and before training."""
        x, y = self.dataset()[0]
        loss, *_ = self.stage.evaluate(x, y, batch_size=self.batch_size, verbose=0)
        return {"loss": self.scale * loss}

    def train(self) -> dict[str, float]:
        """Train on every pair once and return the seconds."""
        began = time.perf_counter()
        self.stage.fit(self.dataset(), verbose=0, shuffle=False)
        return {"seconds": time.perf_counter() - began}

    def profile(self) -> dict[str, float]:
        """Return what the time of a few updates goes into."""
        import keras_msd as msd

        data = self.dataset()
        return msd.training.profile_updates(self.stage, data, min(8, len(data)))


if __name__ == "__main__":
    serve_methods(Ours, PACKAGES)
