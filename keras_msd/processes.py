"""Processes: what a runtime of threads can do after a fork."""

import os

from keras_msd.checks import InputError

_begun: dict[str, int] = {}


def begin(runtime: str) -> None:
    """Note that a runtime works in this process.

    Args:
        runtime: Name of a runtime that has one set of threads for the whole process,
            such as "tensorflow".

    Raises:
        InputError: It began in a process of which this one is a fork. Its threads are
            not here, and the next operation could wait for them for ever.
    """
    check_process(_begun.setdefault(runtime, os.getpid()), runtime)


def is_forked(runtime: str) -> bool:
    """Tell whether a runtime began in a process of which this one is a fork."""
    return _begun.get(runtime, os.getpid()) != os.getpid()


def check_process(begun: int, what: str) -> None:
    """Raise `InputError` unless this is the process in which something began.

    Args:
        begun: The process's id.
        what: The runtime, for the message.
    """
    if begun != os.getpid():
        raise InputError(
            f"The runtime {what} was started before this process was forked, and its "
            "threads are not in the fork. Start processes by spawn, as in "
            '`multiprocessing.get_context("spawn")`; or load the encoder in the forked '
            "process, and nothing of that runtime before the fork; or use "
            "`encode(processes=...)`."
        )
