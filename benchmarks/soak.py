"""Long use from many threads: `encode` and each artefact format.

Calls have one to four texts of mixed lengths. Every answer is compared with the one
that a single thread got for the same texts; private memory is sampled. Each subject has
a process of its own, and goes on until both --minutes and --calls are over.

    python benchmarks/soak.py runs/demo/student
    python benchmarks/soak.py runs/demo/student --minutes 0.1 --calls 200

Prints one JSON object: for each subject `calls`, `wrong` (answers that differ by more
than 1e-5), `failed` (calls that raised), `largest` difference, `p50_ms`, `p99_ms`, and
private memory in MiB after a tenth of the time, at the end and at most. `mib_grown` is
what the end has more, less the times of the calls that this program keeps itself. A
format that the encoder cannot have is `refused`, with the reason. Exit code 1: an
answer is wrong, a call raised, or memory grew by more than 4 MiB in a minute or more.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from workers import private_bytes

import keras_msd as msd
from keras_msd.data import example_pairs
from keras_msd.export import FORMATS
from keras_msd.io.files import write_json

TOLERANCE = 1e-5
TEXTS, LONGEST, GROUPS = 400, 12, 200  # the longest text is so many sentences
SUBJECTS = ["encode", *FORMATS]
GROWN_MIB = 4.0
JUDGED_S = 60.0  # what is shorter has not settled after a tenth of the time
TIME_BYTES = 8  # of a call, in an array: a list would grow as a leak does


def groups_of_texts() -> list[list[str]]:
    """Return what calls are made with: one to four texts of one to many sentences."""
    draw = random.Random(0)
    pairs = draw.sample(example_pairs(), TEXTS)
    sentences = [text for pair in pairs for text in (pair.source, pair.target)]

    def text() -> str:
        return " ".join(draw.choices(sentences, k=min(LONGEST, draw.randint(1, 24))))

    return [[text() for _ in range(draw.randint(1, 4))] for _ in range(GROUPS)]


def soak(
    call: Callable[[list[str]], np.ndarray],
    groups: Sequence[list[str]],
    threads: int,
    seconds: float,
    calls: int,
) -> dict[str, Any]:
    """Call from many threads, until both time and number are over; compare all answers.

    Args:
        call: From texts to numbers.
        groups: Texts of single calls.
        threads: Threads that call at once.
        seconds: Shortest time.
        calls: Fewest calls, of all threads together.
    """
    wanted = [call(group) for group in groups]
    times = [array("d") for _ in range(threads)]
    largest, wrong, failed = [0.0] * threads, [0] * threads, [0] * threads
    memory = [(0.0, private_bytes())]
    began = time.monotonic()

    def over() -> bool:
        done = sum(map(len, times))
        return time.monotonic() - began >= seconds and done >= calls

    def work(place: int) -> None:
        draw = random.Random(place)
        while not over():
            number = draw.randrange(len(groups))
            start = time.perf_counter()
            try:
                answer = call(groups[number])
            except Exception as error:  # what it is goes to stderr, that it was counts
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
                failed[place] += 1
                answer = wanted[number]
            times[place].append(time.perf_counter() - start)
            if answer.shape != wanted[number].shape:
                wrong[place] += 1
                continue
            gap = float(np.abs(answer - wanted[number]).max())
            largest[place] = max(largest[place], gap)
            wrong[place] += not gap <= TOLERANCE  # NaN is wrong, too

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        time.sleep(min(1.0, seconds / 50 + 0.01))
        memory.append((time.monotonic() - began, private_bytes()))
    took = time.monotonic() - began
    memory.append((took, private_bytes()))
    milliseconds = np.sort([1e3 * one for many in times for one in many])
    end = mib([size for at, size in memory if at >= 0.9 * took])
    early = [size for at, size in memory if took / 10 <= at <= took / 5]
    settled = mib(early) if early else end
    # Both are medians, about 0.15 and 0.95 of the time: 0.8 of the calls between.
    own = 0.8 * len(milliseconds) * TIME_BYTES / 2**20
    return {
        "calls": len(milliseconds),
        "seconds": round(took, 1),
        "wrong": sum(wrong),
        "failed": sum(failed),
        "largest": max(largest),
        "p50_ms": round(float(np.quantile(milliseconds, 0.5)), 2),
        "p99_ms": round(float(np.quantile(milliseconds, 0.99)), 2),
        "mib_settled": settled,
        "mib_end": end,
        "mib_peak": mib([max(size for _, size in memory)]),
        "mib_grown": round(end - settled - own, 1),
    }


def mib(sizes: Sequence[int]) -> float:
    """Return the median of sizes in bytes, in MiB."""
    return round(statistics.median(sizes) / 2**20, 1)


def is_bad(found: dict[str, Any]) -> bool:
    """Tell whether a subject gave what it must not, or grew by more than it may."""
    grew = found.get("seconds", 0.0) >= JUDGED_S and found["mib_grown"] > GROWN_MIB
    return bool(found.get("wrong") or found.get("failed") or grew)


def subject(name: str, folder: Path, options: Any) -> Callable[[list[str]], np.ndarray]:
    """Return what is called, made in a folder.

    Raises:
        InputError: The encoder cannot have the format.
    """
    encoder = msd.load_encoder(options.encoder)
    if name != "encode":
        given = {"quantize": options.quantize, "format": name}
        if name == "huggingface":  # what threads share is ONNX
            given = {"format": name, "leave_out": ["weights"]}
        encoder = msd.load_encoder(encoder.export(folder / name, **given))
    return lambda texts: encoder.encode(texts, progress=False)


def alone(name: str, options: Any) -> dict[str, Any]:
    """Return the figures of one subject, or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            call = subject(name, Path(folder), options)
        except msd.InputError as error:
            return {"refused": str(error)}
        seconds = 60 * options.minutes
        return soak(call, groups_of_texts(), options.threads, seconds, options.calls)


def main() -> int:
    """Run each subject, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", help="a saved encoder")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=10, help="at the least, each")
    parser.add_argument("--calls", type=int, default=100_000, help="at the least, each")
    parser.add_argument("--quantize", help="fp16, int8, ...; else float32")
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, default=SUBJECTS)
    parser.add_argument("--out", type=Path, help="write what was found to this file")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # within its own process
    options = parser.parse_args()
    if options.one:
        print(json.dumps(alone(options.one, options)))
        return 0
    found: dict[str, Any] = {}
    for name in options.only:
        command = [sys.executable, __file__, *sys.argv[1:], "--one", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        lines = done.stdout.splitlines() if done.returncode == 0 else []
        found[name] = json.loads(lines[-1]) if lines else {"failed": done.returncode}
        print(name, found[name], file=sys.stderr, flush=True)
    if options.out:
        write_json(options.out, found)
    print(json.dumps(found, indent=2))
    return int(any(map(is_bad, found.values())))


if __name__ == "__main__":
    sys.exit(main())
