"""Run every snippet of docs/use_it_in.md against the real package.

    python benchmarks/neighbours.py --out benchmarks/results/neighbours.json
    python benchmarks/neighbours.py --only FAISS,pandas --python .venv/bin/python

Makes one environment with keras-msd, tiny12 and the versions that the page names, as
far as pip finds that they fit together; `--python` takes an environment that has them.
Each section runs in a process of its own, in an empty folder, and must print what the
page says. Then LangChain's standard tests for embeddings run there. Prints one JSON
object; exit code 1 if anything failed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/use_it_in.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^print\(.*\)  # (.+)$", re.MULTILINE)
SERVER = "Any OpenAI client"
TESTS = ["langchain-tests==1.1.9", "openai==3.57.0"]
EXTRAS = "onnx,serve"
VERSIONS = """
import importlib.metadata, json, sys
print(json.dumps({name: importlib.metadata.version(name) for name in sys.argv[1:]}))
"""


def sections() -> tuple[str, dict[str, tuple[list[str], str]]]:
    """Return the first lines, and of each section the packages and the snippets."""
    head, *parts = PAGE.read_text(encoding="utf-8").split("\n## ")
    found = {}
    for part in parts:
        blocks = BLOCK.findall(part)
        code = "".join(text for language, text in blocks if language == "python")
        shell = "".join(text for language, text in blocks if language == "sh")
        if code:
            packages = re.findall(r"[\w.\[\]-]+==[\w.]+", shell)
            found[part.split("\n")[0]] = packages, code
    return BLOCK.findall(head)[0][1], found


def environment(folder: Path, packages: list[str]) -> str:
    """Make an environment with the packages; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", *packages]
    ours = [f"{ROOT}[{EXTRAS}]", str(ROOT / "packages/tiny12")]
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


def main(arguments: list[str] | None = None) -> int:
    """Run the page; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", help="of an environment that has the packages")
    parser.add_argument("--only", default="", help="sections, with commas")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    head, found = sections()
    only = options.only.split(",") if options.only else list(found)
    packages = sorted({name for names, _ in found.values() for name in names})
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        python = options.python or environment(Path(place) / "venv", packages + TESTS)
        python = str(Path(python).absolute())
        for name in only:
            folder = Path(place) / re.sub(r"\W", "", name)
            folder.mkdir()
            server = serve(python) if name == SERVER else None
            result[name] = run(python, f"{head}\n{found[name][1]}", folder)
            if server is not None:
                server.terminate()
                server.wait()
            print(name, result[name], file=sys.stderr, flush=True)
        if not options.only:
            tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            done = subprocess.run(
                [*tests, ROOT / "tests/test_integrations.py"],
                cwd=ROOT,
                capture_output=True,
                text=True,
            )
            last = done.stdout.strip().splitlines()[-1:]
            passed = done.returncode == 0
            result["langchain-tests"] = {"ok": passed, "printed": last}
        names = [re.split(r"\[|==", name)[0] for name in packages + TESTS]
        versions = subprocess.run(
            [python, "-c", VERSIONS, *names], check=True, capture_output=True, text=True
        )
    answer = {"sections": result, "versions": json.loads(versions.stdout)}
    print(json.dumps(answer, indent=2))
    if options.out:
        options.out.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")
    return int(not all(one["ok"] for one in result.values()))


if __name__ == "__main__":
    sys.exit(main())
