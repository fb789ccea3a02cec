"""Build the wheels of a release, check them, and install them in empty environments.

    make release
    python tools/release.py --only tiny12 small12

Each wheel is built from a copy of its tracked files, with the licence. It must have the
version of CITATION.cff, pass `twine check --strict`, carry its licence, hold no other
top-level name than its own, and be small enough. Then it is installed alone in an empty
environment, whose size is printed, and the first lines of its README.md are run there.
`dist/` holds the wheels.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Sequence
from email import message_from_string
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
MEGA = 1_000_000


class Release(NamedTuple):
    """What a wheel must be.

    Attributes:
        folder: Its project, below the root of the repository.
        module: The only top-level name in it.
        most: Most bytes of the wheel. PyPI takes 100 MB.
        most_installed: Most bytes of its environment, without pip.
        needs: Other wheels that its first lines need.
    """

    folder: str
    module: str
    most: int
    most_installed: int
    needs: tuple[str, ...] = ()


RELEASES = {
    "tiny12": Release("packages/tiny12", "keras_msd_tiny12", 13 * MEGA, 110 * MEGA),
    "mini12": Release("packages/mini12", "keras_msd_mini12", 14 * MEGA, 190 * MEGA),
    "small12": Release("packages/small12", "keras_msd_small12", 36 * MEGA, 200 * MEGA),
    "keras-msd": Release(
        ".", "keras_msd", 3 * MEGA, 3500 * MEGA, ("tiny12", "small12")
    ),
}


class WrongError(Exception):
    """A wheel is not fit for a release."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build and check the wheels; print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=RELEASES, default=list(RELEASES))
    options = parser.parse_args(arguments)
    shutil.rmtree(DIST, ignore_errors=True)
    wheels: dict[str, Path] = {}
    try:
        for name in RELEASES:
            if name in options.only:
                wheels[name] = build(RELEASES[name])
                check(RELEASES[name], wheels[name])
        subprocess.run(
            [sys.executable, "-m", "twine", "check", "--strict", *wheels.values()],
            check=True,
        )
        for name, wheel in wheels.items():
            print(name, install(RELEASES[name], wheel, wheels), flush=True)
    except (WrongError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def build(release: Release) -> Path:
    """Build a wheel from a copy of the tracked files; return it."""
    git = shutil.which("git") or "git"
    command = [git, "ls-files", "-z", release.folder]
    listed = subprocess.check_output(command, cwd=ROOT, text=True)
    before = set(DIST.glob("*.whl"))
    with tempfile.TemporaryDirectory() as place:
        source = Path(place)
        for name in filter(None, listed.split("\0")):
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
        project = source / release.folder
        shutil.copy(ROOT / "LICENSE", project)
        made = [sys.executable, "-m", "build", "--wheel", "--outdir", DIST, project]
        done = subprocess.run(made, capture_output=True, text=True)
    if done.returncode:
        raise WrongError(f"`{release.folder}` is not built: {done.stderr[-2000:]}")
    (wheel,) = set(DIST.glob("*.whl")) - before
    return wheel


def version() -> str:
    """Return the version of the release."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    found = re.search("^version: (.+)$", text, re.MULTILINE)
    if not found:
        raise WrongError("CITATION.cff has no version")
    return found[1]


def check(release: Release, wheel: Path) -> None:
    """Raise `WrongError` unless version, licence, names and size are right."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (place,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = message_from_string(archive.read(place).decode())
    info = place.split("/")[0]
    tops = {name.split("/")[0] for name in names} - {info}
    size = wheel.stat().st_size
    wrong = {
        f"its version is {metadata['Version']}": metadata["Version"] != version(),
        f"it holds {sorted(tops)}": tops != {release.module},
        "it carries no licence": not any("licenses/LICENSE" in name for name in names),
        f"its licence is {metadata['License-Expression']}": (
            metadata["License-Expression"] != "Apache-2.0"
        ),
        f"it has {size:,} bytes, more than {release.most:,}": size > release.most,
    }
    if found := [what for what, is_so in wrong.items() if is_so]:
        raise WrongError(f"`{wheel.name}`: {', '.join(found)}")


def install(release: Release, wheel: Path, wheels: dict[str, Path]) -> str:
    """Install a wheel in an empty environment and run its README's first lines."""
    page = (ROOT / release.folder / "README.md").read_text(encoding="utf-8")
    first = PYTHON_BLOCK.search(page)
    if not first:
        raise WrongError(f"`{release.folder}/README.md` has no Python")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "env"
        venv.create(folder)
        program = "Scripts/python.exe" if os.name == "nt" else "bin/python"
        python = folder / program
        given = [wheel, *(wheels[name] for name in release.needs if name in wheels)]
        start = time.monotonic()
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
        subprocess.run([*pip, *given], check=True)
        seconds = time.monotonic() - start
        files = [path for path in folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files if not path.is_symlink())
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        command = [python, "-c", first[1]]
        subprocess.run(command, cwd=place, env=environment, check=True)
    if size > release.most_installed:
        raise WrongError(f"`{wheel.name}` takes {size:,} bytes when it is installed")
    wheel_bytes = wheel.stat().st_size
    return f"{wheel_bytes:,} bytes, {size:,} installed in {seconds:.0f} s; it runs"


if __name__ == "__main__":
    sys.exit(main())
