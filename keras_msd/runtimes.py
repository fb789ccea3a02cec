"""What runtimes do to a process: notes on stderr, and threads that a fork lacks."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from keras_msd.checks import InputError
from keras_msd.lazy import AroundImport

LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# absl's heading, its lines of the severity "information", and LiteRT's only note.
SIEVE = r"""
import os, sys
NOTES = (
    b"WARNING: All log messages before absl::InitializeLog() is called",
    b"INFO: Created TensorFlow Lite XNNPACK delegate",
)
for line in sys.stdin.buffer:
    if not line.startswith(NOTES) and not (line[:1] == b"I" and line[1:5].isdigit()):
        os.write(2, line)
"""


@contextmanager
def sieved_stderr() -> Iterator[None]:
    """Take notes out of what is written to file descriptor 2, if they are not wanted.

    They are not where `TF_CPP_MIN_LOG_LEVEL` is 1 or more. TensorFlow writes some while
    its libraries are loaded, before it reads that level, and LiteRT never reads it. A
    process of its own sieves, so that the last words of a process that is killed, or
    that gives up on an old processor, are shown too.
    """
    if os.environ.get(LEVEL, "") in ("", "0"):
        yield
        return
    import subprocess

    try:
        stderr = os.fdopen(os.dup(2), "wb")
        sieve = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", SIEVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt is not meant for it
        )
    except OSError:  # no stderr, or no process to be had: nothing is taken out
        yield
        return
    with stderr, sieve:  # leaving it waits until all is shown
        os.dup2(sieve.stdin.fileno(), 2)  # type: ignore[union-attr]
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr.fileno(), 2)


def quiet_tensorflow() -> None:
    """Let TensorFlow start without notes about processor and driver.

    Somebody imports it later, or nobody does. A level that the user has set stays: with
    `TF_CPP_MIN_LOG_LEVEL=0` all lines are shown. Real errors are exceptions.
    """
    os.environ.setdefault(LEVEL, "3")

    @contextmanager
    def quiet() -> Iterator[None]:
        import logging

        with sieved_stderr():
            yield
        # A run makes many models, and TensorFlow takes each new one for a retracing.
        logging.getLogger("tensorflow").setLevel(logging.ERROR)

    AroundImport("tensorflow", quiet)


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
