"""What checksums, seals and limits cost of a run, from what it left.

    python benchmarks/seals.py runs/tiny12 --store STORE --json

Each file of a run and each vector of its stores is summed up once when it is written,
and once when a run goes on. Both are timed here on the files that are there, as are the
seals of the marks, and the limits of JSON files beside reading them without. --store
takes the stores that the run used, and no others.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_msd.checksums import checksum, read_sealed, sealed
from keras_msd.files import read_json, write_json

TIMES = 2  # a file is summed up: when it is written, and when a run goes on


def main() -> None:
    """Measure, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="the folder of a finished run")
    parser.add_argument("--store", type=Path, help="a store, or a folder of stores")
    parser.add_argument("--repeats", type=int, default=5, help="the least counts")
    parser.add_argument("--out", type=Path, help="write the object to this file, too")
    parser.add_argument("--json", action="store_true", help="print nothing but it")
    options = parser.parse_args()
    result = measured(options.run, options.store, options.repeats)
    if options.out:
        write_json(options.out, result)
    if not options.json:
        print(f"{result['percent']:.3f} % of {result['run_s']:.0f} s")
    print(json.dumps(result, indent=2))


def measured(run: Path, store: Path | None, repeats: int) -> dict[str, Any]:
    """Return bytes and seconds by kind, and their share of the run's seconds."""
    marks = {mark: mark.parent.name for mark in run.glob("stages/*/done.json")}
    records = {name: read_sealed(mark, name) or {} for mark, name in marks.items()}
    files = sorted({run / name for it in records.values() for name in it["files"]})
    stored: list[Path] = []
    for meta in store.rglob("store.json") if store else ():
        stored += [meta.with_name(name) for name in ("vectors.f32", "keys.b16")]
    tables = [path for path in run.rglob("*.json") if path.is_file()]

    def seal() -> None:
        for name, record in records.items():
            sealed(record, name)

    seconds = {
        "checksums_s": least(lambda: [*map(checksum, files)], repeats),
        "store_s": least(lambda: [*map(checksum, stored)], repeats),
        "seals_s": least(seal, repeats),
    }
    limited = least(lambda: [*map(read_json, tables)], repeats)
    plain = least(lambda: [json.loads(it.read_bytes()) for it in tables], repeats)
    seconds = {name: TIMES * value for name, value in seconds.items()}
    seconds["limits_s"] = max(0.0, limited - plain)
    run_s = read_json(run / "timings.json")["seconds"]
    return {
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
        "store_bytes": sum(path.stat().st_size for path in stored),
        **{name: round(value, 6) for name, value in seconds.items()},
        "run_s": run_s,
        "percent": round(100 * sum(seconds.values()) / run_s, 4),
    }


def least(work: Callable[[], Any], repeats: int) -> float:
    """Return the shortest time of some work, in seconds."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


if __name__ == "__main__":
    main()
