"""How a command ends that is stopped, and goes on when it is given again."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def goes_on() -> Iterator[None]:
    """End at Ctrl-C and SIGTERM with a line that says how to go on."""

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as stop:
        print(
            "Stopped. Finished work is kept: give the same command again to resume.",
            file=sys.stderr,
        )
        if isinstance(stop, SystemExit):
            raise
        raise SystemExit(128 + signal.SIGINT) from stop
    finally:
        signal.signal(signal.SIGTERM, before)
