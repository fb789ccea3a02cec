"""Names of a package that load their module when they are first asked for."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package.

    What it offers stands in the stub beside its `__init__.py`, where type checkers and
    editors read it, too: `from keras_msd.data.pair import Pair as Pair`; a module of
    the package itself, which is no part of `__all__`, as `from keras_msd import data as
    data`.

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
        return sorted({*vars(sys.modules[package]), *modules})

    public = [
        name
        for name, module in modules.items()
        if module != package and not name.startswith("__")
    ]
    return getattribute, names, public
