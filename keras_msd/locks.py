"""Locks between processes, on POSIX and on Windows; the system frees a dead one's."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def lock_file(file: IO[bytes], wait: bool = True, shared: bool = False) -> None:
    """Lock an open file until it is closed.

    Args:
        file: Open for writing.
        wait: Until no other process has the lock.
        shared: Others may have such a lock, too, but on Windows.

    Raises:
        OSError: Another process has it, and `wait` is False.
    """
    if sys.platform == "win32":
        file.seek(0)
        while True:
            try:
                return msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            except OSError:
                if not wait:
                    raise
            time.sleep(0.1)
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(file, kind | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Keep other processes out that lock the same folder."""
    if sys.platform == "win32":  # a folder cannot be opened there
        with open(folder / ".lock", "ab") as file:
            lock_file(file)
            yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
