"""Reports of all runs, and what a run has that its paper does not."""

import json
import re
from html import unescape

import pytest
import tomli_w
from test_report import table_row, write_run

from keras_msd.checks import InputError
from keras_msd.recipes.listing import describe
from keras_msd.recipes.load import load_recipe, recipe_names
from keras_msd.report import write_report, write_report_of_all
from keras_msd.report.reports import differences


def report(folder):
    """Return the page."""
    return write_report_of_all(folder).read_text()


def test_each_run_has_its_verdict_and_a_link(tmp_path):
    for name in ("one", "several"):
        write_run(tmp_path / name)
    page = report(tmp_path)
    for name in ("one", "several"):
        _, verdict = table_row(page, name)
        assert verdict.startswith("student keeps 96.2 % of the assistant")
        assert f"href='{name}/report.html'" in page
    assert "default-src 'none'" in page and "<script" not in page


def test_a_failure_is_named(tmp_path):
    failed = [{"recipe": "broken", "error": "InputError: <b>no</b>"}]
    (tmp_path / "results.json").write_text(json.dumps(failed))
    assert table_row(report(tmp_path), "broken")[1] == "InputError: <b>no</b>"


def test_no_runs_and_no_folder(tmp_path):
    assert "0 finished runs" in report(tmp_path)
    with pytest.raises(InputError, match="folder of runs"):
        write_report_of_all(tmp_path / "none")


def add_of_papers(folder, name, scale="paper", **overrides):
    """Write the folder of a finished run of a packaged recipe; return it."""
    own = folder / name
    own.mkdir(parents=True)
    recipe = load_recipe(name, scale, overrides)
    (own / "recipe.toml").write_text(tomli_w.dumps(recipe.settings()), encoding="utf-8")
    scores = {"recipe": name, "scale": scale, "rows": []}
    (own / "scores.json").write_text(json.dumps(scores))
    (own / "timings.json").write_text('{"parts": {}}')
    return own


def page_of(folder):
    """Return the text of a run's report, cells set apart by bars."""
    text = re.sub("<svg.*?</svg>", "", write_report(folder).read_text(), flags=re.S)
    return unescape(re.sub("(<[^>]*>)+", "|", text))


def test_what_is_not_as_published_is_listed(tmp_path):
    page = page_of(add_of_papers(tmp_path / "a", "msd_minilm_ru3"))
    row = "MiniLM <- SBERT-paraphrases, no bottleneck, RU 3"
    assert f"Findings of NAACL 2022, table 1 and 2; 7 and 8, row {row}. Eval" in page
    assert "As published." not in page
    row = "stages.contrastive_learning.dims|mean|the paper prints a sum"
    assert row in page and "|paper scale|" not in page
    changes = {"stages.contrastive_learning.temperature": 0.25}
    page = page_of(add_of_papers(tmp_path / "b", "msd_minilm_ru3", **changes))
    assert "|stages.contrastive_learning.temperature|0.25|0.05|" in page
    page = page_of(add_of_papers(tmp_path / "c", "tiny12", "lab"))
    assert "scale lab. A recipe of our own, no row of a paper." in page
    assert "The recipe has no paper scale" in page


def test_every_reason_is_of_a_setting():
    for authors in ("Ding et al.", "Mao and Nakagawa"):
        abouts = [describe(name) for name in recipe_names()]
        names = [
            about.name
            for about in abouts
            if "paper" in about.scales and about.citation.startswith(authors)
        ]
        recipes = [load_recipe(name, "paper").settings() for name in names]
        assert recipes
        said = {key for recipe in recipes for key, _, _ in differences(recipe).ours}
        assert {key for recipe in recipes for key in recipe["recipe"]["ours"]} == said


SEVEN = ["ar", "de", "es", "fr", "it", "nl", "tr"]
FOUR = ["ted2020", "wikimatrix", "europarl", "news-commentary"]
TUNED = {  # of each stage: section on implementation
    "learning_rate": 2e-5, "warmup": 0.1, "schedule": None, "weight_decay": None,
    "clip_norm": None, "dims": "sum",  # equations 2, 3, 4 and 6
}  # fmt: skip
LENGTHS = {  # epochs and batch, the same; none for the batch of stage 4
    "teach_assistant": (20, 64), "align_embedding": (20, 64),
    "teach_student": (20, 64), "contrastive_learning": (60, None),
}  # fmt: skip
DING = {
    "evaluate.sets": ["sts2017-extended"],  # tables 1 and 2
    "precision": None,
    "data.languages": SEVEN,  # training data
    "data.corpora": FOUR,  # training data, stages 1 to 3
    "data.pairs_per_file": None,
    "data.max_length": 128,  # section on implementation
    "data.max_characters": None,
    "data.temperature": None,
    "data.seed": None,
    "student.start": None,
    "stages.teach_assistant.skip": False,  # equation 2: four stages
    "stages.align_embedding.skip": False,
    "stages.align_embedding.per_token": None,  # equation 3
    "stages.contrastive_learning.corpora": ["ted2020"],  # training data, stage 4
    "stages.contrastive_learning.target": "soft",  # equation 5
    "stages.contrastive_learning.kd_weight": 1.0,  # equation 7
    "stages.contrastive_learning.contrastive_weight": 1.0,  # equation 7
} | {
    f"stages.{stage}.{key}": value
    for stage, (epochs, batch) in LENGTHS.items()
    for key, value in (TUNED | {"epochs": epochs, "batch_size": batch}).items()
}  # fmt: skip
MAO = {
    "evaluate.sets": ["tatoeba", "un", "bucc2018"],  # table 2
    "evaluate.languages.tatoeba": ["all"],  # table 2: 112, as LASER's set has them
    "precision": None,
    "data.languages": "109 languages",  # LaBSE's training data
    "data.max_length": 128,  # section on training
    "data.max_characters": None,
    "data.temperature": None,
    "data.seed": None,
    "student.dropout": None,
    "student.start": None,
    "stages.teach_thin_deep.batch_size": "8,192 sentences",  # appendix B
    "stages.teach_thin_deep.warmup_steps": None,
    "stages.teach_thin_deep.schedule": None,
    "stages.teach_thin_deep.weight_decay": None,
    "stages.teach_thin_deep.clip_norm": None,
    "stages.teach_thin_deep.margin": None,
    "stages.teach_thin_deep.scale": None,  # equation 4: cosines, times nothing
    "stages.teach_thin_deep.temperature": 100.0,  # section 4.2
    "stages.teach_thin_deep.dims": "sum",  # equation 3
    "stages.teach_thin_deep.chunk_size": None,
    "stages.teach_thin_deep.ams_weight": "all other pairs are negatives",  # eq. 2
} | {
    f"{place}.{key}": value
    for place in ("reduction", "stages.teach_thin_deep.reduction")
    for key, value in {
        "steps": 5000,  # section 3.2
        "batch_size": "8,192 sentences",  # appendix B
        "learning_rate": "1e-3 above width 384",  # appendix B
        "margin": None,
        "scale": None,
    }.items()
}
OF_PAPER = {"msd": DING, "lealla": MAO}
# Rows whose experiment is another one, by the row's own description, are left out.
OTHERS = "msd_layers", "msd_ablations", "msd_stages", "msd_convergence", "msd_sizes"
PAPER_SCALE = [
    name
    for name in recipe_names()
    if "paper" in describe(name).scales
    and name.startswith(("msd_", "lealla_"))
    and not name.startswith(OTHERS)
    and not name.endswith("_nli_stsb")
]


def value_of(settings, dotted):
    for part in dotted.split("."):
        settings = settings.get(part) if isinstance(settings, dict) else None
    return settings


def printed_for(name):
    """Return the settings that the paper's list has for a recipe."""
    printed = OF_PAPER[name.partition("_")[0]]
    if name.endswith(("_df", "_syn")):  # table 4
        kind = "pooler with tanh" if name.endswith("_df") else "synchronized"
        printed = printed | {"stages.teach_thin_deep.feature": kind}
    if "_xkd" in name:  # one stage, on the encoder itself
        printed = {k: v for k, v in printed.items() if not k.startswith("student.")}
        printed |= {"stages.align_embedding.skip": True}
    return printed


def deviating(name, settings):
    """Return the keys of that list in which a recipe is not as printed."""
    stages = {stage for stage, it in settings["stages"].items() if not it["skip"]}
    syn = value_of(settings, "stages.teach_thin_deep.feature") == "synchronized"
    reduces = bool(value_of(settings, "reduction.widths"))
    trained = settings["student"]["kind"] != "none"
    for key, printed in printed_for(name).items():
        section, first, *_ = [*key.split("."), ""]
        of_stage = section != "stages" or first in stages or key.endswith(".skip")
        if ".reduction." in key:
            of_stage = of_stage and syn
        if section == "reduction":
            of_stage = reduces
        of_training = section == "evaluate" or stages or reduces
        value = value_of(settings, key)
        if value in (None, printed) or not of_stage or not of_training:
            continue
        if section != "student" or trained:
            yield key


@pytest.mark.parametrize("name", PAPER_SCALE)
def test_all_that_differs_is_said(name):
    settings = load_recipe(name, "paper").settings()
    found = differences(settings)
    assert found.changed == []
    wanted = set(deviating(name, settings))
    assert wanted - {key for key, _, _ in found.ours} == set()
    for key, value, why in found.ours:
        assert value and why and value_of(settings, key) is not None, key


def test_what_a_recipe_does_not_run_is_not_said():
    ours = {
        key
        for key, _, _ in differences(load_recipe("msd_labse", "paper").settings()).ours
    }
    assert ours == {"evaluate.sets"}  # nothing is trained
    said = differences(load_recipe("msd_mbert_nli_stsb", "paper").settings()).ours
    keys = {key for key, _, _ in said}  # no pairs are read
    assert "stages.classify_inference.epochs" in keys
    assert not [key for key in keys if key.startswith("data.") or key.endswith("skip")]
    said = differences(load_recipe("lealla_row8", "paper").settings()).ours
    assert not [key for key, _, _ in said if "reduction" in key]
    said = differences(load_recipe("msd_stages", "paper").settings()).ours
    assert "stages.teach_assistant.skip" not in {key for key, _, _ in said}
