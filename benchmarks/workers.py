"""Systems that are compared, each in a process of its own: one JSON object a line."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any


class Worker:
    """A process that does the jobs it is given.

    Args:
        name: What it is called where it fails.
        command: What starts it.
        log: File for what it writes to standard error.
        settings: Environment variables that it gets beside those there are.
    """

    def __init__(
        self, name: str, command: Sequence[Any], log: Path, settings: dict[str, Any]
    ) -> None:
        self.name, self.log = name, log
        more = {key: str(value) for key, value in settings.items()}
        with open(log, "wb") as errors:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | more,
                text=True,
            )

    def read(self) -> dict[str, Any]:
        """Return its next answer."""
        line = self.process.stdout.readline()
        if not line:
            end = self.log.read_text(errors="replace")[-2000:]
            raise SystemExit(f"{self.name} ended early:\n{end}")
        return json.loads(line)

    def ask(self, **job: Any) -> dict[str, Any]:
        """Give it a job and return the answer."""
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return self.read()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *error: object) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def serve(start: Callable[[], tuple[dict[str, Any], Callable[..., Any]]]) -> None:
    """Answer the jobs of standard input; libraries print to standard error.

    Args:
        start: Returns a first answer, and what answers a job.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    first, answer = start()
    print(json.dumps(first), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


def serve_methods(make: Callable[[Path], Any], packages: Sequence[str]) -> None:
    """Serve an object whose methods are the jobs; versions are the first answer.

    Args:
        make: Makes the object from the path that the command line gives.
        packages: What it is made with.
    """

    def start() -> tuple[dict[str, Any], Callable[..., Any]]:
        system = make(Path(sys.argv[1]))
        versions = {name: version(name) for name in packages}
        return versions, lambda job: getattr(system, job.pop("do"))(**job)

    serve(start)
