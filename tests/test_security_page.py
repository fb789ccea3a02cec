"""SECURITY.md lists the limits that hold."""

import re
from pathlib import Path

from keras_msd.io import files
from keras_msd.io.files import Limit

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_limit_is_listed():
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([\d,]+) \| (.+) \|$", PAGE, re.M)
    wanted = {
        name: (f"{limit.most:,}", limit.of)
        for name, limit in vars(files).items()
        if isinstance(limit, Limit)
    }
    assert wanted
    assert {name: tuple(rest) for name, *rest in rows} == wanted


def test_files_on_the_page_exist():
    for path in re.findall(r"(?:tests|benchmarks)/[\w.*]+", PAGE):
        assert list(ROOT.glob(path.rstrip("."))), path
