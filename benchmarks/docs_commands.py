"""Run what the pages show: every shell command and every block of Python.

    python benchmarks/docs_commands.py --data DATA
    python benchmarks/docs_commands.py --data DATA --only docs/search.md

All run one after the other, each in a process of its own, in one folder, which has at
first a few sentences, the files that the pages name, and beginnings of the corpora in
DATA. A block of Python that lacks a name runs after the earlier blocks of its page.
What takes minutes runs at smoke size (`SMALLER`); what needs a network, a GPU, a person
or a package that is not installed is named with the reason (`NOT_RUN`). Writes the
result file benchmarks/results/docs_commands.json. Exit code 1: one failed.
"""

import argparse
import csv
import gzip
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError
from keras_msd.data import example_pairs
from keras_msd.io.files import read_json, write_json

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "docs_commands.json"
# What the others use comes first: runs/demo, runs/backbone, runs/smoke, own.toml.
FIRST = ["README.md", "docs/tutorial.md", "docs/own_data.md"]
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = "python benchmarks/docs_commands.py --data DATA"
SHELL, LIMIT = ("sh", "bash"), 900  # seconds
PRINTED = ".printed"  # of the command at work
# A server that has imported what most of the time would else go into.
FORKS = multiprocessing.get_context("forkserver")

NOT_RUN = {
    r"^pip install": "installs packages",
    r"^source ": "activates an environment",
    r"^keras-msd push": "needs an account of the hub",
    r"hf://datasets": "needs the hub",
    r"^keras-msd compare .*(?:hf|http)://": "needs the hub or a server",
    r"--set sts2017": "needs a set that is fetched from its home",
    r"^docker ": "needs Docker",
    r"^(?:\w+=\w+ )?keras-msd serve": "is a server: see benchmarks/serve.py",
    r"^llama-server|^ollama |^curl ": "needs a server of others",
    r"gpu/|gpu\.sh|^mkdir gpu|^python3 -m keras_msd": "needs a machine with a GPU",
    r"npm install|^node |http\.server": "needs npm: see benchmarks/javascript_check.py",
}
SMALLER = {
    "keras-msd run msd_stages": "keras-msd run msd_tradeoffs",  # a dozen students
    " --scale backbone --data DATA": " --scale smoke",
    r"bottleneck_dim=128 --out": "bottleneck_dim=8 --out",
    r"^make demo$": "keras-msd run demo --scale smoke --out runs/demo",
    r"^(keras-msd run msd_\w+)( --scale lab)? --data DATA": r"\1 --scale smoke",
    # Steps that several commands begin with are done once.
    r"^(keras-msd run (?!.*--share).*)": r"\1 --store store --share",
    r"^(keras-msd run own.toml .*)": r"\1 --set stages.teach_assistant.steps=2 "
    "--set stages.align_embedding.steps=2 --set stages.contrastive_learning.steps=2",
    r"( --set stages.teach_student.steps=)600": r"\g<1>2",
    r"^(keras-msd run own.toml (?!.*teach_student).*)": r"\1 "
    "--set stages.teach_student.steps=2",
    r"^keras-msd run-all .*": "keras-msd run-all msd_minilm_b128_ru3 --scale smoke",
    r"^(keras-msd distil .*)": r"\1 --updates 2",
    r"--limit 50000 --updates 3000 --pieces 8000": "--limit 600 --updates 20 "
    "--pieces 800",
    r"^(python examples/distil_and_search.py out)$": r"\1 --limit 600 --updates 20 "
    "--pieces 700",
    r"^(python examples/fine_tune.py .*)": r"\1 --epochs 1",
    # A student of smoke size loses more than a trained one.
    r"^(python examples/export_and_use.py .*)": r"\1 --quantize fp16",
    r"^(keras-msd export .*--quantize int.*)": r"\1 --max-sts-loss 100 "
    "--min-cosine 0 --min-neighbours 0",
}
# What pages name and leave to the reader.
YOURS = """
import keras_msd as msd
from keras_msd.data import example_pairs
pairs = example_pairs(["de"])
sources, translations = [[pair[side] for pair in pairs] for side in (0, 1)]
texts, encoder = sources, msd.load_encoder("tiny12")
"""
MISSING = re.compile(r"No module named '(\w+)|needs the package `([\w-]+)`")


def main() -> int:
    """Run all, print each line as it ends and write the result file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    parser.add_argument("--only", nargs="+", help="pages; others keep their rows")
    options = parser.parse_args()
    FORKS.set_forkserver_preload(["tensorflow", "keras", "keras_msd.cli"])
    names = pages()
    if unknown := set(options.only or ()) - set(names):
        raise InputError(f"No such page: {', '.join(unknown)}. Give of: {names}.")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepare(folder, options.data)
        rows = read_json(RESULT)["rows"] if options.only and RESULT.exists() else []
        for page in options.only or names:
            rows = [row for row in rows if row["page"] != page]
            ran = shown = YOURS
            for text, is_python in things(ROOT / page):
                before = (YOURS, ran, shown) if is_python else ()
                rows.append({"page": page} | tried(text, before, folder))
                if is_python:
                    shown += text
                    ran += text if rows[-1].get("exit") == 0 else ""
                state = rows[-1].get("not_run") or "{seconds} s, exit {exit}"
                print(f"{page}: {rows[-1]['command']}")
                print(f"    {state.format(**rows[-1])}", flush=True)
                if rows[-1].get("exit"):
                    print((folder / PRINTED).read_text("utf-8", "replace")[-2000:])
            rows.sort(key=lambda row: names.index(row["page"]))
            failed = sum(bool(row.get("exit")) for row in rows)
            write_json(RESULT, {"command": COMMAND, "failed": failed, "rows": rows})
    return int(failed > 0)


def pages() -> list[str]:
    """Return the pages with commands for users, in the order that they are run in."""
    globs = "README.md", "docs/*.md", "export/**/*.md", "recipes/*.md"
    found = [path for it in globs for path in ROOT.glob(it)]
    names = sorted(it.relative_to(ROOT).as_posix() for it in found)
    return FIRST + [name for name in names if name not in FIRST]


def things(page: Path) -> Iterator[tuple[str, bool]]:
    """Yield each command and each block of Python, with whether it is Python."""
    for language, text in FENCE.findall(page.read_text(encoding="utf-8")):
        if language in SHELL:
            lines = text.replace("\\\n", " ").splitlines()
            yield from ((line.split("  #")[0].strip(), False) for line in lines)
        elif language == "python":
            yield text, True


def tried(text: str, before: Sequence[str], folder: Path) -> dict[str, Any]:
    """Return what a command or a block gave, or why it was not run.

    Args:
        text: It.
        before: Beginnings of a block of Python, each tried if it lacks a name after the
            one before: what readers have, the blocks that ran, all. None: a command.
        folder: Where it runs.
    """
    is_python = bool(before)
    row: dict[str, Any] = {"command": text.splitlines()[0] if is_python else text}
    for pattern, reason in NOT_RUN.items():
        if not is_python and re.search(pattern, text):
            return row | {"not_run": reason}
    small = smaller(text)
    if small != text and not is_python:
        row["as"] = small
    run = re.match(r"keras-msd run (\S+)(?:.*--out (\S+))?", small)
    if run and "--repair" not in small:  # other options: another way, not the same run
        out = run[2] or f"runs/{run[1]}"
        shutil.rmtree(folder / out, ignore_errors=True)
    log = folder / PRINTED
    began = time.perf_counter()
    alone = re.search(r"--(backend|devices)", small)  # chosen before Keras is there
    if is_python or small.startswith("keras-msd") and not alone:
        for first in before or ("",):
            given = first + small, is_python, folder, log
            child = FORKS.Process(target=within, args=given)
            child.start()
            child.join(LIMIT)
            child.kill()
            child.join()
            code = child.exitcode
            if not code or "NameError" not in log.read_text("utf-8", "replace"):
                break
    else:
        line = re.sub(r"^keras-msd", "python -m keras_msd", small)
        here = str(Path(sys.executable).parent), os.environ["PATH"]
        settings = {"PYTHONPATH": str(ROOT), "PATH": ":".join(here)}
        with log.open("w") as file:
            code = subprocess.run(
                ["timeout", str(LIMIT), "bash", "-c", line],  # noqa: S607
                cwd=folder,
                env=os.environ | settings,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            ).returncode
    missing = MISSING.search(log.read_text("utf-8", "replace")) if code else None
    if missing:
        return row | {"not_run": f"needs the package {missing[1] or missing[2]}"}
    return row | {"seconds": round(time.perf_counter() - began, 1), "exit": code}


def within(text: str, is_python: bool, folder: Path, log: Path) -> None:
    """Run a block of Python or a command of ours in this process."""
    os.chdir(folder)
    with log.open("w") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    if is_python:
        exec(compile(text, "page", "exec"), {"__name__": "__main__"})  # noqa: S102
    else:
        from keras_msd.cli import main

        main(shlex.split(text, comments=True)[1:])


def smaller(text: str) -> str:
    """Return a command, a block or a recipe at smoke size."""
    for pattern, instead in SMALLER.items():
        text = re.sub(pattern, instead, text)
    return text


def prepare(folder: Path, data: Path) -> None:
    """Write what the pages name, and beginnings of the corpora as DATA."""
    pairs = example_pairs(["de"])
    pairs = list(dict.fromkeys(pairs))
    english, german = ([f"{p[side]}\n" for p in pairs] for side in (0, 1))
    rows = [f"{pair.source}\t{pair.target}\n" for pair in pairs]
    # Of what a student of smoke size makes a threshold: words that are alike.
    alike = [f"{word}\t{word}\n" for word in ("Radio", "Hotel", "Taxi")]
    files = {
        "sentences.txt": english,
        "english.txt": english[:200],
        "german.txt": german[:200],
        "notes.md": german[:100],
        "faq.txt": english[:100],
        "held_out.en-de.tsv": alike,
        "help.en-de.tsv": rows,
        "help.en-nl.tsv": rows,
    }
    for side, kind in enumerate(("queries", "passages")):
        texts = (f"{row}\t{pair[side]}\n" for row, pair in enumerate(pairs))
        files[f"DATA/retrieval/faq.de.{kind}.tsv"] = list(texts)
    judged = [f"{row}\t{row}\t1\n" for row in range(len(pairs))]
    files["DATA/retrieval/faq.de.qrels.tsv"] = judged
    (folder / "DATA/retrieval").mkdir(parents=True)
    for name, lines in files.items():
        (folder / name).write_text("".join(lines), encoding="utf-8")
    tables: dict[str, list[Any]] = {
        "faq.csv": [["text"], *([line.strip()] for line in english[:100])],
        "pairs.csv": [["en", "de"], *(pair[:2] for pair in pairs)],
    }
    for name, cells in tables.items():
        with (folder / name).open("w", encoding="utf-8", newline="") as handle:
            csv.writer(handle).writerows(cells)
    with gzip.open(folder / "news.en-de.tsv.gz", "wt", encoding="utf-8") as file:
        file.writelines(rows)
    linked = (
        "examples",
        "export",
        "tools",
        "README.md",
        "keras_msd/export/sentences.txt",
    )
    for name in linked:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(ROOT / name)
    page = (ROOT / "docs/own_data.md").read_text(encoding="utf-8")
    (recipe,) = (text for kind, text in FENCE.findall(page) if kind == "toml")
    recipe = recipe.replace("vocabulary_size = 8000", "vocabulary_size = 2000")
    (folder / "own.toml").write_text(smaller(recipe), encoding="utf-8")
    for pattern, count in (("parallel/*/*.en-nl.*", 300), ("sts/*", 100)):
        cut(data, folder / "DATA", pattern, count)
    cut(data, folder / "DATA", "tatoeba/*", 100)


def cut(data: Path, out: Path, pattern: str, count: int) -> None:
    """Copy the first rows of each file."""
    for path in sorted(data.glob(pattern)):
        target = out / path.relative_to(data)
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            gzip.open(path, "rt", encoding="utf-8", newline="\n") as file,
            gzip.open(target, "wt", encoding="utf-8", newline="\n") as copy,
        ):
            copy.writelines(islice(file, count))


if __name__ == "__main__":
    sys.exit(main())
