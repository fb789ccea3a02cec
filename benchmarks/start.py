"""Seconds until the package is imported and until short commands have ended.

Medians over processes of their own, the interpreter's start included. Times depend on
the machine and its load, so nothing else should run.

    python benchmarks/start.py
"""

import statistics
import subprocess
import sys
import time

PROCESSES = 9
STARTS = {
    "python alone": ("-c", "pass"),
    "import keras_msd": ("-c", "import keras_msd"),
    "keras-msd --help": ("-m", "keras_msd", "--help"),
    "keras-msd list": ("-m", "keras_msd", "list"),
    "keras-msd embed tiny12": ("-m", "keras_msd", "embed", "tiny12", "A sentence."),
}


def seconds(arguments: tuple[str, ...]) -> float:
    """Return how long one process takes."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> None:
    """Print the table."""
    print(f"{'start':22} {'seconds':>7}")
    for name, arguments in STARTS.items():
        seconds(arguments)  # bytecode is compiled, files are in the cache
        times = [seconds(arguments) for _ in range(PROCESSES)]
        print(f"{name:22} {statistics.median(times):>7.2f}")


if __name__ == "__main__":
    main()
