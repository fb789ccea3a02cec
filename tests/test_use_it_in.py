"""Snippets of docs/use_it_in.md and docs/search.md whose packages are installed."""

import ast
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    import neighbours
finally:
    sys.path.remove(str(BENCHMARKS))

SECTIONS = neighbours.sections()


def installed(packages):
    try:
        return [version(name.split("==")[0].split("[")[0]) for name in packages]
    except PackageNotFoundError:
        return []


@pytest.mark.parametrize("name", SECTIONS)
def test_a_snippet_prints_what_the_page_says(name, tmp_path):
    packages, code = SECTIONS[name]
    ast.parse(code)
    assert neighbours.PRINTED.findall(code), "nothing is compared"
    if not installed(packages):
        pytest.skip("needs " + ", ".join(packages or ["a server"]))
    result = neighbours.run(sys.executable, code, tmp_path)
    assert result["ok"], result
