"""Run every snippet of docs/use_it_in.md and docs/search.md against the real package.

    python benchmarks/neighbours.py --out benchmarks/results/neighbours.json
    python benchmarks/neighbours.py --only FAISS,pandas --python .venv/bin/python

Makes one environment with keras-msd, tiny12 and the versions that the pages name, as
far as pip finds that they fit together; `--python` takes an environment that has them.
Each section runs in a process of its own, in an empty folder, and must print what the
page says; a block that only imports a package runs before the page's first lines. Then
LangChain's standard tests for embeddings run there. Prints one JSON object; exit code 1
if anything failed. `--out` is written after each section, and keeps those of an earlier
run that are not run again.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_msd.io.files import read_json, write_json

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "docs/use_it_in.md", ROOT / "docs/search.md"]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^print\(.*\)  # (.+)$", re.MULTILINE)
SERVER, TESTED = "Any OpenAI client", "langchain-tests"
TESTS = ["langchain-tests==1.1.9", "openai==3.57.0"]
EXTRAS = "onnx,serve"
VERSIONS = """
import importlib.metadata, json, sys
found = {it.name: it.version for it in importlib.metadata.distributions()}
print(json.dumps({name: found[name] for name in sys.argv[1:] if name in found}))
"""


def sections() -> dict[str, tuple[list[str], str]]:
    """Return of each section the packages, and its code with the page's first lines."""
    return {name: one for page in PAGES for name, one in sections_of(page)}


def sections_of(page: Path) -> Iterator[tuple[str, tuple[list[str], str]]]:
    """Yield the sections of a page that install a package, or use the server."""
    first, *parts = re.split("\n##+ ", page.read_text(encoding="utf-8"))
    head = "".join(text for _, text in BLOCK.findall(first))
    for part in parts:
        blocks = BLOCK.findall(part)
        code = [text for language, text in blocks if language == "python"]
        shell = "".join(text for language, text in blocks if language == "sh")
        packages = re.findall(r"[\w.\[\]-]+==[\w.]+", shell)
        name = part.split("\n")[0]
        if packages or name == SERVER:
            code.insert(bool(re.fullmatch(r"import \w+\n", code[0])), head)
            yield name, (packages, "\n".join(code))


def environment(folder: Path, packages: list[str]) -> str:
    """Make an environment with the packages; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", *packages]
    light = [str(ROOT / "packages" / name) for name in ("tiny12", "small12")]
    ours = [f"{ROOT}[{EXTRAS}]", *light]
    subprocess.run([*install, *ours], check=True)
    return python


def run(python: str, code: str, folder: Path) -> dict[str, Any]:
    """Run a snippet; return whether it printed what it says, and what it took."""
    began = time.monotonic()
    done = subprocess.run(
        [python, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1200,
        # Ray and Spark start workers, which must find the same Python.
        env=os.environ | {"PYSPARK_PYTHON": python, "CUDA_VISIBLE_DEVICES": "-1"},
    )
    printed = done.stdout.splitlines()
    wanted = PRINTED.findall(code)
    ok = done.returncode == 0 and printed[-len(wanted) :] == wanted
    result = {"ok": ok, "seconds": round(time.monotonic() - began, 1)}
    if not ok:
        result |= {"printed": printed[-20:], "error": done.stderr[-3000:]}
    return result


def serve(python: str) -> subprocess.Popen[str]:
    """Start the server that the page starts, and wait until it listens."""
    server = subprocess.Popen(
        [python, "-m", "keras_msd", "serve", "tiny12", "--port", "8000"],
        stdout=subprocess.PIPE,
        text=True,
    )
    if server.stdout is None or "/v1" not in server.stdout.readline():
        raise SystemExit("The server did not start.")
    return server


def standard_tests(python: str) -> dict[str, Any]:
    """Run LangChain's standard tests for embeddings with ours."""
    tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    for option in ("asyncio_mode=auto", "asyncio_default_fixture_loop_scope=function"):
        tests += ["-o", option]
    command = [*tests, str(ROOT / "tests/test_integrations.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    last = done.stdout.strip().splitlines()[-1:]
    return {"ok": done.returncode == 0, "printed": last}


def main() -> int:
    """Run the pages; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", help="of an environment that has the packages")
    parser.add_argument("--only", default="", help="sections, with commas")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = sections()
    only = options.only.split(",") if options.only else [*found, TESTED]
    packages = sorted({name for names, _ in found.values() for name in names})
    out = options.out
    earlier = read_json(out) if out and out.is_file() else {"sections": {}}
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        python = options.python or environment(Path(place) / "venv", packages + TESTS)
        python = str(Path(python).absolute())
        names = [re.split(r"\[|==", name)[0] for name in packages + TESTS]
        asked = [python, "-c", VERSIONS, *names]
        versions = json.loads(subprocess.check_output(asked, text=True))
        for name in only:
            folder = Path(place) / re.sub(r"\W", "", name)
            folder.mkdir()
            if name == TESTED:
                result[name] = standard_tests(python)
            else:
                server = serve(python) if name == SERVER else None
                result[name] = run(python, found[name][1], folder)
                if server is not None:
                    server.terminate()
                    server.wait()
            print(name, result[name], file=sys.stderr, flush=True)
            if out:
                kept = {"sections": earlier["sections"] | result}
                write_json(
                    out, kept | {"versions": earlier.get("versions", {}) | versions}
                )
    print(json.dumps({"sections": result, "versions": versions}, indent=2))
    return int(not all(one["ok"] for one in result.values()))


if __name__ == "__main__":
    sys.exit(main())
