"""Names that load their module when asked for, and what runs after a foreign import."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any


def lazy_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package.

    What it offers stands in the stub beside its `__init__.py`, where type checkers and
    editors read it, too: `from keras_msd.data.pair import Pair as Pair`; a module of
    the package itself as `from keras_msd import data as data`.

    Args:
        package: The package's `__name__`.
        file: The package's `__file__`.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    modules = {
        alias.name: str(node.module)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def getattribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module `{package}` has no attribute `{name}`")
        if modules[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(modules[name]), name)

    def names() -> list[str]:
        own = (name for name in vars(sys.modules[package]) if name.startswith("__"))
        return sorted({*own, *modules})

    return getattribute, names, [name for name in modules if not name.startswith("__")]


class AtImport:
    """Finds one module as Python does, and has a function run it where it is imported.

    It stands in `sys.meta_path`. Who only looks for the module runs nothing.

    Args:
        name: The module.
        run: Given what executes the module, and the module.
    """

    def __init__(self, name: str, run: Callable[[Callable[[Any], None], Any], None]):
        self.name, self.run = name, run

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return where the module is, None for any other module."""
        spec = PathFinder.find_spec(name) if name == self.name else None
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader  # of this module, and of no other
            execute = loader.exec_module
            loader.exec_module = lambda module: self.run(execute, module)
        return spec


def call_after_import(name: str, action: Callable[[], None]) -> None:
    """Call a function as soon as a module is imported; now if that is done."""

    def run(execute: Callable[[Any], None], module: Any) -> None:
        execute(module)
        sys.meta_path.remove(finder)
        action()

    if sys.modules.get(name):  # None: it must not be imported
        action()
        return
    finder = AtImport(name, run)
    sys.meta_path.insert(0, finder)
