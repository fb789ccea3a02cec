"""Progress on stderr: tqdm's bar on a terminal, a line a minute elsewhere."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")
BAR_S, LINE_S = 1.0, 60.0  # before the first bar; before each line
LINE = (
    "{desc}: {percentage:.0f}%, {n_fmt}/{total_fmt} "
    "[{elapsed}<{remaining}, {rate_fmt}{postfix}]"
)
_place: ContextVar[str] = ContextVar("place", default="")


@contextmanager
def place(words: str) -> Iterator[None]:
    """Have all progress within say where it is, such as "step 3 of 20"."""
    token = _place.set(words)
    try:
        yield
    finally:
        _place.reset(token)


class _Lines:
    """A file that prints each state of a bar as a line of its own."""

    def write(self, text: str) -> None:
        """Print a state; tqdm would write it over the one before."""
        if line := text.strip():
            print(line, file=sys.stderr, flush=True)

    def flush(self) -> None:
        """Do nothing: every line is flushed."""


class Progress(tqdm):
    """Shows on stderr how far something is.

    On a terminal it is a bar, shown after the first second and removed at the end.
    Elsewhere it is one line a minute, so that work under a minute prints nothing.

    Args:
        what: Words in front.
        total: Number of items, if known.
        unit: What is counted, such as "sentences".
        rate: Units in an item.
        done: Items that were done before, at another time.

    Example:
        >>> progress = Progress("stage 1", total=400, unit="sentences", rate=128)
        >>> progress.advance(100, {"loss": 0.12345})
        >>> print(progress)
        stage 1: 25%, 12800/51200 [00:00<00:00, ... sentences/s, loss=0.123]
    """

    monitor_interval = 0  # no thread that redraws bars

    def __init__(
        self,
        what: str,
        total: int | None = None,
        unit: str = "it",
        rate: int | None = None,
        done: int = 0,
    ) -> None:
        where, terminal = _place.get(), sys.stderr.isatty()
        super().__init__(
            desc=f"{what}, {where}" if where else what,
            total=total,
            initial=done,
            unit=f" {unit}",
            unit_scale=rate or False,
            leave=False,
            delay=BAR_S if terminal else LINE_S,
            mininterval=0.1 if terminal else LINE_S,
            miniters=0,  # only the clock decides
            file=sys.stderr if terminal else _Lines(),
            dynamic_ncols=terminal,
            position=None if terminal else 0,
            bar_format=None if terminal or not total else LINE,
        )

    def advance(self, items: float = 1, notes: Mapping[str, float] = {}) -> None:
        """Count items, and show the progress if it is time.

        Args:
            items: Items that were done since the last call.
            notes: Numbers to show beside it, by name; without any, those of earlier
                calls stay.
        """
        if self.total:  # the last of equal slices may hold fewer
            items = min(items, self.total - self.n)
        if notes:
            self.set_postfix(notes, refresh=False)
        self.update(items)


def track(
    iterable: Iterable[Item],
    total: int | None = None,
    what: str = "",
    steps: float = 1,
) -> Iterator[Item]:
    """Yield the items of `iterable` and show how far it is, see `Progress`.

    Args:
        iterable: Anything that can be walked through once.
        total: Number of units, if known; without it they are only counted.
        what: Words in front.
        steps: Units that one item stands for.
    """
    progress = Progress(what, total)
    try:
        for item in iterable:
            yield item
            progress.advance(steps)
    finally:
        progress.close()
