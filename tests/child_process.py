"""Python in a process of its own, for tests."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_python(code, *arguments, without=(), cwd=ROOT, **environment):
    """Run code where some packages cannot be imported; return what it prints."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({list(without)}))\n"
    own = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"} | environment
    done = subprocess.run(
        [sys.executable, "-c", blocked + code, *map(str, arguments)],
        cwd=cwd,
        env=os.environ | own,
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0 and "Traceback" not in done.stderr, told
    return done.stdout
