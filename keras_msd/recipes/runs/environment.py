"""What besides recipe and data decides the bytes of a step: machine and code."""

import ast
import os
import platform
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from keras_msd.files import digest, file_digest
from keras_msd.registry import modules_of_users

PACKAGE = "keras_msd"
ROOT = Path(__file__).parents[2]
LIBRARIES = (
    *("jax", "keras", "keras-hub", "numpy", "scipy", "sentencepiece", "tensorflow"),
    *("tokenizers", "tensorflow-text"),
)
TABLES = (".toml", ".tsv")  # data of the modules in the same folder
SWITCHES = ("OMP_NUM_THREADS", "TF_ENABLE_ONEDNN_OPTS", "TF_XLA_FLAGS", "XLA_FLAGS")


@lru_cache
def environment() -> dict[str, Any]:
    """Return names of libraries, backend, precision, devices and switches."""
    import keras

    installed = {library.name: library.version for library in metadata.distributions()}
    backend = keras.backend.backend()
    # JAX does nothing under TensorFlow, which reads SavedModels under JAX.
    used = [name for name in LIBRARIES if name != "jax" or backend == "jax"]
    return {
        "libraries": {name: installed.get(name) for name in used},
        "backend": backend,
        "precision": [keras.config.floatx(), keras.config.dtype_policy().name],
        "devices": keras.distribution.list_devices(),
        "machine": platform.machine(),
        "switches": {name: os.environ.get(name) for name in SWITCHES},
    }


def cached_digest(path: Path) -> str:
    """Return the hash of a file, which is read again only where it has changed."""
    status = path.stat()
    return _digest(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _digest(path: Path, size: int, changed: int) -> str:
    return file_digest(path)


def code_digest(module: str) -> str:
    """Return the hash of a module and of everything that it leads to.

    The tables in the folders of these modules count as well. Records that were
    registered from outside count for every module, with the file that they are
    written in.

    Args:
        module: Dotted name of a module of this package.
    """
    return _code_digest(module, tuple(modules_of_users()))


@lru_cache
def _code_digest(module: str, of_users: tuple[str, ...]) -> str:
    paths = {name: module_files()[name] for name in modules_behind(module)}
    rooms = {path.parent for path in paths.values()}
    tables = (path for suffix in TABLES for path in ROOT.rglob(f"*{suffix}"))
    used = [path for path in tables if path.parent in rooms]
    paths |= {path.relative_to(ROOT).as_posix(): path for path in used}
    paths |= {name: Path(str(sys.modules[name].__file__)) for name in of_users}
    return digest(
        *(part for name in sorted(paths) for part in (name, paths[name].read_bytes()))
    )


@lru_cache
def modules_behind(module: str) -> frozenset[str]:
    """Return a module of this package and all of ours that it leads to.

    An import counts wherever it stands, at the top or in a function, and so does a
    text that is a dotted path of ours, as records name what they load on use, and the
    name of a table of records beside the module, for all that the table names. Of the
    packages around a module only what they import at once counts.

    Args:
        module: Dotted name.
    """
    pending, reached, packages = [module], set[str](), set[str]()
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += _named_in(name)
        while (name := name.rpartition(".")[0]) and name not in packages:
            packages.add(name)
            pending += _imported_at_once(name)
    return frozenset(reached | packages)


@lru_cache
def module_files() -> dict[str, Path]:
    """Return the file of every module of this package, by its dotted name."""
    files = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = (PACKAGE, *path.relative_to(ROOT).with_suffix("").parts)
        files[".".join(parts).removesuffix(".__init__")] = path
    return files


@lru_cache
def _named_in(module: str) -> frozenset[str]:
    path = module_files()[module]
    paths = [path, *path.parent.glob(f"{path.stem}.pyi")]  # what a package offers
    names = set[str]()
    pending: list[ast.AST] = [ast.parse(p.read_text(encoding="utf-8")) for p in paths]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        names.update(_imported(node))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.update(_known(node.value))
            names.update(_named_in_table(path.parent / node.value))
        pending += ast.iter_child_nodes(node)
    return frozenset(names)


@lru_cache
def _imported_at_once(package: str) -> frozenset[str]:
    tree = ast.parse(module_files()[package].read_text(encoding="utf-8"))
    return frozenset(name for node in tree.body for name in _imported(node))


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _known(alias.name)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            yield from _known(f"{node.module}.{alias.name}")


def _named_in_table(path: Path) -> Iterator[str]:
    """Yield the modules that a table of records names; none where there is no table."""
    if path.suffix == ".toml" and path.is_file():
        for dotted in re.findall(rf"{PACKAGE}\.[\w.]+", path.read_text("utf-8")):
            yield from _known(dotted)


def _known(dotted: str) -> Iterator[str]:
    """Yield the module that a path stands for: itself, or the one that has the name."""
    while dotted.startswith(f"{PACKAGE}."):
        if dotted in module_files():
            yield dotted
            return
        dotted = dotted.rpartition(".")[0]
