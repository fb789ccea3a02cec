"""The built wheel works outside the checkout: recipes, loaders and the command line."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from keras_msd.recipes.load import recipe_names

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Build the wheel from a copy, so that no old build folder gets into it."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("keras_msd", "recipes", "export", "packages"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (source / "dist").glob("keras_msd-*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory) -> Path:
    """Install the wheel in an environment of its own, and return its programs' folder.

    The packages it needs come from the running environment through a .pth file; .pth
    files over there are not read, so an editable install of the checkout stays unseen.
    """
    folder = tmp_path_factory.mktemp("installed") / "env"
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install"]
    options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*pip, *options, str(wheel)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    borrowed = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    (site / "borrowed.pth").write_text("\n".join(sorted(borrowed)) + "\n")
    return folder / "bin"


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


def run(program: Path, *arguments: str, folder: Path) -> str:
    """Return what a program prints, run in a folder outside the checkout."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    settings = {**kept, "KERAS_MSD_CACHE": str(folder / "cache"), "MPLBACKEND": "Agg"}
    command = [str(program), *arguments]
    done = subprocess.run(
        command, cwd=folder, env=settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_below(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_whole_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    travels = {
        "keras_msd": "keras_msd",
        "recipes": "keras_msd/recipes/configs",
        "export": "keras_msd/export/loaders",
    }
    expected = {
        f"{place}/{name}"
        for folder, place in travels.items()
        for name in files_below(ROOT / folder)
    }
    assert expected - held == set()
    assert {name.split("/")[0].partition("-")[0] for name in held} == {"keras_msd"}
    assert any(name.endswith("licenses/LICENSE") for name in held)


def test_loaders_are_found_in_the_wheel(environment, elsewhere):
    code = "from keras_msd.export import loaders_folder; print(loaders_folder())"
    folder = Path(run(environment / "python", "-c", code, folder=elsewhere).strip())
    assert folder.is_relative_to(environment.parent)
    assert files_below(folder) == files_below(ROOT / "export")


def test_the_command_is_installed_and_finds_the_recipes(environment, elsewhere):
    help_text = run(environment / "keras-msd", "--help", folder=elsewhere)
    assert {"list", "run", "evaluate"} <= set(help_text.split())
    listed = run(environment / "keras-msd", "list", "--json", folder=elsewhere)
    assert {recipe["name"] for recipe in json.loads(listed)} == {*recipe_names()}
