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

PYTHON has `sentence-transformers[train]`; by default the running one.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from teacher_parity import read_texts
from workers import Worker

HERE = Path(__file__).parent
RESULT = HERE / "results" / "training.json"
STAGES = {"teach_assistant": "MSELoss", "contrastive_learning": "MNRL"}
OURS, RANDOM, GROUPED = "ours", "peer as it comes", "peer, grouped by length"
TOLERANCE = 1e-5
TOKENS = 128
QUIET = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TOKENIZERS_PARALLELISM": "false",
}


def read_pairs(folder: Path, count: int) -> list[tuple[str, str]]:
    """Return pairs with distinct English lines, the files in turn."""
    texts, seen, pairs = read_texts(folder), set(), []
    while len(pairs) < count:
        pair = tuple(islice(texts, 2))
        if len(pair) < 2:
            raise SystemExit(f"only {len(pairs)} pairs in the data folder")
        if pair[0] not in seen:
            seen.add(pair[0])
            pairs.append(pair)
    return pairs


def ratios(seconds: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the peer's seconds by ours, of each stage and way."""
    return {
        stage: {way: round(spent[way] / spent[OURS], 3) for way in spent if way != OURS}
        for stage, spent in seconds.items()
    }


def measure(
    workers: dict[str, Worker], rounds: int, stages: list[str]
) -> dict[str, Any]:
    """Return losses of the first batch, seconds, and a profile of each stage."""
    losses, seconds, everything, profiles = {}, {}, {}, {}
    ours, peer = workers[OURS], workers["peer"]
    for stage in stages:
        batches = ours.ask(do="prepare", stage=stage)["batches"]
        peer.ask(do="prepare", stage=stage, batches=batches)
        losses[stage] = {
            name: worker.ask(do="loss")["loss"] for name, worker in workers.items()
        }
        threads = peer.ask(do="choose_threads")
        print(f"{stage}: losses {losses[stage]}, peer's {threads}", file=sys.stderr)
        turns = {
            OURS: lambda: ours.ask(do="train"),
            RANDOM: lambda: peer.ask(do="train", grouped=False),
            GROUPED: lambda: peer.ask(do="train", grouped=True),
        }
        spent: dict[str, list[float]] = {name: [] for name in turns}
        names = list(turns)
        for number in range(rounds + 1):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                took = turns[name]()["seconds"]
                if number:
                    spent[name].append(round(took, 3))
                print(f"{stage}: {name} {took:.1f} s", file=sys.stderr)
        seconds[stage] = {name: statistics.median(each) for name, each in spent.items()}
        everything[stage] = spent
        profiles[stage] = ours.ask(do="profile")
    found = {"losses": losses, "seconds": seconds, "rounds": everything}
    return found | {"profile": profiles}


def main() -> int:
    """Measure, write the result, print it; 1 if the first losses differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--pairs", type=int, default=1152)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--precision", default="float32", help="or bfloat16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stage", action="append", choices=STAGES)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    given = parser.parse_args()

    from keras_msd import load_teacher
    from keras_msd.io.files import write_json
    from keras_msd.teachers.teacher import default_folder

    began = time.monotonic()
    pairs = read_pairs(given.data, given.pairs)
    english = [source for source, _ in pairs]
    vectors = load_teacher("default").encode(english)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        job = Path(scratch) / "job.json"
        np.savez(job.with_name("vectors.npz"), sentences=english, vectors=vectors)
        about = {"folder": default_folder(), "pairs": pairs}
        about |= {"batch_size": given.batch_size, "precision": given.precision}
        about["tokens"] = TOKENS
        job.write_text(json.dumps(about), encoding="utf-8")
        workers = {
            name: stack.enter_context(
                Worker(
                    name,
                    [python, HERE / f"training_{name}.py", job],
                    Path(scratch) / f"{name}.log",
                    QUIET,
                )
            )
            for name, python in ((OURS, sys.executable), ("peer", given.peer_python))
        }
        packages = {name: worker.read() for name, worker in workers.items()}
        result = measure(workers, given.rounds, given.stage or list(STAGES))
    result |= {
        "ratio": ratios(result["seconds"]),
        "pairs": given.pairs,
        "batch_size": given.batch_size,
        "precision": given.precision,
        "packages": packages,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    write_json(given.out, result)
    for name, spent in result["seconds"].items():
        print(f"{name} against {STAGES[name]}")
        for way, took in spent.items():
            print(f"  {way:26} {took:7.2f} s  {took / spent[OURS]:5.2f}")
    if given.json:
        print(json.dumps(result, sort_keys=True))
    apart = [abs(each[OURS] - each["peer"]) for each in result["losses"].values()]
    return int(max(apart) > TOLERANCE)


if __name__ == "__main__":
    raise SystemExit(main())
