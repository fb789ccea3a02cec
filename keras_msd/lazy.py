"""Names that load their module when asked for, and what runs after a foreign import."""

import ast
import inspect
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
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


class AroundImport:
    """Has one module imported inside a context; who only looks for it enters none.

    Args:
        name: The module; where it was imported before, the context is entered now.
        context: Makes the context.
    """

    def __init__(
        self, name: str, context: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.name, self.context = name, context
        if sys.modules.get(name):  # None: it must not be imported
            with context():
                pass
        else:
            sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return where the module is, None for any other module."""
        spec = PathFinder.find_spec(name) if name == self.name else None
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader  # of this module, and of no other
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            sys.meta_path.remove(self)
            with self.context():
                execute(module)

        loader.exec_module = exec_module
        return spec


class OnUse:
    """A function whose module is imported when it is called.

    Args:
        module: The module.
        name: The function's name in it.
    """

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    @property
    def function(self) -> Callable[..., Any]:
        """The function."""
        found: Callable[..., Any] = getattr(import_module(self.module), self.name)
        return found

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.function)

    def __call__(self, *given: Any, **options: Any) -> Any:
        """Call it."""
        return self.function(*given, **options)


# By the name of a method: the function of a higher layer that it calls. A package sets
# it before any of its modules is imported.
METHODS: dict[str, OnUse] = {}
