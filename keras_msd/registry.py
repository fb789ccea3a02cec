"""Tables of records: what a room knows by name, and how a user adds to it."""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from keras_msd.checks import InputError, one_of
from keras_msd.files import read_toml


@dataclass(frozen=True, kw_only=True)
class Record:
    """One entry of a `Registry`; a part without a default must be given.

    Code that is slow to import is given as its dotted path, and loaded on use.

    Attributes:
        name: What the entry is called.

    Raises:
        InputError: A part is empty.
        TypeError: A part is missing.
    """

    name: str

    def __post_init__(self) -> None:
        for field in fields(self):
            needed = field.default is MISSING and field.default_factory is MISSING
            value = getattr(self, field.name)
            if needed and (value is None or value in ("", (), {})):
                raise InputError(
                    f"A `{type(self).__name__}` needs `{field.name}`. Received: "
                    f"{value!r} in the record `{self.name}`. Give it."
                )


R = TypeVar("R", bound=Record)


def read_records(make: Callable[..., R], path: Path) -> Iterator[R]:
    """Yield the records of a TOML file: a table each, whose name is the record's.

    Args:
        make: Takes the parts of a record by name; lists are given as tuples.
        path: The file.
    """
    for name, parts in read_toml(path).items():
        given = {key: _unchanging(part) for key, part in parts.items()}
        yield make(name=name, **given)


def _unchanging(part: Any) -> Any:
    return tuple(map(_unchanging, part)) if isinstance(part, list) else part


class Registry(dict[str, R]):
    """Records in order, by name; an `InputError` lists them where a name is unknown.

    Args:
        what: What a record is, for messages.
        records: Those of the library.
    """

    def __init__(self, what: str, *records: R) -> None:
        super().__init__({record.name: record for record in records})
        self._what = what

    def __missing__(self, name: str) -> R:
        one_of(self, **{self._what: name})
        raise KeyError(name)  # for type checkers: `one_of` has raised

    def register(self, record: R) -> R:
        """Add a record, which comes last, and return it.

        Raises:
            InputError: There is one of that name, or it is of another kind.
        """
        known = next(iter(self.values()), record)
        if not isinstance(record, type(known)):
            raise InputError(
                f"A {self._what} is registered as a `{type(known).__name__}`. "
                f"Received: {type(record).__name__}. Make one of it."
            )
        if record.name in self:
            raise InputError(
                f"Each {self._what} has a name of its own. Received: `{record.name}`, "
                "which is known. Choose another, or `remove` that one first."
            )
        self[record.name] = record
        return record

    def remove(self, name: str) -> R:
        """Take a record out and return it."""
        return self.pop(self[name].name)


def loaded(part: Any) -> Any:
    """Return what a dotted path such as "package.module.name" names, or `part` itself.

    The path of a module, too: then the module is returned.
    """
    if not isinstance(part, str):
        return part
    module, _, attribute = part.rpartition(".")
    found = import_module(module or part)
    if not hasattr(found, attribute):
        return import_module(part)
    return getattr(found, attribute)
