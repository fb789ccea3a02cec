"""Packs what a recipe needs on a machine with JAX alone; called by gpu.sh."""

import argparse
import lzma
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd.checks import InputError
from keras_msd.files import atomic_path, write_json

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "keras_msd", "recipes", "export")
SCRIPTS = ("gpu.sh", "gpu_run.py", "operations.py")
# What a run imports under JAX, beside what JAX itself brings. TensorFlow, matplotlib,
# h5py, typer and polib are declared and not imported.
PACKAGES = (
    *("absl-py", "annotated-types", "keras", "keras-hub", "optree", "packaging"),
    *("protobuf", "pydantic", "pydantic-core", "regex", "rich", "safetensors"),
    *("sentencepiece", "tokenizers", "typing-extensions", "typing-inspection"),
)
PLATFORMS = ("manylinux2014", *(f"manylinux_2_{minor}" for minor in range(17, 29)))
# Halves of float16 numbers have contexts of their own; corpora repeat English lines.
FILTERS = [
    {"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 3, "lp": 1, "dict_size": 1 << 25}
]
MIB = 1 << 20


def write_rows(path: Path, rows: Iterable[tuple[str, str]]) -> int:
    """Write pairs as TSV and return how many."""
    from keras_msd.data.cleaning import normalize

    lines = ["\t".join(map(normalize, row)) + "\n" for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")
    return len(lines)


def write_data(recipe: Any, data_dir: Path, folder: Path) -> dict[str, int]:
    """Write the part of a data folder that a run of the recipe reads.

    Of each parallel file those rows that the recipe draws from it, in their order: a
    run on them has the same pairs as one on the whole folder.

    Returns:
        `read`, rows of its parallel files; `pairs` taken of them, from `files`;
        `held_out` pairs; `evaluation`, files that are taken whole.
    """
    from keras_msd.data.text_table import SIDES, TextTable
    from keras_msd.recipes.cache import RunFolder
    from keras_msd.recipes.checks import check
    from keras_msd.recipes.data import take_pairs
    from keras_msd.recipes.outputs import SENTENCES
    from keras_msd.recipes.parallel_files import corpus_of, development_pairs
    from keras_msd.recipes.resources import Run
    from keras_msd.recipes.steps import steps_of

    share = dict.fromkeys(("read", "pairs", "files", "held_out", "evaluation"), 0)
    if recipe.data.kind == "examples":
        return share

    def place(part: str, file: Any) -> Path:
        pair = f"{file.source_language}-{file.language}"
        return folder / "parallel" / part / f"{corpus_of(file.name)}.{pair}.tsv"

    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        run = Run(recipe, RunFolder(scratch / "run", recipe), [data_dir], scratch)
        check(run)
        share["read"] = sum(one["read"] for one in take_pairs(run, scratch)["counts"])
        table = TextTable.open(scratch / "texts")
        for file in table.files:
            sides = (table.texts(side, file.start, file.stop) for side in SIDES)
            share["pairs"] += write_rows(place("train", file), zip(*sides, strict=True))
        share["files"] = len(table.files)
        steps = [it for it in steps_of(run) if it.files and it.name != "pairs"]
        for path in {path for it in steps for path in it.files()}:
            copy = folder / path.relative_to(data_dir)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            share["evaluation"] += 1
    if recipe.evaluate.artefacts:
        files = development_pairs(recipe, data_dir)
        pairs = {file.languages for file in files}
        left = dict.fromkeys(pairs, SENTENCES // len(pairs))
        for file in files:
            if rows := list(islice(file.iterate(), left[file.languages])):
                left[file.languages] -= write_rows(place("dev", file), rows)
                share["held_out"] += len(rows)
    return share


def write_packages(site: Path, python: str) -> None:
    """Unpack this library and the packages it needs for a version of Python."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "--no-deps", "--no-compile", "--target"]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        lock = (ROOT / "requirements.txt").read_text(encoding="utf-8")
        blocks = re.split(r"^(?=[a-z])", lock, flags=re.M)
        taken = [it for it in blocks if it.partition("==")[0] in PACKAGES]
        (scratch / "lock.txt").write_text("".join(taken), encoding="utf-8")
        wheels = ["--only-binary=:all:", "--implementation", "cp"]
        wheels += ["--python-version", python]
        wheels += [f"--platform={system}_x86_64" for system in PLATFORMS]
        wheels += ["--require-hashes", "-r", str(scratch / "lock.txt")]
        subprocess.run([*install, str(site), *wheels], check=True)
        (scratch / "source").mkdir()
        for part in SOURCES:  # a copy, so that no old build folder gets into the wheel
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copyfile
            copy(ROOT / part, scratch / "source" / part)
        build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", name]
        subprocess.run([*pip, *build, str(scratch / "source")], check=True)
        (wheel,) = scratch.glob("keras_msd-*.whl")
        subprocess.run([*install, str(site), str(wheel)], check=True)


def write_teacher(site: Path) -> None:
    """Copy the default teacher's package, with its weights in float16."""
    from safetensors.numpy import load_file, save_file

    from keras_msd.teachers.teacher import default_folder

    model = Path(default_folder())
    ignore = shutil.ignore_patterns("__pycache__", "*.md", "data_config.json")
    shutil.copytree(model.parent, site / model.parent.name, ignore=ignore)
    weights = site / model.parent.name / model.name / "model.safetensors"
    tensors = load_file(weights)
    for name, values in tensors.items():
        if values.dtype == np.float32:
            tensors[name] = values.astype(np.float16)
    save_file(tensors, weights)


def compress(folder: Path, out: Path, most: float) -> float:
    """Write a folder to one file and return its MiB.

    Raises:
        InputError: It has more than `most`; then there is no file.
    """
    with atomic_path(out) as temporary:
        with (
            lzma.open(temporary, "wb", filters=FILTERS) as stream,
            tarfile.open(fileobj=stream, mode="w|") as archive,
        ):
            for path in sorted(folder.iterdir()):
                archive.add(path, path.name)
        size = temporary.stat().st_size / MIB
        if size > most:
            raise InputError(
                f"A pack may have {most:g} MiB. Received: {size:.1f}. Take fewer "
                "pairs, as with --set data.pairs_per_language=10000, or allow more "
                "(--max-mib)."
            )
    return size


def main() -> None:
    """Write a pack and say what is in it."""
    from keras_msd.recipes.files import recipe_names
    from keras_msd.recipes.loading import load_recipe, parse_override

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--recipe", default="msd_lab", choices=recipe_names())
    parser.add_argument("--scale")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    running = "{}.{}".format(*sys.version_info)
    parser.add_argument("--python-version", default=running, help="of the machine")
    parser.add_argument("--max-mib", type=float, default=60)
    given = parser.parse_args()

    changes = dict(map(parse_override, given.set))
    recipe = load_recipe(given.recipe, given.scale, changes)
    asked = {"teacher": recipe.teacher.source, "assistant": recipe.assistant.source}
    if {*asked.values()} - {"default", "hashed-words", "new", "none"}:
        raise SystemExit(f"A pack carries the default teacher alone. Received: {asked}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        share = write_data(recipe, given.data, folder / "data")
        write_packages(folder / "site", given.python_version)
        if recipe.teacher.source == "default":
            write_teacher(folder / "site")
        for script in SCRIPTS:
            shutil.copy(HERE / script, folder)
        about = {"recipe": given.recipe, "scale": recipe.scale, "set": given.set}
        about |= {"python": given.python_version, "share": share}
        write_json(folder / "pack.json", about)
        size = compress(folder, given.out, given.max_mib)
    print(
        f"{given.recipe}, {recipe.scale}: {share['pairs']:,} of {share['read']:,} pairs"
        f" in {share['files']} files, {share['held_out']} held-out pairs, "
        f"{share['evaluation']} evaluation files"
    )
    print(f"{given.out}: {size:.1f} MiB")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"Error: {error}") from error
