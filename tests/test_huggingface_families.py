"""Students of every recipe, small, as a Hugging Face folder: a BERT, or why not."""

import re

import pytest

from keras_msd.checks import InputError
from keras_msd.export import export
from keras_msd.models.student import build_student, thin_deep
from keras_msd.recipes import list_recipes, load_recipe
from keras_msd.starts.ridge import IDENTITY
from keras_msd.testing import tiny_encoder

pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("no_graphs")

LESS = ["weights", "int8"]
SMALL = {"hidden_dim": 16, "num_heads": 2, "intermediate_dim": 32, "max_length": 32}
# At the scale that a recipe has by default; None is a BERT.
WANTED = {
    "demo": "layers that normalise first .* and embeddings without a layer norm",
    "lealla_lab": "layers that normalise first .* and embeddings without a layer norm",
    "lealla_small": None,
    "msd_backbone": None,
    "msd_labse": None,
    "msd_minilm_b128_ru3": None,
    "msd_xlmr_xkd": None,
    "tiny12": "no layers",
    "xkd_lab": "layers that normalise first .* and embeddings without a layer norm",
}


def student_of(recipe, tokenizer):
    """Return an encoder that is built as a recipe's student is, with small widths."""
    student, assistant = recipe.student, recipe.assistant
    if student.kind == "thin_deep":
        starts = {"random": {}, "ridge": {"pooling": "mean", **IDENTITY}}
        fields = SMALL | {"num_layers": 1} | starts[student.start]
        return thin_deep(tokenizer, row=None, **fields)
    fields = SMALL | {"num_layers": 1}
    if assistant.source == "new":
        fields |= assistant.model_dump(
            include={"pooling", "normalize"}, exclude_none=True
        )
        fields |= IDENTITY if assistant.start == "ridge" else {}
        fields |= {"projection_dim": 8} if assistant.projection_dim else {}
        fields |= {"num_layers": 0} if assistant.num_layers == 0 else {}
    made = tiny_encoder(tokenizer, **fields)
    if student.kind == "none":
        return made
    width = 4 if student.bottleneck_dim else None
    return build_student(made, unit_layers=1, bottleneck_dim=width)


@pytest.fixture(scope="module")
def outcome_of(tokenizer, tmp_path_factory):
    """Return a function from an encoder to the reason that it is no BERT."""
    known = {}

    def outcome(encoder):
        key = encoder.config.model_dump_json()
        if key not in known:
            folder = tmp_path_factory.mktemp("made") / "folder"
            options = {"sentences": ["A cat.", "Eine Katze.", "Es regnet."]}
            options |= {"sts": [(1, "a", "b"), (0, "a", "c")], "max_sts_loss": 200}
            options |= {"min_neighbours": 0, "min_cosine": 0}
            try:
                export(encoder, folder, "huggingface", leave_out=["int8"], **options)
                known[key] = None
            except InputError as error:
                known[key] = str(error)
                export(encoder, folder, "huggingface", leave_out=LESS, **options)
            weights = (folder / "model.safetensors").is_file()
            assert weights is (known[key] is None)
            assert (folder / "onnx" / "model.onnx").is_file()
        return known[key]

    return outcome


@pytest.mark.parametrize(("name", "reason"), WANTED.items())
def test_a_student_of_each_family(name, reason, tokenizer, outcome_of):
    recipe = load_recipe(name)
    found = outcome_of(student_of(recipe, tokenizer))
    assert (found is None) == (reason is None)
    assert reason is None or re.search(reason, found)


@pytest.mark.slow
def test_every_recipe_exports_or_says_why_not(tokenizer, outcome_of):
    said = set()
    for about in list_recipes():
        for scale in about["scales"]:
            recipe = load_recipe(about["name"], scale)
            said.add(outcome_of(student_of(recipe, tokenizer)) is None)
    assert said == {True, False}
