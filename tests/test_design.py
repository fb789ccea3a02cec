"""The map in docs/design.md is read against the code."""

import ast
import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "keras_msd"
PAGE = (ROOT / "docs/design.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """Return the cells of a section's table, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def named(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def defined(folder: Path) -> set[str]:
    """Return what the modules of a folder define at their top."""
    found = set()
    for path in folder.glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Assign):
                found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


def folders(cell: str) -> list[Path]:
    return [
        PACKAGE / name.removeprefix("keras_msd/").rstrip("/") for name in named(cell)
    ]


def test_every_room_is_on_the_map():
    shown = {room for cell, *_ in rows("Rooms") for room in folders(cell)}
    there = {path.parent for path in PACKAGE.rglob("__init__.py")}
    assert there - shown == {PACKAGE / "recipes"}  # its four rooms are
    assert shown - there == set()


def test_every_name_on_the_map_is_defined_in_its_room():
    count = 0
    for cell, _, begin in rows("Rooms"):
        names = set().union(*(defined(folder) for folder in folders(cell)))
        assert set(named(begin)) - names == set(), cell
        count += len(named(begin))
    assert count > 40


def test_every_record_and_table_is_there():
    for _, record, table in rows("What is added with one record"):
        room, _, name = named(table)[0].removeprefix("msd.").rpartition(".")
        module = import_module(f"keras_msd.{room}")
        known = next(iter(getattr(module, name).values()))
        assert type(known) is getattr(module, named(record)[0])
