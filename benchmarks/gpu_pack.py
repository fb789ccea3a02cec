"""Packs this library for a machine with JAX alone; called by gpu.sh."""

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "keras_msd", "recipes", "export")
SCRIPTS = ("gpu.sh", "gpu_run.py")
# What a run imports under JAX, beside what JAX itself brings. TensorFlow, matplotlib,
# h5py and typer are declared and not imported.
PACKAGES = (
    "absl-py annotated-types filelock keras keras-hub optree packaging protobuf "
    "pydantic pydantic-core regex rich safetensors sentencepiece tokenizers tomli-w "
    "tqdm typing-extensions typing-inspection"
).split()
PLATFORMS = ("manylinux2014", *(f"manylinux_2_{minor}" for minor in range(17, 29)))
MIB = 1 << 20


def write_packages(site: Path, python: str) -> None:
    """Unpack this library and the packages it needs for a version of Python."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "--no-deps", "--no-compile", "--target"]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        lock = (ROOT / "requirements.txt").read_text(encoding="utf-8")
        blocks = re.split(r"^(?=[a-z])", lock, flags=re.M)
        taken = [it for it in blocks if it.partition("==")[0] in PACKAGES]
        (scratch / "lock.txt").write_text("".join(taken), encoding="utf-8")
        wheels = ["--only-binary=:all:", "--implementation", "cp"]
        wheels += ["--python-version", python]
        wheels += [f"--platform={system}_x86_64" for system in PLATFORMS]
        wheels += ["--require-hashes", "-r", str(scratch / "lock.txt")]
        subprocess.run([*install, str(site), *wheels], check=True)
        (scratch / "source").mkdir()
        for part in SOURCES:  # a copy, so that no old build folder gets into the wheel
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copyfile
            copy(ROOT / part, scratch / "source" / part)
        build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", name]
        subprocess.run([*pip, *build, str(scratch / "source")], check=True)
        (wheel,) = scratch.glob("keras_msd-*.whl")
        subprocess.run([*install, str(site), str(wheel)], check=True)


def main() -> None:
    """Write a pack and say how large it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    running = "{}.{}".format(*sys.version_info)
    parser.add_argument("--python-version", default=running, help="of the machine")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_packages(folder / "site", given.python_version)
        for script in SCRIPTS:
            shutil.copy(HERE / script, folder)
        with tarfile.open(given.out, "w:xz") as archive:
            for path in sorted(folder.iterdir()):
                archive.add(path, path.name)
    print(f"{given.out}: {given.out.stat().st_size / MIB:.1f} MiB")


if __name__ == "__main__":
    main()
