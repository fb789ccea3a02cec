"""The processes of one training: each watches the others and can wait for them."""

import json
import os
import platform
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from keras_msd.checks import InputError
from keras_msd.locks import lock_file

LOOK_S = 1.0  # between two looks at the others
JOIN_S = 300.0  # for all to come: clusters start processes one after the other
WAIT_S = 0.05
LOST = 75  # exit code of a process that another's end has stopped


class Workers:
    """A context in which several processes watch each other through shared files.

    If one ends, each of the others prints which one and why, and exits at once with
    code 75, because the backend may be waiting for a message that never comes. Each
    process holds the lock of a file, which the system frees when the process ends. With
    one process this context does nothing.

    Args:
        folder: A folder for this purpose alone, on a disk that all processes see.
        process: Number of this process, from 0.
        processes: Number of processes.

    Raises:
        InputError: On entering, a process did not join within five minutes.

    Example:
        >>> with msd.distribute.Workers("workers", 0, 1) as workers:
        ...     workers.meet("the table is there")
        >>> workers.first
        True
    """

    def __init__(
        self, folder: str | Path, process: int = 0, processes: int = 1
    ) -> None:
        self.folder, self.process, self.processes = Path(folder), process, processes
        self.first = process == 0
        self._others = [it for it in range(processes) if it != process]
        self._own: dict[str, Any] = {
            "met": [],
            "end": None,
            "machine": platform.node(),
            "number": os.getpid(),
        }
        self._over = threading.Event()

    def __enter__(self) -> "Workers":
        """Wait until all processes have joined, and begin to watch them."""
        if not self._others:
            return self
        self.folder.mkdir(parents=True, exist_ok=True)
        # Where the lock is held, the file is of this launch, or not there yet.
        self._file(self.process).unlink(missing_ok=True)
        self._lock = open(self.folder / f"{self.process}.lock", "a+b")  # noqa: SIM115
        lock_file(self._lock)
        self._write()
        end = time.monotonic() + JOIN_S
        while absent := [it for it in self._others if not self._joined(it)]:
            if time.monotonic() > end:
                self._lock.close()
                names = ", ".join(map(str, absent))
                raise InputError(
                    f"All {self.processes} processes must see `{self.folder}` and come "
                    f"within {JOIN_S:.0f} s. Received: nothing of process {names}. "
                    "Start all of them, with a folder on a disk that they share."
                )
            time.sleep(LOOK_S / 4)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, trace: Any
    ) -> None:
        """Record how this process ended."""
        if not self._others:
            return
        if kind and not issubclass(kind, InputError | KeyboardInterrupt | SystemExit):
            # Perhaps the backend misses another process: the thread ends this one then.
            self._over.wait(5 * LOOK_S)
        self._over.set()
        self._thread.join()
        self._own["end"] = "well" if kind is None else f"{kind.__name__}: {error}"
        self._write()
        time.sleep(LOOK_S / 2)  # others may have just begun to look
        self._lock.close()

    def meet(self, what: str) -> None:
        """Wait until every process has called this with the same name.

        Args:
            what: The name of the barrier; use each name once.
        """
        if self._others:
            self.say(what)
            for other in self._others:
                while what not in self.said(other):
                    time.sleep(WAIT_S)

    def say(self, what: str) -> None:
        """Tell the others that this process has reached a barrier, without waiting."""
        if self._others:
            self._own["met"] = [*self._own["met"], what]
            self._write()

    def said(self, process: int) -> list[str]:
        """Return the barriers that another process has reached, in order."""
        return list(self._said(process)["met"])

    def _file(self, process: int) -> Path:
        return self.folder / f"{process}.json"

    def _said(self, other: int) -> dict[str, Any]:
        while True:
            with suppress(OSError):  # just replaced, on a network's disk
                return dict(json.loads(self._file(other).read_bytes()))
            time.sleep(WAIT_S)

    def _write(self) -> None:
        # No `atomic_path`: its leftovers are cleared by whoever begins a run.
        new = self.folder / f"{self.process}.next"
        new.write_text(json.dumps(self._own), encoding="utf-8")
        os.replace(new, self._file(self.process))

    def _joined(self, other: int) -> bool:
        return not self._free(other) and self._file(other).is_file()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            for other in self._others:
                self._look_at(other)

    def _look_at(self, other: int) -> None:
        free, said = self._free(other), self._said(other)  # it says its end before
        where = f"{said['machine']}, process {said['number']} there"
        if said["end"] not in (None, "well"):
            _stop(f"Worker {other} of {self.processes} ({where}) ended: {said['end']}")
        if free and said["end"] is None:
            _stop(f"Worker {other} of {self.processes} ({where}) was ended.")

    def _free(self, other: int) -> bool:
        """Tell whether the lock of a process is free, which ends with the process."""
        with open(self.folder / f"{other}.lock", "a+b") as file:
            try:
                lock_file(file, wait=False, shared=True)
            except OSError:
                return False
        return True


def _stop(why: str) -> NoReturn:
    print(
        f"Error: {why} This process stops, too. Start all of them again: training goes "
        "on behind the last checkpoint.",
        file=sys.stderr,
        flush=True,
    )
    os._exit(LOST)
