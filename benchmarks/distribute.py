"""Every stage on several devices and processes beside one device.

1, 2 and 4 logical devices of one process, under TensorFlow and JAX, then 2 and 3
processes of JAX on the loopback. In float64 SGD shows the first gradient and the
losses, in float32 AdamW shows fifty losses at a recipe's rate, and SGD the gradient.
Each row says by how much: the gradient as a share of its largest entry, losses as
shares of each.

    python benchmarks/distribute.py --json
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

WORKER = Path(__file__).with_name("distribute_worker.py")
RESULT = Path(__file__).parent / "results" / "distribute.json"
BACKENDS = ("tensorflow", "jax")
LAYOUTS = ((1, 1), (1, 2), (1, 4), (2, 1), (3, 1))  # processes, devices of each
ROWS = {1: 8, 2: 8, 3: 12, 4: 8}  # of a batch, by replicas
KINDS = (("float64", "sgd", 50), ("float32", "sgd", 1), ("float32", "adamw", 50))
DEVICES = "--xla_force_host_platform_device_count"


def free_port() -> int:
    """Return a port that nothing listens to."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def environment(backend: str, devices: int, compiled: str) -> dict[str, str]:
    """Return what a process of a backend begins with.

    Args:
        backend: "tensorflow" or "jax".
        devices: Logical devices of the process.
        compiled: Folder of what JAX has compiled, for all processes.
    """
    root = str(Path(__file__).resolve().parents[1])
    own = {"KERAS_BACKEND": backend, "PYTHONPATH": root}
    if backend == "jax":
        own |= {
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_X64": "1",
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # of the compiler
            "JAX_COMPILATION_CACHE_DIR": compiled,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {DEVICES}={devices}",
        }
    return own


def cluster(process: int, processes: int, port: int) -> dict[str, str]:
    """Return what tells a process of JAX of the others; nothing where it is alone."""
    if processes == 1:
        return {}
    return {
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": f"127.0.0.1:{port}",
        "KERAS_DISTRIBUTION_NUM_PROCESSES": str(processes),
        "KERAS_DISTRIBUTION_PROCESS_ID": str(process),
    }


def start(
    backend: str,
    compiled: str,
    *options: object,
    processes: int = 1,
    devices: int = 1,
    of_process: dict[int, tuple[object, ...]] | None = None,
    program: tuple[object, ...] | None = None,
) -> list["subprocess.Popen[str]"]:
    """Start the processes of a training.

    Args:
        backend: "tensorflow" or "jax".
        compiled: Folder of what JAX has compiled.
        *options: Of the worker.
        processes: How many; under TensorFlow 1.
        devices: Logical devices of each.
        of_process: Further options by the number of a process.
        program: What Python runs, with its arguments, by default the worker.
    """
    port = free_port()
    found = []
    for process in range(processes):
        own = environment(backend, devices, compiled)
        own |= cluster(process, processes, port)
        command = [sys.executable, *(program or (WORKER, "--devices", devices))]
        command += options
        command += (of_process or {}).get(process, ())
        found.append(
            subprocess.Popen(
                [str(part) for part in command],
                env=os.environ | own,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return found


def rows_of(processes: list["subprocess.Popen[str]"]) -> list[list[dict[str, object]]]:
    """Return what each process printed, once all have ended well."""
    said = [process.communicate() for process in processes]
    for process, (_, errors) in zip(processes, said, strict=True):
        if process.returncode:
            raise SystemExit(f"A worker ended with {process.returncode}:\n{errors}")
    lines = [[it for it in out.splitlines() if it[:1] == "{"] for out, _ in said]
    return [[json.loads(line) for line in found] for found in lines]  # Gloo prints, too


def main() -> None:
    """Do all cases and say what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help=f"Write {RESULT.name}, too")
    parser.add_argument("--backends", nargs="+", default=BACKENDS)
    parser.add_argument("--cases", help="Names with commas; by default all.")
    parser.add_argument("--steps", type=int, help="At most so many steps.")
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as compiled:
        for backend in given.backends:
            for processes, devices in LAYOUTS:
                if processes > 1 and backend == "tensorflow":
                    continue
                for dtype, optimizer, steps in KINDS:
                    options = ["--optimizer", optimizer, "--rows"]
                    options += [ROWS[processes * devices], "--steps"]
                    options += [min(steps, given.steps or steps)]
                    options += ["--float64"] * (dtype == "float64")
                    options += ["--cases", given.cases] if given.cases else []
                    layout = {"processes": processes, "devices": devices}
                    for row in rows_of(start(backend, compiled, *options, **layout))[0]:
                        row |= {"backend": backend, "dtype": dtype}
                        found.append(row | {"optimizer": optimizer})
                        print(json.dumps(found[-1]), flush=True)
    exact = [row for row in found if row["dtype"] == "float64"]
    worst = max(max(row["gradient"], row["losses"]) for row in exact)
    found.append({"max_difference": worst})
    print(json.dumps(found[-1]))
    if given.json:
        RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
