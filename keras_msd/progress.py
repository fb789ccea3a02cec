"""A progress bar for anything that lasts over a second."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def track(
    iterable: Iterable[Item],
    total: int | None = None,
    what: str = "",
    steps: float = 1,
) -> Iterator[Item]:
    """Yield the items of `iterable`, with a bar on stderr after the first second.

    Args:
        iterable: Anything that can be walked through once.
        total: Number of units, if known; without it the bar only counts.
        what: Words in front of the bar.
        steps: Units that one item stands for.
    """
    if not sys.stderr.isatty():
        yield from iterable
        return
    from rich import progress
    from rich.console import Console

    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what, total=total)
    began, shown = time.monotonic(), False
    try:
        for item in iterable:
            yield item
            bar.advance(task, steps)
            if not shown and time.monotonic() - began > 1:
                bar.start()
                shown = True
    finally:
        if shown:
            bar.stop()
