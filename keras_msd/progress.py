"""What is going on: a bar on a terminal, a line a minute elsewhere."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Item = TypeVar("Item")
LINE_S = 60.0  # between two lines
_place: ContextVar[str] = ContextVar("place", default="")


@contextmanager
def place(words: str) -> Iterator[None]:
    """Have all progress within say where it is, such as "step 3 of 20"."""
    token = _place.set(words)
    try:
        yield
    finally:
        _place.reset(token)


class Progress:
    """Shows on stderr how far something is.

    On a terminal that is a bar, after the first second; elsewhere a line a minute.

    Args:
        what: Words in front.
        total: Items in all, if known.
        unit: What is counted by the second, such as "sentences".
        rate: Units in an item.
        done: Items that were done before, at another time.

    Example:
        >>> progress = Progress("stage 1", total=400, unit="sentences", rate=128)
        >>> progress.done, progress.began = 100, time.monotonic() - 200
        >>> progress.notes = {"loss": 0.12345}
        >>> progress.line()
        'stage 1: 100 of 400 (25 %), 64 sentences/s, 10 min left, loss 0.1235'
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        unit: str = "",
        rate: float = 1.0,
        done: float = 0,
    ) -> None:
        where = _place.get()
        self.what = f"{what}, {where}" if where else what
        self.total, self.unit, self.rate = total, unit, rate
        self.done = self._before = done
        self.notes: Mapping[str, float] = {}
        self.began = self._said = time.monotonic()
        self._bar: Any = None
        self._terminal = sys.stderr.isatty()

    def advance(self, items: float = 1, notes: Mapping[str, float] = {}) -> None:
        """Count items; show where it is time.

        Args:
            items: That were done since the last call.
            notes: Numbers to show beside, by name; those of earlier calls stay.
        """
        self.done += items
        if self.total:  # the last of equal slices may hold fewer
            self.done = min(self.done, self.total)
        self.notes = {**self.notes, **notes}
        now = time.monotonic()
        if self._terminal:
            if self._bar is None and now - self.began > 1:
                self._bar = _new_bar()
                self._task = self._bar.add_task(self.what, total=self.total, notes="")
                self._bar.start()
            if self._bar is not None:
                shown = ", ".join(self._words())
                self._bar.update(self._task, completed=self.done, notes=shown)
        elif now - self._said >= LINE_S:
            self._said = now
            print(self.line(), file=sys.stderr, flush=True)

    def line(self) -> str:
        """Return all in a line."""
        count = f"{self.done:,.0f}"
        if self.total:
            share = 100 * self.done / self.total
            count += f" of {self.total:,} ({share:.0f} %)"
        words = [count, *self._words()]
        if self.total and (speed := self._speed()):
            left = (self.total - self.done) / speed
            said = f"{left / 60:.0f} min left" if left >= 90 else f"{left:.0f} s left"
            words.insert(1 + bool(self.unit), said)
        return f"{self.what}: {', '.join(words)}"

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _speed(self) -> float:
        return (self.done - self._before) / max(time.monotonic() - self.began, 1e-9)

    def _words(self) -> list[str]:
        units = f"{self._speed() * self.rate:,.0f} {self.unit}/s"
        words = [units] if self.unit else []
        return words + [f"{name} {value:.4g}" for name, value in self.notes.items()]


def _new_bar() -> Any:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[notes]}"),
        console=Console(stderr=True),
        transient=True,
    )


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
