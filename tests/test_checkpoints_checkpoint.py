"""Encoders from checkpoints, against what `transformers` and its kin answered."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_msd.checkpoints.checkpoint import load_checkpoint
from keras_msd.checks import InputError
from keras_msd.load import load_encoder, load_teacher
from keras_msd.recipes.load import load_recipe
from keras_msd.recipes.resources import Run

pytestmark = pytest.mark.usefixtures("no_graphs")
GOLDEN = Path(__file__).parent / "golden"
TEXTS = json.loads((GOLDEN / "texts.json").read_text(encoding="utf-8"))
FAMILIES = ["bert", "distilbert", "roberta", "xlm-roberta", "minilm"]
STACKS = ["mean_normalize", "cls_tanh", "max_identity", "max_plain"]
TOLERANCE = 1e-5


def assemble(folder, *sources):
    for source in sources:
        shutil.copytree(GOLDEN / source, folder, dirs_exist_ok=True)
    expected = load_file(folder / "expected.safetensors")
    (folder / "expected.safetensors").unlink()
    return folder, expected


def variant(folder, family, column):
    return assemble(folder, f"{family}/tokenizer", f"{family}/variant_{column}")


@pytest.mark.parametrize(
    ("family", "column"),
    [
        *(("bert", column) for column in range(4)),
        *((family, column) for family in FAMILIES[1:] for column in (0, 3)),
    ],
)
def test_ids_and_vectors_are_those_of_transformers(family, column, tmp_path):
    folder, expected = variant(tmp_path, family, column)
    encoder = load_checkpoint(folder)
    ids = encoder.tokenizer.encode(TEXTS, encoder.max_length)
    mask = expected["padding_mask"]
    both = zip(expected["token_ids"], mask.astype(bool), strict=True)
    assert ids == [list(row[real]) for row, real in both]
    assert len({len(row) for row in ids}) > 3  # so that padding is tested
    outputs = [encoder.model.get_layer(name).output for name in ("body", "pooling")]
    states = keras.Model(encoder.model.input, outputs)
    hidden, means = states({"token_ids": expected["token_ids"], "padding_mask": mask})
    real = mask[..., None]  # what padding gives is never used
    wrong = [(hidden - expected["hidden"]) * real, means - expected["pooled"]]
    assert max(np.abs(it).max() for it in wrong) < TOLERANCE


@pytest.mark.parametrize("stack", STACKS)
def test_vectors_are_those_of_sentence_transformers(stack, tmp_path):
    sources = ("bert/tokenizer", "bert/variant_0", f"sentence/{stack}")
    folder, expected = assemble(tmp_path, *sources)
    encoder = load_encoder(folder)
    assert encoder.max_length == 12 and encoder.config.max_positions == 40
    vectors = encoder.encode(TEXTS, batch_size=3)
    np.testing.assert_allclose(vectors, expected["vectors"], atol=TOLERANCE, rtol=0)

    encoder.save(tmp_path / "saved")
    again = load_encoder(tmp_path / "saved")
    np.testing.assert_array_equal(again.encode(TEXTS, batch_size=3), vectors)


@pytest.fixture
def checkpoint(tmp_path):
    """Return a checkpoint in the layout of older sentence-transformers versions."""
    folder = tmp_path / "old"
    body = folder / "0_Transformer"
    shutil.copytree(GOLDEN / "bert" / "variant_0", body)
    shutil.copytree(GOLDEN / "bert" / "tokenizer", body, dirs_exist_ok=True)
    write(body, "sentence_bert_config.json", {"max_seq_length": 9})
    kinds = {"0_Transformer": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"{PACKAGE}.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    write(folder, "modules.json", modules)
    (folder / "1_Pooling").mkdir()
    modes = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    width = {"word_embedding_dimension": 12}
    write(folder / "1_Pooling", "config.json", modes | width)
    return folder


PACKAGE = "sentence_transformers.models"
PLACES = {
    "modules": "modules.json",
    "pooling": "1_Pooling/config.json",
    "limit": "0_Transformer/sentence_bert_config.json",
}


def write(folder, name, value):
    (folder / name).write_text(json.dumps(value))


def test_the_older_layout_is_read(checkpoint):
    encoder = load_checkpoint(checkpoint)
    config = encoder.config
    assert (config.pooling, config.normalize) == ("cls", False)
    assert config.projection_dim is None
    assert (config.max_length, config.max_positions) == (9, 40)
    assert len(encoder.tokenizer.encode(TEXTS, encoder.max_length)[1]) == 9
    write(checkpoint, PLACES["limit"], {"max_seq_length": None, "do_lower_case": True})
    assert load_checkpoint(checkpoint).max_length == 40


def pooled(expected, pooling):
    """Return what a pooling makes of the token vectors of `transformers`, in NumPy."""
    rows = []
    for hidden, mask in zip(expected["hidden"], expected["padding_mask"], strict=True):
        real = hidden[mask.astype(bool)]
        rows.append({"cls": real[0], "max": real.max(0), "mean": real.mean(0)}[pooling])
    return np.array(rows)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_pooling_can_be_chosen(pooling, tmp_path, caplog):
    folder, expected = variant(tmp_path, "bert", 1)
    encoder = load_encoder(folder, pooling=pooling)
    assert f'pooled by "{pooling}" and not normalised' in caplog.text
    vectors = encoder.encode(TEXTS)
    np.testing.assert_allclose(vectors, pooled(expected, pooling), atol=TOLERANCE)
    teacher = load_teacher(folder, pooling=pooling)
    np.testing.assert_allclose(teacher.encode(TEXTS), vectors, atol=1e-6)
    assert teacher.fingerprint == encoder.fingerprint
    assert (teacher.fingerprint == load_teacher(folder).fingerprint) == (
        pooling == "mean"
    )
    assert "pooled by the mean of its tokens" in caplog.text
    encoder.save(tmp_path / "saved")
    other = load_encoder(tmp_path / "saved", pooling="max")
    np.testing.assert_allclose(
        other.encode(TEXTS), pooled(expected, "max"), atol=TOLERANCE
    )
    assert load_encoder(tmp_path / "saved").config.pooling == pooling


def test_a_chosen_pooling_takes_the_place_of_the_module(checkpoint):
    asked, chosen = load_checkpoint(checkpoint), load_checkpoint(checkpoint, "max")
    assert (asked.config.pooling, chosen.config.pooling) == ("cls", "max")
    assert asked.weights().keys() == chosen.weights().keys()
    write(checkpoint, PLACES["pooling"], {"pooling_mode": "lasttoken"})
    assert load_checkpoint(checkpoint, "max").fingerprint == chosen.fingerprint
    modules = json.loads((checkpoint / "modules.json").read_text())
    write(checkpoint, "modules.json", modules[:1])
    assert load_checkpoint(checkpoint, "max").fingerprint == chosen.fingerprint
    with pytest.raises(InputError, match="Received: Transformer"):
        load_checkpoint(checkpoint)
    with pytest.raises(InputError, match="`pooling` must be one of.*'lasttoken'"):
        load_encoder(checkpoint, pooling="lasttoken")
    write(checkpoint, "modules.json", modules[1:])
    with pytest.raises(InputError, match="Received: Pooling"):
        load_checkpoint(checkpoint, "max")


def test_an_artefacts_pooling_is_part_of_its_graph(tmp_path):
    (tmp_path / "card.json").touch()
    with pytest.raises(InputError, match="artefact is loaded as.*pooling='cls'"):
        load_encoder(tmp_path, pooling="cls")


def test_the_pooling_of_a_recipes_teacher(tmp_path):
    folder, _ = variant(tmp_path / "bert", "bert", 1)
    runs, given = [], {"teacher.source": str(folder), "teacher.dim": 12}
    for change in ({}, {"teacher.pooling": "max"}):
        recipe = load_recipe("xkd_lab", "smoke", given | change)
        runs.append(Run(recipe, SimpleNamespace(), (), tmp_path))
    assert "pooling" not in runs[0].recipe.settings()["teacher"]
    assert [run.teacher_encoder.config.pooling for run in runs] == ["mean", "max"]
    prints = [run.teacher.fingerprint for run in runs]
    assert prints == [run.teacher_encoder.fingerprint for run in runs]
    assert prints[0] != prints[1]
    with pytest.raises(InputError, match="teacher.pooling"):
        load_recipe("xkd_lab", "smoke", {"teacher.pooling": "lasttoken"})


def with_module(kind, path=""):
    return lambda modules: [*modules, {"path": path, "type": f"{PACKAGE}.{kind}"}]


@pytest.mark.parametrize(
    ("place", "change", "words"),
    [
        ("modules", lambda modules: [], "Received: nothing"),
        ("modules", lambda modules: {"a": 1}, "list of modules"),
        ("modules", with_module("Dense", "2_Dense"), "2_Dense/config.json` does not"),
        ("pooling", lambda old: old | {"pooling_mode_max_tokens": True}, "cls.*max"),
        ("pooling", lambda old: {"pooling_mode": "lasttoken"}, "lasttoken"),
        ("pooling", lambda old: {"pooling_mode": ["mean", "cls"]}, "'mean', 'cls'"),
        ("pooling", lambda old: [], "table of settings"),
        ("pooling", lambda old: old | {"include_prompt": False}, "include_prompt"),
    ],
)
def test_what_cannot_be_built_is_refused(place, change, words, checkpoint):
    path = checkpoint / PLACES[place]
    old = json.loads(path.read_text())
    write(checkpoint, PLACES[place], change(old))
    with pytest.raises(InputError, match=words):
        load_checkpoint(checkpoint)


TANH = {
    "in_features": 12,
    "out_features": 7,
    "activation_function": "torch.nn.modules.activation.Tanh",
}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"activation_function": "torch.nn.modules.activation.ELU"}, "ELU"),
        ({"in_features": 13}, "`in_features`.*12.*13"),
        ({"use_residual": True}, "use_residual"),
        ({"module_input_name": "token_embeddings"}, "token_embeddings"),
        ({"out_features": 8}, r"\(8, 12\).*\(7, 12\)"),
        ({"bias": False}, "linear.bias"),
    ],
)
def test_a_dense_layer_that_cannot_be_built_is_refused(settings, words, checkpoint):
    modules = json.loads((checkpoint / "modules.json").read_text())
    write(checkpoint, "modules.json", with_module("Dense", "2_Dense")(modules))
    dense = checkpoint / "2_Dense"
    shutil.copytree(GOLDEN / "sentence" / "cls_tanh" / "2_Dense", dense)
    write(dense, "config.json", TANH)
    assert load_checkpoint(checkpoint).dim == 7
    write(dense, "config.json", TANH | settings)
    with pytest.raises(InputError, match=words):
        load_checkpoint(checkpoint)


@pytest.mark.parametrize("unknown", ["", "Aa"])
def test_lower_casing_that_the_tokenizer_does_not_do_is_refused(tmp_path, unknown):
    folder, _ = variant(tmp_path, "distilbert", 1)
    (folder / "vocab.txt").unlink()
    path = folder / "tokenizer.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    vocabulary = known["model"]["vocab"]  # without some letters, both cases are unknown
    known["model"]["vocab"] = {
        f"€{word}" if word in unknown else word: number
        for word, number in vocabulary.items()
    }
    path.write_text(json.dumps(known), encoding="utf-8")
    write(folder, "sentence_distilbert_config.json", {"do_lower_case": True})
    with pytest.raises(InputError, match="do_lower_case"):
        load_checkpoint(folder)
