"""Give the commands files with a new user's mistakes, and time the answers.

    python benchmarks/bad_inputs.py

Each command runs in a process of its own, on files that are made for it. Prints a
row for each and writes benchmarks/results/bad_inputs.json. Exit code 1: a command did
not refuse its input, or ended in a traceback.
"""

import gzip
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_msd.io.files import write_json

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "bad_inputs.json"
SHORTER = "<folder>"  # in place of the temporary folder

ENGLISH, TURKISH = "The door is open and not shut, {}.", "Kapı açık, kapalı değil, {}."
HEAD = ("English", "Turkish")
ROWS = [(ENGLISH.format(n), TURKISH.format(n)) for n in range(300)]
SHIFTED = [(ROWS[0][0], target) for _, target in ROWS]


def table(rows: list[tuple[str, str]], mark: str = "\t") -> str:
    """Return the text of a table with a header."""
    return "".join(mark.join(row) + "\n" for row in [HEAD, *rows])


def column(side: int) -> str:
    """Return one side of the pairs, a sentence per line."""
    return "".join(f"{row[side]}\n" for row in ROWS)


# Of each mistake in a file of pairs: the file's name and content, and more options.
PAIRS: dict[str, tuple[str, str | bytes | None, tuple[str, ...]]] = {
    "missing": ("x.en-tr.tsv", None, ()),
    "empty": ("x.en-tr.tsv", "", ()),
    "header alone": ("x.csv", table([], ","), ()),
    "semicolons in a .tsv": ("x.en-tr.tsv", table(ROWS, ";"), ()),
    "UTF-16": ("x.en-tr.tsv", table(ROWS).encode("utf-16"), ()),
    "Latin-5": ("x.en-tr.tsv", table(ROWS).encode("iso-8859-9"), ()),
    "columns swapped": ("x.en-tr.tsv", table([row[::-1] for row in ROWS]), ()),
    "unknown language": ("x.tsv", table(ROWS), ("--language", "turk")),
    "one pair": ("x.csv", table(ROWS[:1], "\t"), ()),
    "sources equal": ("x.csv", table(SHIFTED, "\t"), ()),
}
LINES: dict[str, str | bytes | None] = {
    "missing": None,
    "empty": "",
    "UTF-16": column(1).encode("utf-16"),
    "Latin-5": column(1).encode("iso-8859-9"),
    "blank lines": "\n \n",
}
SETS: dict[str, tuple[str | bytes | None, str]] = {
    "missing": (None, "tur"),
    "empty": ("", "tur"),
    "header alone": ("English\n", "tur"),
    "UTF-16": (table(ROWS).encode("utf-16"), "tur"),
    "Latin-5": (table(ROWS).encode("iso-8859-9"), "tur"),
    "unknown language": (table(ROWS), "xyz"),
}
OF_PAIRS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "distil": lambda file: ("distil", file, "--out", "model"),
    "compare": lambda file: ("compare", "tiny12", "--pairs", file),
    "export --pairs": lambda file: ("export", "tiny12", "art", "--pairs", file),
}
OF_LINES: dict[str, Callable[[str], tuple[str, ...]]] = {
    "search": lambda file: ("search", "tiny12", "a door", file),
    "mine": lambda file: ("mine", file, "-e", "tiny12"),
    "embed --input": lambda file: ("embed", "tiny12", "--input", file),
    "trim --texts": lambda file: ("trim", "tiny12", "small", "--texts", file),
}


def main() -> None:
    """Run all, print a line for each, and write the result file."""
    rows = []
    for name, mistake, file, content, command in cases():
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder, file), content)
            row = {"command": name, "mistake": mistake, **run(folder, command)}
        print(
            f"{row['seconds']:6.2f} s {row['processor_seconds']:6.2f} s of a core  "
            f"exit {row['exit']}  {name}: {mistake}\n    {row['message']}",
            flush=True,
        )
        rows.append(row)
    bad = [row for row in rows if row["exit"] != 2 or row["traceback"]]
    summary = {
        "inputs": len(rows),
        "not_refused": len(bad),
        "tracebacks": sum(row["traceback"] for row in rows),
        "most_seconds": max(row["seconds"] for row in rows),
        "most_processor_seconds": max(row["processor_seconds"] for row in rows),
        "load_average": round(os.getloadavg()[0], 1),
    }
    print(summary)
    write_json(RESULT, {**summary, "rows": rows})
    sys.exit(bool(bad))


def cases() -> list[tuple[str, str, str, str | bytes | None, tuple[str, ...]]]:
    """Return command, mistake, file, content and arguments of each case."""
    found = []
    for name, with_file in OF_PAIRS.items():
        for mistake, (file, content, more) in PAIRS.items():
            if more and name == "export --pairs":  # it takes the name's language
                continue
            found.append((name, mistake, file, content, (*with_file(file), *more)))
    found.append(
        ("distil", "99 pairs", "x.csv", table(ROWS[:99]), OF_PAIRS["distil"]("x.csv"))
    )
    for name, with_file in OF_LINES.items():
        for mistake, text in LINES.items():
            if name == "embed --input" and mistake == "blank lines":
                continue  # each has a vector
            found.append((name, mistake, "x.txt", text, with_file("x.txt")))
    command = ("evaluate", "tiny12", "--data", ".", "--set", "tatoeba", "--languages")
    for mistake, (content, code) in SETS.items():
        file = "tatoeba.tur-eng.tsv.gz"
        found.append(("evaluate", mistake, file, content, (*command, code)))
    return found


def write(path: Path, content: str | bytes | None) -> None:
    """Write a file, compressed if its name says so; none without content."""
    if content is None:
        return
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def run(folder: str, arguments: tuple[str, ...]) -> dict[str, Any]:
    """Return how long a command took, how it ended and what it said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "keras_msd", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = sum(
        getattr(after, it) - getattr(before, it) for it in ("ru_utime", "ru_stime")
    )
    message = re.sub(r"^Distilling into .*\n", "", done.stderr).strip()
    return {
        "exit": done.returncode,
        "message": message.replace(folder, SHORTER)[-600:],
        "processor_seconds": round(used, 2),
        "seconds": round(seconds, 2),
        "traceback": "Traceback" in done.stderr,
    }


if __name__ == "__main__":
    main()
