"""A plan beside what runs leave, and its formulas beside sums by hand."""

import json
from math import prod
from pathlib import Path

import numpy as np
import pytest
from command_line import fails, result
from command_line import run as command

import keras_msd as msd
from keras_msd.checks import InputError
from keras_msd.cli.plan import parse_count, size_text, time_text
from keras_msd.data import GuideStore, PairTable, TextTable
from keras_msd.data.batches import guide_rows
from keras_msd.models import EncoderConfig
from keras_msd.plan import DEVICES, Calibration, plan_recipe
from keras_msd.plan.constants import (
    OPTIMIZER_BYTES,
    Costs,
    Texts,
    add_calibration,
    assumed,
    read_calibration,
)
from keras_msd.plan.devices import parse_devices
from keras_msd.plan.fitting import largest
from keras_msd.plan.memory import (
    Batch,
    activation_numbers,
    parameters,
    stage_memory,
    trained_parameters,
)
from keras_msd.plan.shapes import PUBLISHED, recipe_shapes
from keras_msd.plan.stores import store_bytes, text_bytes, token_bytes
from keras_msd.recipes import load_recipe
from keras_msd.recipes.schema.folders import recipe_files
from keras_msd.stages import AlignEmbedding, TeachAssistant
from keras_msd.testing import tiny_encoder, tiny_pairs

FREE = Texts(clean_s=0.0, tokenise_s=0.0, store_s=0.0, read_s=0.0)
NOTHING = Costs(
    peak=1e30,
    training={64: 1.0},
    encoding={64: 1.0},
    optimizer_s=0.0,
    table_s=0.0,
    update_s=0.0,
    activations=1.0,
    working=0.0,
    process_bytes=0.0,
)
SMOKE = "msd_minilm_b128_ru3"
CONFIG = EncoderConfig(
    vocabulary_size=10,
    hidden_dim=4,
    num_layers=2,
    num_heads=2,
    intermediate_dim=8,
    bottleneck_dim=3,
    max_length=16,
    pad_id=0,
)


def known(**changes) -> Calibration:
    """Return what was measured where nothing costs a thing but what is changed."""
    costs = NOTHING.__class__(**vars(NOTHING) | changes)
    return Calibration(FREE, {"cpu tensorflow float32": costs})


def test_devices_are_a_number_and_a_name():
    assert parse_devices("8xA100") == (8, "A100")
    assert parse_devices("TPUv5e") == (1, "TPUv5e")
    assert parse_devices("cpu") == (1, "cpu")
    with pytest.raises(InputError, match="'A100-40GB'.*Received: devices='A1000'"):
        parse_devices("8xA1000")
    for wrong in ("0xA100", "axA100", "-1xcpu"):
        with pytest.raises(InputError, match="a number of 1 or more before it"):
            parse_devices(wrong)


def test_figures_of_devices_are_in_their_units():
    for device in DEVICES.values():
        assert 1 < device.float32_tflops <= device.bfloat16_tflops < 3000
        assert 8 <= device.memory_gb <= 300
        assert device.link_gb_s < device.memory_gb_s < 10_000
        assert device.source
    assert DEVICES["A100"].peak("bfloat16") == 312e12


def test_an_unmeasured_device_has_a_share_that_falls_with_the_width():
    costs = assumed(DEVICES["A100"], "bfloat16")
    assert costs.rate(768) == costs.rate(2048) == pytest.approx(0.35 * 312e12)
    assert costs.rate(192) == pytest.approx(0.35 * 312e12 / 4)
    assert costs.optimizer_s == pytest.approx(OPTIMIZER_BYTES / 2039e9)


def test_a_share_lies_on_a_line_between_those_measured():
    costs = NOTHING.__class__(**vars(NOTHING) | {"training": {100: 0.1, 400: 0.4}})
    rates = [costs.rate(width) / costs.peak for width in (10, 100, 200, 400, 999)]
    assert rates == pytest.approx([0.1, 0.1, 0.2, 0.4, 0.4])
    assert costs.rate(64, training=False) == costs.peak


def test_the_largest_that_fits():
    for bound in range(20):
        for most in range(20):
            assert largest(lambda n, bound=bound: n <= bound, most) == min(bound, most)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"bottleneck_dim": 4, "word_branch": True, "projection_dim": 6},
        {"num_layers": 0, "repeats": 1},
        {"repeats": 3, "num_types": 2, "max_positions": 40, "normalize_first": True},
    ],
)
def test_parameters_are_those_of_the_network(tokenizer, fields):
    encoder = tiny_encoder(tokenizer, **fields)
    config = encoder.config
    assert parameters(config) == encoder.num_parameters
    for frozen in ((), ("embedding",)):
        stage = TeachAssistant(encoder)
        for layer in frozen:
            encoder.model.get_layer(layer).trainable = False
        trained = sum(prod(it.shape) for it in stage.trainable_variables)
        assert trained_parameters(config, frozen) == trained
    encoder = tiny_encoder(tokenizer, **fields)
    stage = AlignEmbedding(encoder)
    trained = sum(prod(it.shape) for it in stage.trainable_variables)
    if config.num_layers:
        assert trained_parameters(config, (), whole=False) == trained
    assert trained_parameters(config, ("embedding",), whole=False) == 0


def test_activations_by_hand():
    batch = Batch(rows=3, source=8, target=16)
    assert batch.tokens == 72
    block = 72 * (4 + 4 + 3)
    layer = 72 * (10 * 4 + 2 * 8) + 2 * 2 * 3 * (64 + 256)
    heads = 3 * 2 * 4
    assert activation_numbers(CONFIG, batch) == block + 2 * layer + heads
    assert activation_numbers(CONFIG, batch, whole=False) == block
    deeper = CONFIG.model_copy(update={"repeats": 5})
    assert activation_numbers(deeper, batch) == block + 10 * layer + heads


def test_memory_by_hand():
    part = Batch(rows=2, source=8, target=8)
    held = stage_memory(
        CONFIG,
        part,
        8,
        {"teacher": 5},
        1,
        trained=100,
        guides=1000,
        devices=4,
        precision="bfloat16",
        factor=1.5,
        working=0.5,
    )
    one_layer = 32 * (10 * 4 + 2 * 8) + 2 * 2 * 2 * (64 + 64)
    numbers = 1.5 * activation_numbers(CONFIG, part) + 0.5 * one_layer
    assert held == {
        "weights": 4 * parameters(CONFIG),
        "gradients": 400,
        "optimizer": 800,
        "activations": 2 * numbers,
        "guides": 4 * (1000 + 2 * 5),
        "gathered": 4 * (4 * 64 + 8 * (2 * 4 + 5)),
    }


def test_sizes_are_those_of_the_files(tokenizer, tmp_path):
    random = np.random.default_rng(0)
    words = [text for pair in tiny_pairs() for text in pair.source.split()]
    lines = [" ".join(random.choice(words, 12)) for _ in range(4000)]
    pairs = [(one, one[::-1], "de") for one in dict.fromkeys(lines)]
    texts = TextTable.build(msd.data.Pairs.from_list(pairs), tmp_path / "texts")
    count = len(texts)

    def size(folder, *names):
        found = [path for name in names for path in folder.rglob(name)]
        return sum(path.stat().st_size for path in found)

    means = [sum(len(p[side].encode()) for p in texts) / count for side in (0, 1)]
    ends = 2 * 8  # one more offset than rows
    stored = size(tmp_path / "texts", "*.values", "*.offsets")
    assert text_bytes(count, *means) == pytest.approx(stored - ends)

    table = PairTable.build(texts, tokenizer, tmp_path / "tokens", max_length=32)
    rows = np.arange(count)
    tokens = sum(table.lengths(side, rows).sum() for side in ("source", "target"))
    encoder = tiny_encoder(tokenizer)
    store = GuideStore(encoder, tmp_path / "store")
    guide_rows(table, store, "source")
    found = size(tmp_path / "tokens", "*.values", "*.offsets", "groups", "*.i64")
    planned = token_bytes(count, tokens / count, tokenizer.vocabulary_size, 1)
    assert planned == pytest.approx(found - ends - 8)  # and a checksum
    larger = token_bytes(count, tokens / count, 1 << 17, 1)
    assert larger - planned == pytest.approx(2 * tokens)

    assert store_bytes(len(store), encoder.dim) == pytest.approx(
        size(tmp_path / "store", "*"), rel=0.1
    )


def test_every_published_encoder_that_recipes_name_is_known():
    for name in recipe_files():
        for scale in load_recipe(name).recipe.scales:
            recipe = load_recipe(name, scale)
            for source in (recipe.teacher.source, recipe.assistant.source):
                if source.startswith("hf://") or source == "default":
                    assert source in PUBLISHED, name
            if not recipe.assistant.source.startswith("runs/"):  # another run's
                assert recipe_shapes(recipe).teacher_dim > 0


def test_published_sizes_are_the_papers():
    """Of LEALLA's table 2, millions of parameters; LaBSE has 471."""
    for name, millions in (("lealla_small", 69), ("lealla_base", 107)):
        shapes = recipe_shapes(load_recipe(name, "paper"))
        (student,) = shapes.students.values()
        assert parameters(student) / 1e6 == pytest.approx(millions, rel=0.01)
    assert shapes.teacher is not None
    assert parameters(shapes.teacher) / 1e6 == pytest.approx(471, rel=0.01)


def test_seconds_are_sums_of_what_was_measured():
    def planned(**changes):
        changes.setdefault("optimizer_s", 0.0)
        return plan_recipe(SMOKE, calibration=known(**changes))["stages"]

    for stage in planned(update_s=2.0):
        assert stage["seconds"] == pytest.approx(2 * stage["updates"], rel=1e-6)
    shapes = recipe_shapes(load_recipe(SMOKE))
    (student,) = shapes.students.values()
    last = planned(optimizer_s=1e-3)[-1]
    trained = trained_parameters(student, ())
    assert last["seconds"] == pytest.approx(last["updates"] * trained * 1e-3)
    last = planned(peak=1e6, training={32: 0.5})[-1]
    assert last["seconds"] == pytest.approx(last["flops"] / 0.5e6)
    first = planned(table_s=1e-6)[0]
    moved = first["tokens"] * 32  # the assistant's table has its width
    assert first["seconds"] == pytest.approx(first["updates"] * moved * 1e-6, rel=0.05)


def test_several_devices_share_an_update():
    changes = {"stages.teach_assistant.batch_size": 36}
    one, four = (
        plan_recipe(
            SMOKE,
            devices,
            overrides=changes,
            calibration=known(peak=1e6, update_s=0.0),
        )["stages"][0]
        for devices in ("1xcpu", "4xcpu")
    )
    exchanged = four["seconds"] - one["seconds"] / 4
    shapes = recipe_shapes(load_recipe(SMOKE))
    assert shapes.assistant is not None
    gradients = 4 * parameters(shapes.assistant)
    expected = four["updates"] * 2 * 3 / 4 * gradients / 1.25e9
    assert exchanged == pytest.approx(expected, rel=1e-3)
    held = [stage["memory"]["activations"] for stage in (one, four)]
    assert held[0] == pytest.approx(4 * held[1], abs=4)
    (change,) = plan_recipe(SMOKE, "5xcpu", overrides=changes, calibration=known())[
        "stages"
    ][0]["change"]
    assert change == "stages.teach_assistant.batch_size = 40, a multiple of 5"


def test_what_does_not_fit_fits_after_each_change():
    def planned(devices="1xT4", **overrides):
        plan = plan_recipe(
            "lealla_large",
            devices,
            pairs=50e6,
            scale="paper",
            overrides=overrides,
            calibration=known(),
        )
        (stage,) = plan["stages"]
        return plan, stage

    plan, stage = planned(**{"stages.teach_thin_deep.chunk_size": 4096})
    assert not stage["fits"] and stage["memory_bytes"] > 16e9
    assert plan["assumed"][0].startswith("T4 was not measured: of its published 8.1")
    chunk, devices, batch = stage["change"]
    assert chunk.endswith(", with the same gradients")
    key, _, value = chunk.removesuffix(", with the same gradients").partition(" = ")
    assert planned(**{key: int(value)})[1]["fits"]
    assert not planned(**{key: int(value) + 1})[1]["fits"]
    count = int(devices.removesuffix(" devices"))
    assert planned(f"{count}xT4", **{key: 4096})[1]["fits"]
    key, _, value = batch.partition(" = ")
    assert planned(**{key: int(value), "stages.teach_thin_deep.chunk_size": 4096})[1][
        "fits"
    ]
    assert planned("1xA100", **{"stages.teach_thin_deep.chunk_size": 256})[1]["fits"]


def test_a_plan_beside_the_run(tmp_path):
    """The made corpus is looked at as a whole: counts and sizes are to be the same."""
    changes = {
        "stages.align_embedding.steps": 13,
        "stages.teach_assistant.steps": 4,
        "stages.teach_student.epochs": 1,
        "stages.contrastive_learning.batch_size": 16,
        "evaluate.artefacts": False,
        "starts.closed_form": False,
    }
    plan = plan_recipe(SMOKE, overrides=changes, calibration=known())
    done = msd.recipes.run(
        SMOKE, tmp_path / "run", store_dir=tmp_path / "store", overrides=changes
    )
    steps = tmp_path / "run" / "stages"
    sizes = {
        row["name"]: row["parameters"] for row in done["rows"] if "parameters" in row
    }
    assert plan["parameters"]["assistant"] == sizes["assistant"]
    assert plan["parameters"]["student"] == sizes["student, contrastive_learning"]
    for stage in plan["stages"]:
        mark = json.loads((steps / stage["step"] / "done.json").read_text())
        assert mark["result"]["steps"] == stage["updates"]
    pairs = json.loads((steps / "pairs" / "done.json").read_text())
    assert plan["pairs"] == pairs["result"]["pairs"]
    assert plan["assumed"] == []

    def size(*folders):
        files = [path for folder in folders for path in folder.rglob("*")]
        return sum(path.stat().st_size for path in files if path.is_file())

    stored = {
        "texts": size(*steps.glob("pairs/texts*")),
        "tokens": size(*steps.glob("tokenizer/tokens-*")),
        "guides": size(tmp_path / "store"),
    }
    for name, found in stored.items():  # with JSON files and pages half empty
        assert plan["stores"][name] == pytest.approx(found, rel=0.25), name
    vectors = [path.stat().st_size for path in (tmp_path / "store").rglob("*.f32")]
    planned = [4 * it["dim"] * it["sentences"] for it in plan["guides"]]
    assert sorted(vectors) == sorted(planned)


def test_how_many_pairs_there_are_must_be_known():
    with pytest.raises(InputError, match="Give --pairs 50M, or --data"):
        plan_recipe("lealla_small", scale="paper", calibration=known())
    plan = plan_recipe("msd_lab", calibration=known(), overrides={"precision": "auto"})
    assert plan["pairs"] == 12 * 25000
    assert plan["assumed"] == [
        'precision "auto" becomes float32',
        "25,000 pairs in each of 12 languages",
        "sentences of 24 and 28 tokens on average",
        "no sentence twice",
    ]
    limited = {"stages.teach_student.steps": 10**9, "stages.teach_student.epochs": 1}
    stages = plan_recipe("msd_lab", calibration=known(), overrides=limited)["stages"]
    counts = {stage["step"]: stage["updates"] for stage in stages}
    assert counts["teach_student"] == 12 * 1500 // 64  # pairs_per_language of the stage


def test_a_look_at_data(tmp_path):
    lines = "".join(f"The cat number {i}.\tDie Katze Nummer {i}.\n" for i in range(90))
    train = tmp_path / "parallel" / "train"
    train.mkdir(parents=True)
    (train / "cats.en-de.tsv").write_text(lines + lines, encoding="utf-8")
    changes = {"data.kind": "folder", "data.languages": ["de"]}
    given = {"data_dir": tmp_path, "overrides": changes, "calibration": known()}
    plan = plan_recipe(SMOKE, **given)
    assert plan["pairs"] == 90 and plan["assumed"] == []
    (teacher, *_) = plan["guides"]
    assert teacher["sentences"] == 90
    changes["data.languages"] = ["de", "fr"]
    with pytest.raises(InputError, match="needs parallel files for `fr`"):
        plan_recipe(SMOKE, **given)


def test_what_was_measured_is_found_again(tmp_path):
    place = tmp_path / "calibration.json"
    with pytest.raises(InputError, match=r"Run: keras-msd plan --calibrate$"):
        read_calibration(place)
    add_calibration(place, "cpu tensorflow float32", FREE, NOTHING)
    add_calibration(place, "A100 jax bfloat16", FREE, NOTHING)
    read = read_calibration(place)
    assert read.texts == FREE
    assert read.costs == {
        "cpu tensorflow float32": NOTHING,
        "A100 jax bfloat16": NOTHING,
    }
    with pytest.raises(InputError, match="with tensorflow in bfloat16.*--precision bf"):
        plan_recipe(SMOKE, overrides={"precision": "bfloat16"}, calibration=place)
    whole = json.loads(place.read_text())
    for broken in ({"version": 0}, {"texts": {}}, {"costs": {"cpu": 3}}):
        place.write_text(json.dumps(whole | broken))
        with pytest.raises(InputError, match="keras-msd plan --calibrate"):
            read_calibration(place)


@pytest.mark.parametrize(
    ("text", "count"), [("50M", 50e6), ("1.5k", 1500), ("2,000", 2000), ("3g", 3e9)]
)
def test_counts_have_letters(text, count):
    assert parse_count(text) == count


def test_units_suit_the_number():
    assert [size_text(it) for it in (12, 2.5e6, 1.25e9)] == [
        "12 B",
        "2.5 MB",
        "1.25 GB",
    ]
    assert [time_text(it) for it in (3, 600, 7200)] == ["3.0 s", "10.0 min", "2.0 h"]


def test_the_command(capsys, tmp_path: Path):
    place = tmp_path / "calibration.json"
    asked = "plan", "lealla_small", "--scale", "paper", "--devices", "8xA100"
    message = fails(capsys, *asked, "--constants", place)
    assert message.endswith("Run: keras-msd plan --calibrate\n")
    add_calibration(place, "cpu tensorflow float32", FREE, NOTHING)
    asked = *asked, "--constants", place
    code, out, _ = command(capsys, *asked, "--pairs", "50M")
    assert code == 0
    assert out.startswith("lealla_small at scale paper, 50,000,000 pairs, on 8 x A100")
    (line,) = [line for line in out.splitlines() if line.startswith("teach_thin_deep ")]
    assert line.split()[:3] == ["teach_thin_deep", "100,000", "8,192"]
    assert "Assumed: A100 was not measured" in out and "Left out: " in out
    plan = result(capsys, *asked, "--pairs", "50M")
    assert (plan["device_count"], plan["device_memory_bytes"]) == (8, 80e9)
    for wrong, message in (
        (("--pairs", "many"), "Write for example: 50M"),
        (("--devices", "8xB9", "--pairs", "1k"), "must be one of 'cpu', 'A100'"),
    ):
        assert message in fails(capsys, *asked, *wrong)
    message = fails(capsys, "plan", "lealla_smal", "--constants", place)
    assert "Did you mean `lealla_small`?" in message
    assert "Give a recipe's name" in fails(capsys, "plan")
