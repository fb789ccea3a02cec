"""A pack for a machine with JAX alone has what a recipe reads; what its run says."""

import tarfile
from pathlib import Path

import numpy as np
import pytest
from small_recipe import german, sentences, write_place, write_rows

from keras_msd.checks import InputError
from keras_msd.data import TextTable
from keras_msd.files import read_json
from keras_msd.recipes import load_recipe, run
from keras_msd.recipes.cache import RunFolder
from keras_msd.recipes.data import take_pairs
from keras_msd.recipes.outputs import held_out
from keras_msd.recipes.resources import Run
from keras_msd.testing import tiny_encoder


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")


def test_data_are_what_the_recipe_reads(tmp_path):
    from gpu_pack import write_data

    data = write_place(tmp_path) / "data"
    rows = [(text, german(text)) for text in sentences(9, 1)]
    write_rows(data / "parallel/train/some.en-es.tsv.gz", rows)
    write_rows(data / "sts/made.test.de.tsv.gz", [("1", "a", "b")])
    recipe = load_recipe(tmp_path / "small.toml", None, {"data.pairs_per_language": 30})
    share = write_data(recipe, data, tmp_path / "packed")

    assert share == {
        "read": 240, "pairs": 30, "files": 2, "held_out": 120, "evaluation": 4,
    }  # fmt: skip
    files = [path for path in (tmp_path / "packed").rglob("*") if path.is_file()]
    assert {path.relative_to(tmp_path / "packed").as_posix() for path in files} == {
        "parallel/dev/some.en-de.tsv",
        "parallel/train/other.en-de.tsv",
        "parallel/train/some.en-de.tsv",
        "sts/examples.dev.de.tsv.gz",
        "sts/examples.dev.en.tsv.gz",
        "tatoeba/tatoeba.deu-eng.tsv.gz",
        "tatoeba/tatoeba.fin-eng.tsv.gz",
    }
    found = []
    for name in ("data", "packed"):
        folder = tmp_path / f"run_{name}"
        work = Run(recipe, RunFolder(folder, recipe), [tmp_path / name], tmp_path)
        take_pairs(work, folder)
        found.append((list(TextTable.open(folder / "texts")), held_out(work)))
    assert len(found[0][0]) == 30
    assert found[0] == found[1]


def test_a_pack_that_is_too_large_is_refused(tmp_path):
    from gpu_pack import compress

    folder, out = tmp_path / "folder", tmp_path / "pack.tar.xz"
    folder.mkdir()
    (folder / "numbers").write_bytes(np.random.default_rng(0).bytes(200_000))
    with pytest.raises(
        InputError, match=r"may have 0.1 MiB. Received: 0.2. Take fewer"
    ):
        compress(folder, out, 0.1)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    size = compress(folder, out, 0.2)
    assert size == pytest.approx(200_000 / 2**20, rel=0.01)
    with tarfile.open(out) as archive:
        assert archive.getnames() == ["numbers"]


def test_operations_are_those_of_the_kernels(tokenizer):
    from operations import step_operations

    encoder = tiny_encoder(
        tokenizer, bottleneck_dim=4, repeats=3, projection_dim=12, word_branch=True
    )
    lengths = np.array([3, 7, 5])
    tokens, sentences = 15, 3
    count = 0
    for path, weight in encoder.weights().items():
        if path.startswith("body/") and path.endswith("/kernel"):
            count += 3 * 2 * weight.size * tokens
        elif path == "embedding/projection":
            block = 2 * weight.size * tokens
        elif path in ("projection/kernel", "word_branch/projection"):
            count += 2 * weight.size * sentences
    scores = sum(
        2 * 2 * length * length * encoder.config.hidden_dim for length in lengths
    )
    count += block + encoder.config.depth * scores
    assert step_operations(encoder.config, lengths) == 3 * count
    assert step_operations(encoder.config, lengths, whole=False) == 3 * block


@pytest.mark.slow
def test_a_run_says_what_each_stage_made_of_the_device(tmp_path):
    from gpu_run import measured_stages

    place = write_place(tmp_path)
    skipped = {
        f"stages.{name}.skip": True for name in ("teach_assistant", "teach_student")
    }
    changes = skipped | {"starts.closed_form": False, "evaluate.artefacts": False}
    changes |= {"data.max_length": 64}  # nothing is cut, so that there is padding
    changes |= {"stages.align_embedding.steps": 6}
    own = {"steps": 6, "buckets": 1}
    changes |= {f"stages.contrastive_learning.{key}": own[key] for key in own}
    places = {"data_dir": place / "data", "store_dir": place / "store"}
    options = {"overrides": changes, "profile": True}
    run(place / "small.toml", place / "run", **places, **options)
    recipe = load_recipe(place / "small.toml", None, changes)
    folder = RunFolder(place / "run", recipe)
    work = Run(recipe, folder, [places["data_dir"]], places["store_dir"])
    found = measured_stages(work, peak=0.5)
    assert list(found) == ["align_embedding", "contrastive_learning"]
    shapes = [read_json(folder.step(name) / "profile.json")["shapes"] for name in found]
    assert shapes[0] > 1 and shapes[1] == 1
    for stage in found.values():
        update = stage["milliseconds"] / 1000
        assert stage["sentences_per_second"] * update == pytest.approx(32, rel=0.01)
        assert stage["utilisation"] == pytest.approx(stage["tflops"] / 0.5, rel=0.01)
        assert 32 * 16 < stage["tokens"] < 32 * 64
        stage["operations"] = stage["tflops"] * update
    # The network has 2 layers of width 16; the embedding block a product of 4 x 16.
    embedding, whole = (
        stage["operations"] / stage["tokens"] for stage in found.values()
    )
    assert embedding * 1e12 == pytest.approx(3 * 2 * 4 * 16, rel=0.01)
    assert whole > 20 * embedding
