"""What a wheel must be before it is released."""

import runpy
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "release.py"))
RELEASE = TOOL["Release"]("somewhere", "mine", most=2000, most_installed=1)
VERSION = TOOL["version"]()
METADATA = """Metadata-Version: 2.4
Name: mine
Version: {version}
License-Expression: {licence}

A description.
"""


def wheel(folder, version=VERSION, licence="Apache-2.0", files=("mine/__init__.py",)):
    path = folder / f"mine-{version}-py3-none-any.whl"
    info = f"mine-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        content = METADATA.format(version=version, licence=licence)
        archive.writestr(f"{info}/METADATA", content)
        for name in files:
            archive.writestr(name.replace("INFO", info), "x" * 1000)
    return path


WHOLE = ("mine/__init__.py", "INFO/licenses/LICENSE")


def test_a_wheel_as_it_must_be(tmp_path):
    large = RELEASE._replace(most=10_000)
    TOOL["check"](large, wheel(tmp_path, files=WHOLE))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"version": "0.0.1", "files": WHOLE}, "its version is 0.0.1"),
        ({"licence": "MIT", "files": WHOLE}, "its licence is MIT"),
        ({}, "it carries no licence"),
        ({"files": (*WHOLE, "tests/a.py")}, r"it holds \['mine', 'tests'\]"),
        ({"files": (*WHOLE, "mine/b.py")}, "bytes, more than 2,000"),
    ],
)
def test_a_wheel_that_is_wrong(tmp_path, fields, reason):
    with pytest.raises(TOOL["WrongError"], match=reason):
        TOOL["check"](RELEASE, wheel(tmp_path, **fields))


def test_all_parts_have_the_version_of_the_citation():
    for release in TOOL["RELEASES"].values():
        text = (ROOT / release.folder / "pyproject.toml").read_text(encoding="utf-8")
        assert tomllib.loads(text)["project"]["version"] == VERSION
