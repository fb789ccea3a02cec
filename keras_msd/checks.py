"""Argument and input checks, so that every error has one wording."""

import difflib
import importlib
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any


class InputError(ValueError):
    """A mistake in what the user gave: it says the rule, what came, the repair."""


def at_least(minimum: float, **named: float) -> None:
    """Raise `InputError` unless every named value is `minimum` or more."""
    for name, value in named.items():
        if not value >= minimum:  # NaN is not either
            raise InputError(
                f"`{name}` must be at least {minimum}. Received: {name}={value}."
            )


def one_of(allowed: Iterable[Any], **named: Any) -> None:
    """Raise `InputError` unless every named value is among `allowed`."""
    allowed = list(allowed)
    for name, value in named.items():
        if value not in allowed:
            known = ", ".join(repr(item) for item in allowed)
            hint = nearest(str(value), [str(item) for item in allowed])
            rule = f"`{name}` must be one of {known}."
            raise InputError(f"{rule} Received: {name}={value!r}. {hint}".rstrip())


def divides(divisor: dict[str, int], number: dict[str, int]) -> None:
    """Raise `InputError` unless the one named divisor divides the one named number."""
    (name, value), (of, total) = *divisor.items(), *number.items()
    if value < 1 or total % value:
        fits = [k for k in range(1, total + 1) if total % k == 0][:12]
        raise InputError(
            f"`{name}` must divide `{of}`. Received: {name}={value}, {of}={total}. "
            f"Use one of {', '.join(map(str, fits))}."
        )


def sentences(texts: Iterable[str]) -> list[str]:
    """Return `texts` as a list; raise `InputError` if one is no string."""
    if isinstance(texts, str):
        raise InputError(
            "`texts` must be a list of sentences. Received: the text "
            f"{texts!r:.60}. Put it in a list."
        )
    texts = texts if isinstance(texts, list) else list(texts)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"`texts` must hold strings. Received: {text!r:.60} "
                f"({type(text).__name__}) at position {index}."
            )
    return texts


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return "Did you mean `x`?" for the closest of `choices`, or an empty string."""
    close = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.5)
    return f"Did you mean `{close[0]}`?" if close else ""


def existing_file(path: str | Path, what: str = "file") -> Path:
    """Return `path` as a `Path`; raise `InputError` if no file is there."""
    path = Path(path)
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"The {what} `{path}` {state}. Give the path of a file.")
    return path


def existing_folder(path: str | Path, what: str = "folder") -> Path:
    """Return `path` as a `Path`; raise `InputError` if no folder is there."""
    path = Path(path)
    if not path.is_dir():
        state = "is a file" if path.is_file() else "does not exist"
        raise InputError(f"The {what} `{path}` {state}. Give the path of a folder.")
    return path


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or raise `InputError` naming the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{purpose} needs the package `{module.split('.')[0]}`. "
            f'Install it with: pip install "keras-msd[{extra}]"'
        ) from error
