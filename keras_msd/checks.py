"""Checks of arguments and input, with the same wording for all errors."""

import difflib
import importlib
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Set
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from inspect import signature
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, TypeVar


class InputError(ValueError):
    """A mistake in the input; the message has the rule, the value and a repair.

    Example:
        >>> try:
        ...     msd.load_encoder("nowhere")
        ... except msd.InputError as error:
        ...     print(error)
        The encoder `nowhere` does not exist. Give the path of a folder.
    """


def at_least(minimum: float, **named: float | None) -> None:
    """Raise `InputError` unless every named value is `minimum` or more, or None."""
    _check(lambda value: value >= minimum, f"at least {minimum}", named)


def above(bound: float, **named: float | None) -> None:
    """Raise `InputError` unless every named value is more than `bound`, or None."""
    _check(lambda value: value > bound, f"above {bound}", named)


def whole(**named: Any) -> None:
    """Raise `InputError` unless every named value is a whole number, or None."""
    _check(lambda value: hasattr(value, "__index__"), "a whole number", named)


def _check(holds: Callable[[Any], bool], rule: str, named: Mapping[str, Any]) -> None:
    for name, value in named.items():
        if value is not None and not holds(value):  # nothing holds for NaN
            shown = f"{value!r:.60}" if isinstance(value, str) else value
            raise InputError(f"`{name}` must be {rule}. Received: {name}={shown}.")


def one_of(allowed: Iterable[Any], **named: Any) -> None:
    """Raise `InputError` unless every named value is among `allowed`."""
    allowed = list(allowed)
    for name, value in named.items():
        if value not in allowed:
            known = ", ".join(repr(item) for item in allowed)
            hint = nearest(str(value), [str(item) for item in allowed])
            rule = f"`{name}` must be one of {known}."
            raise InputError(f"{rule} Received: {name}={value!r:.80}. {hint}".rstrip())


def a_list(**named: Any) -> None:
    """Raise `InputError` if a named value is a text or path instead of a list."""
    for name, value in named.items():
        if isinstance(value, str | PathLike):
            rule = f"`{name}` must be a list. Received: the text {str(value)!r:.60}."
            raise InputError(f"{rule} Put it in a list.")


def divides(divisor: dict[str, int], number: dict[str, int]) -> None:
    """Raise `InputError` unless the one named divisor divides the one named number."""
    (name, value), (of, total) = *divisor.items(), *number.items()
    if value < 1 or total % value:
        raise InputError(
            f"`{name}` must divide `{of}`. Received: {name}={value}, {of}={total}."
        )


def sentences(texts: Iterable[str], name: str = "texts", first: int = 0) -> list[str]:
    """Return `texts` as a list; raise `InputError` if one is not a Unicode string.

    Args:
        texts: The sentences: a list, a column of a data frame, a one-dimensional array,
            a generator, or another iterable that has an order. A mapping and a data
            frame are refused, because iterating over them yields names of columns.
        name: Name of the argument, for messages.
        first: Position of the first text, if these are part of a longer list.
    """
    if not isinstance(texts, list):
        no_order = isinstance(texts, str | bytes | Mapping | Set)
        no_order &= not isinstance(texts, KeysView)
        table = hasattr(texts, "columns")
        if no_order or table or not isinstance(texts, Iterable):
            raise InputError(
                f"`{name}` must be a list of sentences. Received: {texts!r:.60} "
                f"({type(texts).__name__}). Give a list of strings, or one column of a "
                'table: table["text"].'
            )
        texts = list(texts)
    for index, text in enumerate(texts, first):
        if not isinstance(text, str):
            raise InputError(
                f"`{name}` must hold strings. Received: {text!r:.60} "
                f"({type(text).__name__}) at position {index}. Give one flat list of "
                "texts, and leave out or fill in what is missing."
            )
        utf8(text, f"`{name}`, position {index}")
    return texts


def utf8(text: str, where: str) -> bytes:
    """Return text as UTF-8; raise `InputError`, naming the place, if impossible."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where}: text must be Unicode. Received: half of a surrogate pair, "
            f"character {error.start} of {text!r:.80}. Remove it, or read the text as "
            'UTF-8 with errors="replace".'
        ) from error


@contextmanager
def explained(
    message: str | Callable[[Exception], str], *errors: type[Exception]
) -> Iterator[None]:
    """Turn other errors into an `InputError`.

    Args:
        message: The new message, or a function from the error to the message.
        *errors: The types of errors.
    """
    try:
        yield
    except errors as error:
        asked = any(issubclass(kind, InputError) for kind in errors)
        if isinstance(error, InputError) and not asked:
            raise  # an InputError is a ValueError, and needs no other message
        said = message if isinstance(message, str) else message(error)
        raise InputError(said) from error


def placed(path: Path) -> AbstractContextManager[None]:
    """Add the path of a file to each `InputError` inside this context."""
    return explained(lambda error: f"`{path}`: {error}", InputError)


def findings(error: Any, known: Iterable[str]) -> list[str]:
    """Return a sentence for each finding of a pydantic `ValidationError`.

    Args:
        error: The error of pydantic.
        known: The allowed keys.
    """
    sentences = []
    for finding in error.errors():
        key = ".".join(map(str, finding["loc"]))
        rule = finding["msg"].removeprefix("Value error, ")
        if finding["type"] == "extra_forbidden":
            sentences.append(f"Unknown key `{key}`. {nearest(key, known)}".strip())
        elif finding["type"] == "missing":
            sentences.append(f"The key `{key}` is missing. Give it a value.")
        elif key:
            sentences.append(f"`{key}`: {rule}. Received: {finding['input']!r:.60}.")
        else:
            sentences.append(rule)
    return sentences


def none_of(wrong: Mapping[str, Any], rule: str, repair: str) -> None:
    """Raise `InputError` that names all findings, if there are any.

    Args:
        wrong: Whether it is so, by what is wrong in words.
        rule: The rule, a sentence.
        repair: What to do instead, a sentence.
    """
    if found := [what for what, is_so in wrong.items() if is_so]:
        raise InputError(f"{rule} Received: {' and '.join(found)}. {repair}")


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return "Did you mean `x`?" for the closest of `choices`, or an empty string."""
    close = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.5)
    return f"Did you mean `{close[0]}`?" if close else ""


def existing_file(path: str | Path, what: str = "file") -> Path:
    """Return `path` as a `Path`; raise `InputError` if it is not a file."""
    return _existing(path, what, "file")


def existing_folder(path: str | Path, what: str = "folder") -> Path:
    """Return `path` as a `Path`; raise `InputError` if it is not a folder."""
    return _existing(path, what, "folder")


def _existing(given: str | Path, what: str, kind: str) -> Path:
    path = given if isinstance(given, Path) else Path(given)  # subclasses stay
    there = "file" if path.is_file() else "folder" if path.is_dir() else None
    if there != kind:
        state = f"is a {there}" if there else "does not exist"
        raise InputError(f"The {what} `{path}` {state}. Give the path of a {kind}.")
    return path


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or raise `InputError` naming the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        message = f"{purpose} needs the package `{package}`. {install_extra(extra)}"
        raise InputError(message) from error


def install_extra(extra: str) -> str:
    """Return how to install an extra of keras-msd, which is not on PyPI."""
    return f'In your clone of keras-msd, run: pip install ".[{extra}]"'


Given = ParamSpec("Given")
Result = TypeVar("Result")


def explain_arguments(
    **hints: str,
) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Decorate a function so that an unknown argument gets an error with a repair.

    Args:
        **hints: What to write instead of an argument that other libraries have.

    Example:
        >>> from keras_msd.checks import explain_arguments
        >>> @explain_arguments(show_progress_bar="Write `progress`.")
        ... def encode(texts, progress=True):
        ...     return texts
        >>> encode(["A cat."], show_progress_bar=False)
        Traceback (most recent call last):
            ...
        keras_msd.checks.InputError: `encode` has no argument `show_progress_bar`. Write
        `progress`.
    """

    def decorate(function: Callable[Given, Result]) -> Callable[Given, Result]:
        known = list(signature(function).parameters)

        @wraps(function)
        def checked(*given: Given.args, **named: Given.kwargs) -> Result:
            for name in named:
                if name not in known:
                    listed = ", ".join(it for it in known if it != "self")
                    repair = hints.get(name) or nearest(name, known)
                    raise InputError(
                        f"`{function.__name__}` has no argument `{name}`. "
                        f"{repair or f'It has {listed}.'}"
                    )
            return function(*given, **named)

        return checked

    return decorate


def log_unused(settings: Iterable[str], known: Iterable[str], path: Path) -> None:
    """Log the keys of a file that are not among the known ones, and so not used."""
    if unknown := sorted({*settings} - {*known}):
        import logging  # `--help` starts without it

        logger = logging.getLogger(__name__)
        logger.warning("`%s`: unknown, not used: %s.", path, ", ".join(unknown))


def without_default_prompt(encoder: Any, what: str) -> None:
    """Raise `InputError` if an encoder puts a prompt before every text by itself.

    Args:
        encoder: Has a `default_prompt`, or none.
        what: Subject and verb of the rule, such as "A stage trains".
    """
    if prompt := getattr(encoder, "default_prompt", ""):
        raise InputError(
            f"{what} an encoder without a default prompt. Received: {prompt!r:.80}. "
            "Load it with `load_encoder(..., prompts={})` and put the prompt into the "
            "texts."
        )
