"""How fast is training beside sentence-transformers, on the same model and pairs?

The model is all-MiniLM-L6-v2 (6 layers of width 384), the pairs are real ones of mixed
length, with vectors of English lines that are computed beforehand. Stage 1 stands
against MSELoss, stage 4 with the authors' hard targets and nothing else against
MultipleNegativesRankingLoss, which is the same formula. The peer trains with
SentenceTransformerTrainer in two ways: as it comes, in random batches, padded to their
longest; and with our batches, grouped by length, and the threads that suit it best.

A time is that of a pass over all pairs from texts and vectors to updated weights, after
one that is not counted (TensorFlow traces the step in it). Systems take turns; times
are medians. Texts are cut at 128 tokens. In an environment with the default teacher:

    python benchmarks/training.py --data DATA --peer-python PYTHON --json

PYTHON has `sentence-transformers[train]`; by default the running one. `--isa avx2`
leaves AVX-512 unused on both sides. Exit code 1: the losses of the first batch differ.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from corpora import pairs
from workers import LIMITS, Worker, serve

RESULT = Path(__file__).parent / "results" / "training.json"
STAGES = {"teach_assistant": "MSELoss", "contrastive_learning": "MNRL"}
OURS, PEER = "ours", "peer"
RANDOM, GROUPED = "peer as it comes", "peer, grouped by length"
TOLERANCE = 1e-5
TOKENS, BATCH, RATE = 128, 64, 2e-5
TRIAL = 4  # batches on which numbers of threads are compared


class Ours:
    """Trains a copy of the model with a stage.

    Args:
        job: File with the model's folder, pairs and precision.
    """

    packages = ("tensorflow", "keras", "keras-hub", "numpy")

    def __init__(self, job: Path) -> None:
        import keras_msd as msd
        from keras_msd.training.profile import computing_in

        about = json.loads(job.read_text(encoding="utf-8"))
        self.pairs = [msd.data.Pair(*pair, "xx") for pair in about["pairs"]]
        with computing_in(about["precision"]):
            self.encoder = msd.load_encoder(about["folder"])
        self.weights = self.encoder.model.get_weights()
        self.folder = Path(tempfile.mkdtemp())
        guide = msd.load_teacher(job.with_name("vectors.npz"))
        self.guides = {"teacher": (msd.data.GuideStore(guide, job.parent), "source")}

    def dataset(self) -> Any:
        """Return batches of all pairs, made from texts and stored vectors."""
        import keras_msd as msd

        shutil.rmtree(self.folder, ignore_errors=True)
        return msd.data.PairBatches(
            self.pairs,
            self.encoder,
            self.guides,
            batch_size=BATCH,
            max_length=TOKENS,
            epochs=1,
            folder=self.folder,
        )

    def prepare(self, stage: str) -> dict[str, Any]:
        """Make a stage with the first weights.

        Returns:
            `batches`: the pairs of each; `loss`: of the first, without dropout.
        """
        import keras_msd as msd

        self.encoder.model.set_weights(self.weights)
        if stage == "teach_assistant":
            self.stage: Any = msd.stages.TeachAssistant(self.encoder)
            scale = 0.5  # the peer takes the mean over both sides, not their sum
        else:
            self.stage = msd.stages.ContrastiveLearning(
                self.encoder, "ce_hard", contrastive_weight=1, kd_weight=0
            )
            scale = 1.0
        steps = len(self.pairs) // BATCH
        self.stage.compile(msd.training.make_optimizer(learning_rate=RATE, steps=steps))
        batches = self.dataset()
        rows = [batches.rows(number) for number in range(len(batches))]
        place = {pair.source: number for number, pair in enumerate(self.pairs)}
        lines = [text for one in batches.table.texts.chunks("source") for text in one]
        loss, *_ = self.stage.evaluate(*batches[0], batch_size=BATCH, verbose=0)
        numbers = [[place[lines[row]] for row in one] for one in rows]
        return {"batches": numbers, "loss": scale * loss}

    def train(self) -> float:
        """Train on every pair once and return the seconds."""
        began = time.perf_counter()
        self.stage.fit(self.dataset(), verbose=0, shuffle=False)
        return time.perf_counter() - began


class Peer:
    """Trains a copy of the model with SentenceTransformerTrainer.

    Args:
        job: File with the model's folder, pairs and precision.
    """

    packages = ("sentence-transformers", "transformers", "torch", "accelerate")

    def __init__(self, job: Path) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        self.default = torch.get_num_threads()
        self.about = json.loads(job.read_text(encoding="utf-8"))
        self.vectors = np.load(job.with_name("vectors.npz"))["vectors"]
        self.model = SentenceTransformer(self.about["folder"], device="cpu")
        self.model.max_seq_length = TOKENS
        self.weights = {
            name: value.clone() for name, value in self.model.state_dict().items()
        }
        self.scratch = tempfile.mkdtemp()

    def prepare(self, stage: str, batches: list[list[int]]) -> dict[str, float]:
        """Make the loss and the rows.

        Args:
            stage: A key of `STAGES`.
            batches: The pairs of each of our batches.

        Returns:
            `loss`: of the first batch, without dropout; `threads`: the number that
            trains fastest on a few batches.
        """
        import torch
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
        loss = self._loss()
        times = {}
        for threads in sorted({1, os.cpu_count() or 1, self.default}):
            torch.set_num_threads(threads)
            times[threads] = self._seconds(self.batches[:TRIAL])
        self.best = min(times, key=times.__getitem__)
        return {"loss": loss, "threads": self.best}

    def _loss(self) -> float:
        import torch

        rows = self.dataset[self.batches[0]]
        sides = [self.model.preprocess(rows[name]) for name in ("english", "other")]
        labels = torch.tensor(rows["label"]) if "label" in rows else None
        self.model.eval()
        with torch.no_grad():
            loss = self.criterion(sides, labels)
        self.model.train()
        return float(loss)

    def train(self, grouped: bool) -> float:
        """Train on every pair once and return the seconds."""
        import torch

        torch.set_num_threads(self.best if grouped else self.default)
        return self._seconds(self.batches if grouped else None)

    def _seconds(self, batches: list[list[int]] | None) -> float:
        from sentence_transformers import (
            SentenceTransformerTrainer,
            SentenceTransformerTrainingArguments,
        )
        from sentence_transformers.sampler import DefaultBatchSampler
        from sentence_transformers.training_args import BatchSamplers

        class Given(DefaultBatchSampler):  # type: ignore[misc]
            def __iter__(self) -> Any:
                return iter(batches or ())

            def __len__(self) -> int:
                return len(batches or ())

        sampler = BatchSamplers.BATCH_SAMPLER if batches is None else Given
        began = time.perf_counter()
        SentenceTransformerTrainer(
            model=self.model,
            args=SentenceTransformerTrainingArguments(
                output_dir=self.scratch,
                num_train_epochs=1,
                per_device_train_batch_size=BATCH,
                learning_rate=RATE,
                warmup_steps=0.1,
                batch_sampler=sampler,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                use_cpu=True,
                bf16=self.about["precision"] == "bfloat16",
            ),
            train_dataset=self.dataset,
            loss=self.criterion,
        ).train()
        return time.perf_counter() - began


def measure(workers: dict[str, Worker], rounds: int, stages: list[str]) -> Any:
    """Return losses of the first batch and seconds, of each stage."""
    found: dict[str, Any] = {"losses": {}, "seconds": {}, "rounds": {}, "ratio": {}}
    ours, peer = workers[OURS], workers[PEER]
    for stage in stages:
        made = ours.ask("prepare", stage=stage)
        other = peer.ask("prepare", stage=stage, batches=made["batches"])
        found["losses"][stage] = {OURS: made["loss"], PEER: other["loss"]}
        turns = {
            OURS: partial(ours.ask, "train"),
            RANDOM: partial(peer.ask, "train", grouped=False),
            GROUPED: partial(peer.ask, "train", grouped=True),
        }
        spent: dict[str, list[float]] = {name: [] for name in turns}
        names = list(turns)
        for number in range(rounds + 1):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                spent[name].append(round(turns[name](), 3))
                print(f"{stage}: {name} {spent[name][-1]} s", file=sys.stderr)
        found["rounds"][stage] = {name: each[1:] for name, each in spent.items()}
        medians = {name: statistics.median(each[1:]) for name, each in spent.items()}
        found["seconds"][stage] = medians
        found["ratio"][stage] = {
            name: round(medians[name] / medians[OURS], 3) for name in (RANDOM, GROUPED)
        }
    return found


def main() -> int:
    """Measure, write the result, print it; 1 if the first losses differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--pairs", type=int, default=1152)
    parser.add_argument("--precision", default="float32", help="or bfloat16")
    parser.add_argument("--isa", choices=LIMITS, default="all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="write the result file")
    given = parser.parse_args()
    os.environ |= LIMITS[given.isa]

    from keras_msd import load_teacher
    from keras_msd.io.files import write_json
    from keras_msd.teachers.teacher import default_folder

    about = {"folder": default_folder(), "precision": given.precision}
    about["pairs"] = pairs(given.data, given.pairs)
    english = [source for source, _ in about["pairs"]]
    vectors = load_teacher("default").encode(english)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        job = Path(name) / "job.json"
        np.savez(job.with_name("vectors.npz"), sentences=english, vectors=vectors)
        job.write_text(json.dumps(about), encoding="utf-8")
        workers = {}
        for side, python in ((OURS, sys.executable), (PEER, given.peer_python)):
            command = [python, __file__, "--worker", side, job]
            worker = Worker(command, job.with_name(f"{side}.log"))
            workers[side] = stack.enter_context(worker)
        result = measure(workers, given.rounds, given.stages)
        result["packages"] = {side: it.packages for side, it in workers.items()}
    result |= {
        "pairs": given.pairs,
        "batch_size": BATCH,
        "precision": given.precision,
        "isa": given.isa,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    if given.json:
        write_json(given.out, result)
    for stage, spent in result["seconds"].items():
        print(f"{stage} against {STAGES[stage]}, seconds: {spent}")
    print(json.dumps(result["ratio"]))
    apart = [abs(each[OURS] - each[PEER]) for each in result["losses"].values()]
    return int(not all(it <= TOLERANCE for it in apart))  # NaN is no result


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        side, job = sys.argv[2:]
        kind = {OURS: Ours, PEER: Peer}[side]
        serve(partial(kind, Path(job)), kind.packages)
    else:
        raise SystemExit(main())
