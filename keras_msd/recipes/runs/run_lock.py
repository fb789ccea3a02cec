"""One process at a time in the folder of a run."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keras_msd.checks import InputError

if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder, which is made if it is not there.

    The lock is the system's, on a file that stays: it ends with the process that holds
    it, whatever ends that.

    Raises:
        InputError: Another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "ab") as file:
        try:
            _take(file.fileno())
        except (BlockingIOError, PermissionError) as error:
            raise InputError(
                "Only one process may work on a run at a time. Received: "
                f"`{folder}`, which another process works on. Wait until that ends, or "
                "give another `out_dir`."
            ) from error
        yield
