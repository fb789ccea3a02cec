"""Systems that are compared, each in a process of its own: one JSON object a line."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

QUIET = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TOKENIZERS_PARALLELISM": "false",
}

# Leaves AVX-512 unused in oneDNN, XLA, torch and MKL.
LIMITS = {
    "all": {},
    "avx2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
}


class Worker:
    """A process that does the jobs it is given.

    Args:
        command: What starts it.
        log: File for what it writes to standard error.
    """

    def __init__(self, command: Sequence[Any], log: Path) -> None:
        self.log = log
        with open(log, "wb") as errors:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | QUIET,
                text=True,
            )
        self.packages = self._read()

    def _read(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(self.log.read_text(errors="replace")[-2000:])
        return json.loads(line)

    def ask(self, do: str, **job: Any) -> dict[str, Any]:
        """Call a method of its object and return the answer."""
        self.process.stdin.write(json.dumps({"do": do} | job) + "\n")
        self.process.stdin.flush()
        return self._read()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *error: object) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def serve(make: Callable[[], Any], packages: Sequence[str]) -> None:
    """Answer the jobs of standard input; libraries print to standard error.

    Args:
        make: Makes the object whose methods are the jobs.
        packages: Those whose versions are the first answer.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    made = make()
    print(json.dumps({it: version(it) for it in packages}), file=answers, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        answer = getattr(made, job.pop("do"))(**job)
        print(json.dumps(answer), file=answers, flush=True)


def private_bytes(process: int | str = "self") -> int:
    """Return the anonymous resident and swapped memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return sum(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "VmSwap"))
