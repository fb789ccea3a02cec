"""SECURITY.md lists the limits that hold."""

import re
from pathlib import Path

from keras_msd.io import limits
from keras_msd.io.limits import Limit

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_limit_is_listed():
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([\d,]+) \| (.+) \|$", PAGE, re.M)
    wanted = {
        name: (f"{limit.most:,}", limit.of)
        for name, limit in vars(limits).items()
        if isinstance(limit, Limit)
    }
    assert len(wanted) > 10
    assert {name: tuple(rest) for name, *rest in rows} == wanted


def test_every_limit_is_used():
    code = "".join(
        path.read_text()
        for path in (ROOT / "keras_msd").rglob("*.py")
        if path.name != "limits.py"
    )
    for name, limit in vars(limits).items():
        if isinstance(limit, Limit):
            assert re.search(rf"\b{name}\b", code), name


def test_files_on_the_page_exist():
    for path in re.findall(r"(?:tests|benchmarks)/[\w.*]+", PAGE):
        assert list(ROOT.glob(path.rstrip("."))), path
