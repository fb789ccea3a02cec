"""The processes of one training: each watches the others and can wait for them."""

import json
import os
import platform
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any, NoReturn

from keras_msd.checks import InputError
from keras_msd.locks import lock_file

BEAT_S = 1.0  # between two looks at the others
SILENT_S = 40.0  # of a process that is no longer taken to live
JOIN_S = 300.0  # for all to come: clusters start processes one after the other
WAIT_S = 0.05
LOST = 75  # exit code of a process that another's end has stopped


class Workers:
    """A context in which several processes watch each other through shared files.

    If one ends, or is silent for 40 seconds, each of the others prints which one and
    why, and exits at once with code 75, because the backend may be waiting for a
    message that never comes. The lock on a file shows within seconds that its process
    has ended; where files have no locks, the silence does. The clocks of the machines
    need not agree. With one process this context does nothing.

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
            "token": uuid.uuid4().hex,
            "launch": None,  # the first process's token
            "beat": 0,
            "met": [],
            "end": None,
            "machine": platform.node(),
            "number": os.getpid(),
        }
        self._writing, self._over = threading.Lock(), threading.Event()
        self._seen: dict[int, tuple[Any, float]] = {}

    def __enter__(self) -> "Workers":
        """Wait until all processes have joined, and begin to watch them."""
        if not self._others:
            return self
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = open(self.folder / f"{self.process}.lock", "ab")  # noqa: SIM115
        lock_file(self._lock)
        if self.first:
            self._own["launch"] = self._own["token"]
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
            time.sleep(BEAT_S / 4)
            self._write()
        now = time.monotonic()
        self._seen = {other: (None, now) for other in self._others}
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
            self._over.wait(SILENT_S + 2 * BEAT_S)
        self._over.set()
        self._thread.join()
        self._own["end"] = "well" if kind is None else f"{kind.__name__}: {error}"
        self._write()
        self._lock.close()

    def meet(self, what: str) -> None:
        """Wait until every process has called this with the same name.

        Args:
            what: The name of the barrier; use each name once.
        """
        if self._others:
            self.say(what)
            for other in self._others:
                while what not in self._said(other)["met"]:
                    time.sleep(WAIT_S)

    def say(self, what: str) -> None:
        """Tell the others that this process has reached a barrier, without waiting."""
        if self._others:
            self._own["met"] = [*self._own["met"], what]
            self._write()

    def said(self, process: int) -> list[str]:
        """Return the barriers that another process has reached, in order."""
        return list(self._said(process)["met"])

    def _said(self, other: int) -> dict[str, Any]:
        """Return what another process wrote last; of another launch, nothing."""
        nothing: dict[str, Any] = {"met": [], "beat": None, "end": None, "token": None}
        try:
            found = json.loads((self.folder / f"{other}.json").read_bytes())
        except (OSError, ValueError):
            return nothing
        return found if found["launch"] == self._own["launch"] else nothing

    def _joined(self, other: int) -> bool:
        """Tell whether a process is of this launch; what a former one left is not."""
        if other == 0 and self._own["launch"] is None:
            said = self._said_by_first()
            before = self._seen.setdefault(0, (said, 0.0))[0]
            if said is None or said == before:
                return False
            self._own["launch"] = said[0]
            self._write()
        return self._said(other)["token"] is not None

    def _said_by_first(self) -> tuple[str, int] | None:
        try:
            found = json.loads((self.folder / "0.json").read_bytes())
        except (OSError, ValueError):
            return None
        return found["token"], found["beat"]

    def _write(self) -> None:
        with self._writing:
            self._own["beat"] += 1
            # No `atomic_path`: its leftovers are cleared by whoever begins a run.
            new = self.folder / f"{self.process}.next"
            new.write_text(json.dumps(self._own), encoding="utf-8")
            os.replace(new, self.folder / f"{self.process}.json")

    def _watch(self) -> None:
        while not self._over.wait(BEAT_S):
            self._write()
            for other in self._others:
                self._look_at(other)

    def _look_at(self, other: int) -> None:
        said, now = self._said(other), time.monotonic()
        beat, since = self._seen[other]
        if said["beat"] != beat:
            self._seen[other] = said["beat"], now
        if said["end"] == "well":
            return
        where = f"{said.get('machine')}, process {said.get('number')} there"
        if said["end"]:
            _stop(f"Worker {other} of {self.processes} ({where}) ended: {said['end']}")
        if self._free(other):
            _stop(f"Worker {other} of {self.processes} ({where}) was ended.")
        if said["beat"] == beat and now - since > SILENT_S:
            silent = f"has been silent for {now - since:.0f} s"
            _stop(f"Worker {other} of {self.processes} ({where}) {silent}.")

    def _free(self, other: int) -> bool:
        """Tell whether the lock of a process is free, which ends with the process."""
        with open(self.folder / f"{other}.lock", "ab") as file:
            try:
                lock_file(file, wait=False)
            except OSError:
                return False
        # It may have ended well, between both looks.
        return self._said(other)["end"] is None


def _stop(why: str) -> NoReturn:
    print(
        f"Error: {why} This process stops, too. Start all of them again: training goes "
        "on behind the last checkpoint.",
        file=sys.stderr,
        flush=True,
    )
    os._exit(LOST)
