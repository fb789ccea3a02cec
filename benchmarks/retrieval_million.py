"""Exact search of 10,000 queries among 1,000,000 candidates, beside plain NumPy.

Candidates are seeded unit vectors of width 384 in a file, which both systems map into
memory. Three of them are planted for each query, at cosines that no other candidate
comes near, so that its first three neighbours are known. Plain NumPy takes the maximum
of `queries @ candidates.T`, some queries at a time; ours finds the first three. Each
runs in a process of its own, whose private memory is sampled.

    python benchmarks/retrieval_million.py                       # some minutes
    python benchmarks/retrieval_million.py --queries 500 --candidates 50000
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from memory_epoch import Peak

from keras_msd.evaluate.nearest import top_k
from keras_msd.io.files import write_json

RESULT = Path(__file__).parent / "results" / "retrieval_million.json"
PLANTED = (0.9, 0.8, 0.7)  # cosines; among drawn ones of width 384 few reach 0.3
BLOCK = 50_000


def units(draw: np.random.Generator, count: int, width: int) -> np.ndarray:
    """Return drawn float32 vectors of length one."""
    vectors = draw.standard_normal((count, width), np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def make(folder: Path, queries: int, candidates: int, width: int, seed: int) -> None:
    """Write queries, candidates, and the rows of the planted ones by rank."""
    draw = np.random.default_rng(seed)
    asked = units(draw, queries, width)
    table = np.lib.format.open_memmap(
        folder / "candidates.npy", "w+", np.float32, (candidates, width)
    )
    for start in range(0, candidates, BLOCK):
        table[start : start + BLOCK] = units(
            draw, len(table[start : start + BLOCK]), width
        )
    rows = draw.permutation(candidates)[: queries * len(PLANTED)].reshape(queries, -1)
    for rank, cosine in enumerate(PLANTED):
        other = units(draw, queries, width)
        other -= (other * asked).sum(axis=1, keepdims=True) * asked
        other /= np.linalg.norm(other, axis=1, keepdims=True)
        table[rows[:, rank]] = cosine * asked + np.sqrt(1 - cosine**2) * other
    table.flush()
    np.save(folder / "queries.npy", asked)
    np.save(folder / "planted.npy", rows)


def plain(queries: np.ndarray, candidates: np.ndarray, rows: int) -> np.ndarray:
    """Return the nearest candidate of each query, `rows` queries at a time."""
    return np.concatenate(
        [
            (queries[start : start + rows] @ candidates.T).argmax(axis=1)
            for start in range(0, len(queries), rows)
        ]
    )[:, None]


def search(system: str, folder: Path, rows: int) -> dict[str, Any]:
    """Search with one system in this process; return its time and memory."""
    queries = np.load(folder / "queries.npy")
    candidates = np.load(folder / "candidates.npy", mmap_mode="r")
    peak = Peak()
    start, began = peak.take(), time.perf_counter()
    if system == "numpy":
        found = plain(queries, candidates, rows)
    else:
        found = top_k(queries, candidates, len(PLANTED))[1]
    seconds, most = time.perf_counter() - began, peak.take()
    np.save(folder / f"{system}.npy", found)
    return {
        "seconds": round(seconds, 2),
        "peak_bytes": most,
        "peak_bytes_above_start": most - start,
    }


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run every system in a fresh process; compare what they found."""
    make(folder, given.queries, given.candidates, given.width, given.seed)
    systems: dict[str, dict[str, Any]] = {
        "numpy": {"does": f"argmax of q @ C.T, {given.plain_rows} queries at a time"},
        "keras_msd": {"does": "top_k"},
    }
    found = {}
    for system, facts in systems.items():
        command = [sys.executable, __file__, "--plain-rows", str(given.plain_rows)]
        command += ["--system", system, "--folder", str(folder)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        facts |= json.loads(done.stdout.splitlines()[-1])
        found[system] = np.load(folder / f"{system}.npy")
    planted = np.load(folder / "planted.npy")
    first = found["numpy"][:, 0]
    for system in systems.keys() - {"numpy"}:
        same = int((found[system][:, 0] == first).sum())
        ranks = (found[system] == planted).mean(axis=0)
        systems[system]["same_top1_as_numpy"] = same
        systems[system]["planted_at_their_rank"] = ranks.tolist()
    return {
        "queries": given.queries,
        "candidates": given.candidates,
        "width": given.width,
        "seed": given.seed,
        "planted_cosines": PLANTED,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "numpy_version": np.__version__,
        "systems": systems,
    }


def main() -> None:
    """Measure, print and write the result; end with 1 if anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--candidates", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain-rows", type=int, default=256)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--system", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.system:
        print(json.dumps(search(given.system, given.folder, given.plain_rows)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        result = measure(given, Path(temporary))
    write_json(given.out, result)
    right = True
    for system, facts in result["systems"].items():
        peak, own = facts["peak_bytes"] / 2**20, facts["peak_bytes_above_start"] / 2**20
        line = f"{system:10} {facts['seconds']:8.1f} s, peak {peak:.0f} MiB, "
        line += f"{own:.0f} of it for the search ({facts['does']})"
        if system != "numpy":
            same, ranks = facts["same_top1_as_numpy"], facts["planted_at_their_rank"]
            right &= same == given.queries and ranks == [1.0] * len(PLANTED)
            line += f"; {same} of {given.queries} top-1 as NumPy; planted at their "
            line += f"rank: {', '.join(f'{100 * share:g} %' for share in ranks)}"
        print(line, file=sys.stderr if given.json else sys.stdout)
    if given.json:
        print(json.dumps(result, indent=2, sort_keys=True))
    sys.exit(not right)


if __name__ == "__main__":
    main()
