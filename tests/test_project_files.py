"""The project's own files keep to the rules that CONTRIBUTING.md gives."""

import graphlib
import re
import tomllib
from pathlib import Path

import grimp
import pytest

import keras_msd

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CODE = (
    "keras_msd recipes export benchmarks experiments examples packages tests tools"
).split()
PYTHON = sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py"))
LIBRARY = [path for path in PYTHON if path.is_relative_to(ROOT / "keras_msd")]
LOCKS = ("requirements.txt", "requirements-dev.txt", "requirements-teacher.txt")

TEXT = {"", ".html", ".ipynb", ".json", ".md", ".py", ".toml", ".tsv", ".txt", ".yaml"}

MAY_IMPORT_TENSORFLOW = (
    "keras_msd/data/batches.py",
    "keras_msd/distribute.py",
    "keras_msd/export/",
    "keras_msd/models/network.py",
    "keras_msd/training/callbacks.py",
    "keras_msd/training/tensorflow_",
    "keras_msd/teachers/saved_model.py",
    "keras_msd/tokenizers/graph.py",
)
RUNS_CODE_FROM_FILES = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


IMPORT = re.compile(r"^\s*(?:from|import) ([\w.]+)(?: import (\w+))?", re.MULTILINE)


def importers(packages: set[str], files: list[Path]) -> set[str]:
    """Return the files that import a package, at any depth of their code."""
    found = set()
    for path in files:
        for both in IMPORT.findall(path.read_text(encoding="utf-8")):
            module = ".".join(filter(None, both))
            if any(f"{module}.".startswith(f"{package}.") for package in packages):
                found.add(name(path))
    return found


def test_tensorflow_stays_behind_its_boundary():
    found = importers({"tensorflow", "tensorflow_text"}, LIBRARY)
    assert "keras_msd/tokenizers/graph.py" in found  # so the search finds something
    assert [path for path in found if not path.startswith(MAY_IMPORT_TENSORFLOW)] == []


def test_no_module_imports_itself_through_others():
    graph = grimp.build_graph("keras_msd")
    imports = {it: graph.find_modules_directly_imported_by(it) for it in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()  # else CycleError names the circle


def test_no_private_keras_and_nothing_that_unpickles():
    assert importers({"keras.src", "keras_hub.src"}, PYTHON) == set()
    assert importers(RUNS_CODE_FROM_FILES, LIBRARY) == set()
    allowing = [path for path in LIBRARY if "allow_pickle=True" in path.read_text()]
    assert allowing == []


def test_no_path_of_one_machine():
    places = re.compile(r"(?<![\w.])/(work|tmp|home|root|Users|opt)/")
    files = [path for path in ROOT.glob("[!.]*") if path.suffix in TEXT]
    for folder in (*CODE, "docs", "notebooks", ".ci"):
        files += [path for path in (ROOT / folder).rglob("*") if path.suffix in TEXT]
    found = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if places.search(line)
    ]
    assert files
    assert found == []


def test_version_stands_in_the_changelog():
    version = PROJECT["project"]["version"]
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == version == keras_msd.__version__


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_are_hashed_and_hold_neither_torch_nor_an_index(lock):
    text = (ROOT / lock).read_text()
    blocks = re.split(r"^(?=[a-z])", text, flags=re.M)[1:]
    assert blocks
    for block in blocks:
        requirement = block.splitlines()[0]
        assert re.match(r"[\w.-]+==[\w.]+ ", requirement), requirement
        assert "--hash=sha256:" in block, requirement
        assert not re.match(r"(torch|sentence-transformers|nvidia)\b", requirement)
    options = re.findall(r"^\s*-(?!-hash)\S+", text, re.M)
    assert options == []
    assert "file:" not in text


def test_developers_lock_holds_the_users_versions():
    def pins(lock: str) -> dict[str, str]:
        return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / lock).read_text(), re.M))

    users, developers = pins("requirements.txt"), pins("requirements-dev.txt")
    assert users.items() <= developers.items()
    assert {"tensorflow", "keras", "setuptools"} <= set(users)
    assert {"pytest", "mypy", "jax"} <= set(developers) - set(users)


def test_no_string_names_a_module_of_ours():
    """What a string names, no search for its uses and no type checker finds."""
    for path in LIBRARY:
        named = re.findall(r"""["']keras_msd(?:\.\w+)+["']""", path.read_text())
        assert not named, path
