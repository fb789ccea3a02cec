"""Names of a package that load their module when they are first asked for."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    Args:
        package: The package's `__name__`.
        modules: The module of each name, as in `{"Pair": "keras_msd.data.pair"}`; a
            module that ends in the name itself is what the name stands for.
    """

    def getattribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module `{package}` has no attribute `{name}`")
        module = import_module(modules[name])
        if module.__name__ == f"{package}.{name}":
            return module
        return getattr(module, name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return getattribute, names
