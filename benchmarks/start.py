"""Seconds until the package is imported, and until an encoder has embedded a sentence.

Medians over processes of their own, the interpreter's start included, and processor
seconds of all their threads. Times depend on the machine and its load, so nothing else
should run. The peer is sentence-transformers with all-MiniLM-L6-v2, which has half of
small12's layers; PYTHON is one that has it.

    python benchmarks/start.py --peer-python PYTHON

It needs the packages of requirements-teacher.txt.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

from keras_msd.teachers.teacher import default_folder

PROCESSES = 9
EMBED = ".encode(['A sentence.'])"
STARTS = {
    "python alone": ("-c", "pass"),
    "import keras_msd": ("-c", "import keras_msd"),
    "keras-msd --help": ("-m", "keras_msd", "--help"),
    "keras-msd list": ("-m", "keras_msd", "list"),
    "keras-msd embed tiny12": ("-m", "keras_msd", "embed", "tiny12", "A sentence."),
}
LOADED = {
    "load_encoder, tiny12": "import keras_msd as m; m.load_encoder('tiny12')",
    "load_encoder, small12": "import keras_msd as m; m.load_encoder('small12')",
    "package of small12": "import keras_msd_small12 as m; m.load()",
    "small12 in Keras": (
        "import keras_msd as m; m.load_encoder('small12').keras_encoder"
    ),
}
STARTS |= {name: ("-c", code + EMBED) for name, code in LOADED.items()}
PEER = "from sentence_transformers import SentenceTransformer as Model; Model({!r})"


def seconds(command: list[str]) -> tuple[float, float]:
    """Return how long one process takes: on the clock, and of processors."""
    began, before = time.perf_counter(), os.times()
    subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    after = os.times()
    used = after.children_user - before.children_user
    used += after.children_system - before.children_system
    return time.perf_counter() - began, used


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer-python", help="of an environment with the peer")
    given = parser.parse_args()
    commands = {name: [sys.executable, *words] for name, words in STARTS.items()}
    if given.peer_python:
        code = PEER.format(str(default_folder())) + EMBED
        commands["sentence-transformers"] = [given.peer_python, "-c", code]
    print(f"{'start':24} {'seconds':>8} {'of processors':>14}")
    for name, command in commands.items():
        seconds(command)  # bytecode is compiled, files are in the cache
        times = [seconds(command) for _ in range(PROCESSES)]
        clock, used = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"{name:24} {clock:>8.2f} {used:>14.2f}", flush=True)


if __name__ == "__main__":
    main()
