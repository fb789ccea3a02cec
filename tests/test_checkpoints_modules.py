"""Folders by today's sentence-transformers: modules, poolings, layers, prompts.

`golden/current` has what the library wrote and the vectors it gave.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_msd import load_encoder
from keras_msd.checks import InputError

pytestmark = pytest.mark.usefixtures("no_graphs")

GOLDEN = Path(__file__).parent / "golden"
CURRENT = GOLDEN / "current"
TEXTS = json.loads((CURRENT / "texts.json").read_text(encoding="utf-8"))
TOLERANCE = 1e-5
OLD = "sentence_transformers.models"


def expected(folder):
    return load_file(folder / "expected.safetensors")["vectors"]


def read(path):
    return json.loads(path.read_text())


def write(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value))


@pytest.fixture
def folder(tmp_path):
    """Return a whole folder: a stack of modules around the BERT body."""
    for source in ("bert/tokenizer", "bert/variant_0", "current/stacks/prompt"):
        shutil.copytree(GOLDEN / source, tmp_path / "model", dirs_exist_ok=True)
    return tmp_path / "model"


def test_prompts_of_a_folder_are_used(folder):
    """The vectors are those of sentence-transformers; more of them: test_prompts.py."""
    encoder = load_encoder(folder)
    assert encoder.default_prompt == "The dog: "
    found = encoder.encode(TEXTS)
    np.testing.assert_allclose(found, expected(folder), atol=TOLERANCE, rtol=0)


def test_keys_that_are_not_known_are_said(folder, caplog):
    names = ["config_sentence_transformers.json", "1_Pooling/config.json"]
    names += ["sentence_bert_config.json", "2_Normalize/config.json"]
    names += ["tokenizer_config.json"]
    for number, name in enumerate(names):
        known = read(folder / name) if (folder / name).is_file() else {}
        write(folder / name, known | {f"strange_{number}": 1})
    modules = read(folder / "modules.json")
    modules[0]["strange_5"] = 1
    write(folder / "modules.json", modules)
    load_encoder(folder)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 6
    for number, name in enumerate([*names, "modules.json"]):
        [line] = [line for line in said if f"strange_{number}" in line]
        assert f"{folder / name}`: unknown, not used: strange_{number}." in line


@pytest.mark.parametrize("kinds", [["Dense", "Dense"], ["Normalize", "Dense"]])
def test_more_layers_than_a_config_describes_are_refused(kinds, folder):
    modules = read(folder / "modules.json")[:2]
    modules += [{"type": f"{OLD}.{kind}", "path": "2"} for kind in kinds]
    write(folder / "modules.json", modules)
    with pytest.raises(InputError, match="most one Dense.*SentenceTransformer` itself"):
        load_encoder(folder)


@pytest.mark.parametrize(
    ("key", "value"), [("transformer_task", "fill-mask"), ("query_length", 8)]
)
def test_texts_that_are_run_in_another_way_are_refused(key, value, folder):
    path = folder / "sentence_bert_config.json"
    write(path, {"max_seq_length": 16, key: None})
    load_encoder(folder)
    write(path, {"max_seq_length": 16, key: value})
    with pytest.raises(InputError, match=f"`{key}`.*Received: {value!r}"):
        load_encoder(folder)


@pytest.fixture
def bytepair(tmp_path):
    """Return a folder whose tokenizer counts blanks, written before 5.4."""
    folder = tmp_path / "model"
    for source in ("tokenizer", "variant_0"):
        shutil.copytree(GOLDEN / "roberta" / source, folder, dirs_exist_ok=True)
    places = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [{"path": it, "type": f"{OLD}.{kind}"} for it, kind in places.items()]
    write(folder / "modules.json", modules)
    write(folder / "1_Pooling" / "config.json", {"pooling_mode_mean_tokens": True})
    return folder


def test_blanks_around_a_text_go_where_the_writer_took_them_away(bytepair, tmp_path):
    encoder = load_encoder(bytepair)
    plain, blanks = ["The cat", "A dog"], ["\n The cat", "A dog \n"]
    ids = encoder.tokenizer.encode(plain)
    assert encoder.tokenizer.encode(blanks) == ids
    encoder.save(tmp_path / "saved")
    assert load_encoder(tmp_path / "saved").tokenizer.encode(blanks) == ids

    def strips():
        newer = load_encoder(bytepair)
        same = newer.tokenizer.encode(blanks) == ids
        assert newer.tokenizer.encode(plain) == ids
        assert same == (newer.fingerprint == encoder.fingerprint)
        return same

    config = bytepair / "config_sentence_transformers.json"
    for version, stripped in (("5.4.0", False), ("5.10.1", False), ("5.3.2", True)):
        write(config, {"__version__": {"sentence_transformers": version}})
        assert strips() == stripped, version
    for settings in ({}, {"__version__": {"pytorch": "2.0"}}, {"__version__": None}):
        write(config, settings)
        assert strips()
    modules = read(bytepair / "modules.json")
    names = "base.modules.Transformer", "sentence_transformer.modules.Pooling"
    for module, name in zip(modules, names, strict=True):
        module["type"] = f"sentence_transformers.{name}"
    write(bytepair / "modules.json", modules)
    assert not strips()


@pytest.mark.parametrize(
    "name",
    [
        "os.path.join",
        "sentence_transformers.models.Pooling.Pooling",
        "evil.sentence_transformers.models.Pooling",
        "sentence_transformers.models.WeightedLayerPooling",
    ],
)
def test_another_name_is_refused_and_not_imported(name, folder):
    modules = read(folder / "modules.json")
    modules[1]["type"] = name
    write(folder / "modules.json", modules)
    with pytest.raises(InputError, match="SentenceTransformer` itself"):
        load_encoder(folder)


@pytest.mark.parametrize(
    ("settings", "pooling"),
    [
        ({}, "mean"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False}, "mean"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode": "cls", "pooling_mode_mean_tokens": True}, "cls"),
        ({"pooling_mode": ["max"]}, "max"),
    ],
)
def test_a_pooling_without_flags_is_the_mean(settings, pooling, folder):
    write(folder / "1_Pooling" / "config.json", settings)
    assert load_encoder(folder).config.pooling == pooling


def test_a_copy_that_is_not_whole(folder):
    weights = folder / "model.safetensors"
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n"
    weights.write_bytes(pointer)
    with pytest.raises(InputError, match="a pointer of Git LFS.*git lfs pull"):
        load_encoder(folder)
    (folder / "1_Pooling" / "config.json").unlink()
    with pytest.raises(InputError, match="1_Pooling.*does not exist.*complete copy"):
        load_encoder(folder)


def test_a_camembert_is_a_roberta_by_other_names():
    folder = CURRENT / "camembert"
    encoder = load_encoder(folder)
    known = expected(folder)
    np.testing.assert_allclose(encoder.encode(TEXTS), known, atol=TOLERANCE, rtol=0)
