"""What a card is filled with: the run's languages and licences."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from keras_msd.cli.export import card_of
from keras_msd.data.corpora import LICENCES
from keras_msd.recipes import outputs
from keras_msd.recipes.outputs import data_licence, export, teacher_licence

TATOEBA = (
    "sentences of Tatoeba: CC BY 2.0 FR (Tatoeba's contributors, https://tatoeba.org)"
)


def threshold(encoder, pairs, name):
    """Return what says that it was asked of the pairs held out."""
    return {"cosine": 0.5, "pairs": len(pairs), "name": name}


def a_run(tmp_path, kind="folder", files=(), source="hashed-words", languages=("de",)):
    """Return as much of a run as its export looks at, and what it exports with."""
    given = {}

    def write(path, **options):
        given.update(options)

    data = SimpleNamespace(kind=kind, languages=languages)
    return given, SimpleNamespace(
        recipe=SimpleNamespace(data=data, teacher=SimpleNamespace(source=source)),
        folder=SimpleNamespace(path=tmp_path),
        training_files=lambda: [Path(name) for name in files],
        encoder=lambda step: SimpleNamespace(export=write),
    )


def test_a_run_says_languages_and_licences(tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "calibrate_threshold", threshold)
    monkeypatch.setattr(outputs, "held_out_pairs", lambda run: [[1, 2], [3]])
    readme = "---\nlanguage: en\nlicense: apache-2.0\ntags:\n- a\n---\n# Model\n"
    (tmp_path / "README.md").write_text(readme, encoding="utf-8")
    given, run = a_run(tmp_path, "examples", (), str(tmp_path), ("de", "fr"))
    export(run, tmp_path / "export_student", "step")
    assert given == {
        "format": "saved_model",
        "languages": ["en", "de", "fr"],
        "teacher_license": "apache-2.0",
        "data_license": TATOEBA,
        "threshold": threshold(None, "123", "held-out pairs in en, de, fr"),
    }


def test_a_card_lists_the_licences_of_the_training_corpora(tmp_path):
    files = "ted2020.en-de.tsv.gz", "ted2020.en-fr.tsv.gz", "mine.en-de.tsv.gz"
    _, run = a_run(tmp_path, files=files)
    ted = LICENCES["ted2020"]
    assert data_licence(run) == f"mine: not known; ted2020: {ted}"
    _, run = a_run(tmp_path, files=files[2:])
    assert data_licence(run) is None


@pytest.mark.parametrize(
    "text", [None, "# Model\nlicense: mit\n", "---\nlanguage: en\n---\nlicense: mit\n"]
)
def test_a_teacher_without_a_stated_licence(tmp_path, text):
    if text:
        (tmp_path / "README.md").write_text(text, encoding="utf-8")
    assert teacher_licence(str(tmp_path)) is None
    assert teacher_licence("hf://organisation/model") is None


def test_the_command_takes_what_the_run_said(tmp_path):
    art = tmp_path / "artefacts" / "student_saved_model"
    art.mkdir(parents=True)
    said = {"languages": ["de", "en"], "data_license": TATOEBA}
    (art / "card.json").write_text(json.dumps(said | {"teacher_license": None}))
    assert card_of(str(tmp_path / "student")) == said
    assert card_of(str(tmp_path / "other")) == {}
