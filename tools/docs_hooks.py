"""What `make docs` does beside MkDocs: pages from outside docs/, links, reference."""

import ast
import posixpath
import re
from pathlib import Path
from typing import Any

import typer
from griffe import Extension, Object
from mkdocs.structure.files import File
from typer.cli import get_docs_for_click

from keras_msd.cli import app

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "keras_msd"
# Pages that stand elsewhere in the repository, under the same path on the site.
ELSEWHERE = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "experiments/README.md",
    "experiments/papers.md",
    "export/README.md",
    "export/web/README.md",
    "packages/mini12/README.md",
    "packages/small12/README.md",
    "packages/tiny12/README.md",
    "recipes/README.md",
)
LINK = re.compile(r"\[([^\]\n]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """List the pages of the reference."""
    (menu,) = (entry["Reference"] for entry in config.nav if "Reference" in entry)
    (python,) = (entry for entry in menu if "Python" in entry)
    python["Python"] = [
        {room.removeprefix("keras_msd."): f"reference/{room}.md"} for room in offered()
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from elsewhere and one page of reference for each room."""
    figures = (ROOT / "experiments" / "figures").glob("*.svg")
    drawn = [path.relative_to(ROOT).as_posix() for path in sorted(figures)]
    for name in (*ELSEWHERE, *drawn):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for room in offered():
        page = f"reference/{room}.md"
        files.append(File.generated(config, page, content=reference(room)))
    files.append(File.generated(config, "commands.md", content=commands()))
    return files


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """Turn links between files of the repository into links of the site.

    Of a link to a file that is no page the words stay. One that leads nowhere is left,
    for MkDocs to find.
    """
    source = page.file.abs_src_path
    if source is None:
        return markdown
    place = Path(source).relative_to(ROOT).parent

    def linked(match: re.Match[str]) -> str:
        words, target, anchor = match.groups()
        path = posixpath.normpath((place / target).as_posix())
        on_site = next((u for u in uris(path) if files.get_file_from_path(u)), None)
        if on_site:
            start = posixpath.dirname(page.file.src_uri)
            return f"[{words}]({posixpath.relpath(on_site, start)}{anchor or ''})"
        return words if (ROOT / path).exists() else match[0]

    return LINK.sub(linked, markdown)


def uris(path: str) -> list[str]:
    """Return where the site may have a path of the repository, such as a folder."""
    return [path.removeprefix("docs/"), f"{path}/README.md"]


def commands() -> str:
    """Return the page of the command line, made from the help texts."""
    command = typer.main.get_command(app)
    with command.make_context("keras-msd", [], resilient_parsing=True) as context:
        text = get_docs_for_click(obj=command, ctx=context, name="keras-msd")
    return text.replace("# `keras-msd`", "# Commands", 1)


def offered() -> dict[str, dict[str, str]]:
    """Return the public names of each room, each with the path of its definition.

    A room is a package with a stub, or a module with a list `__all__`.
    """
    rooms: dict[str, dict[str, str]] = {}
    for module in PACKAGE.glob("*.py"):
        room = f"{PACKAGE.name}.{module.stem}"
        for node in ast.parse(module.read_text("utf-8")).body:
            if ast.unparse(node).startswith("__all__ = ["):
                names = ast.literal_eval(ast.unparse(node).partition(" = ")[2])
                rooms[room] = {name: f"{room}.{name}" for name in names}
    for stub in PACKAGE.rglob("__init__.pyi"):
        room = ".".join(stub.parent.relative_to(ROOT).parts)
        rooms[room] = {
            alias.name: f"{node.module}.{alias.name}"
            for node in ast.parse(stub.read_text("utf-8")).body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if not alias.name.startswith("__")
        }
    return dict(sorted(rooms.items()))


def reference(room: str) -> str:
    """Return a page with the docstring of each public name of a room.

    What several rooms offer is described where it is defined, and linked elsewhere.
    """
    rooms = offered()
    doc = ast.get_docstring(ast.parse(init(room).read_text("utf-8")))
    links, descriptions = [], []
    for name, path in rooms[room].items():
        others = [other for other in rooms if path in rooms[other].values()]
        if path in rooms:
            links.append(f"- [{path}]({path}.md)")
        elif room == max(others, key=lambda other: path.startswith(f"{other}.")):
            descriptions.append(f"::: {path}")
        else:
            links.append(f"- [{name}][{path}]")
    parts = [f"# {room}", doc or "", "\n".join(links), *descriptions]
    return "\n\n".join(parts) + "\n"


def init(room: str) -> Path:
    """Return the file that a room begins with."""
    path = ROOT.joinpath(*room.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


class OurExamples(Extension):
    """Has the reference show the section `Example:` as code, as it does `Examples:`."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rename the section in one docstring."""
        if obj.docstring:
            value = obj.docstring.value
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", value, flags=re.M)
