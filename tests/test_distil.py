"""`msd.distil`: one's own pairs, whatever holds them, to an encoder."""

import gzip
import json
import random
from types import SimpleNamespace

import numpy as np
import pytest

import keras_msd as msd
from keras_msd import InputError
from keras_msd.cli import main
from keras_msd.evaluate.halves import half_of
from keras_msd.evaluate.held_out import read_held_out, score_held_out
from keras_msd.files import read_json
from keras_msd.recipes import distil as module
from keras_msd.recipes.loading import load_recipe
from keras_msd.recipes.row_data import TranslationScores

QUICK = {
    "teacher.dim": 16,
    "stages.learn_translations.steps": 8,
    "stages.learn_translations.evaluate_every": 2,
    "stages.learn_translations.learning_rate": 1e-2,
}
OPTIONS = {"teacher": "hashed-words", "vocabulary_size": 150, "overrides": QUICK}


def pairs_of(count=500, seed=0, letters="ab"):
    draw = random.Random(seed)
    rows = [draw.choices(range(40), k=3) for _ in range(count)]
    texts = [
        tuple(" ".join(f"{letter}{n:02}" for n in row) for letter in letters)
        for row in rows
    ]
    return list(dict.fromkeys(texts))


def rows_in(folder, part):
    (path,) = (folder / "data/parallel" / part).iterdir()
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [tuple(line.rstrip("\n").split("\t")) for line in file]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distil")
    store = {"store_dir": folder / "store"}
    result = msd.distil(pairs_of(), folder / "model", "sv", **OPTIONS, **store)
    return SimpleNamespace(folder=folder / "model", result=result, store=store)


def test_an_encoder_a_recipe_and_a_report_are_left(made):
    result, encoder = made.result, msd.load_encoder(made.folder / "encoder")
    assert encoder.config.num_layers == 0 and encoder.dim == 16
    said = read_json(made.folder / "report.json")
    assert said.items() <= result.items()
    held = score_held_out(encoder, made.folder / "data/parallel/dev", part="report")
    assert said["encoder_scores"]["precision"] == held["precision"]
    assert said["pairs"]["sv"]["report"] == held["pairs"]
    gain = said["encoder_scores"]["precision"] - said["closed_form"]["precision"]
    assert said["gain"] == pytest.approx(gain)
    assert {"within", "across"} == said["closed_form"]["teacher_similarities"].keys()


def test_weights_are_chosen_on_the_other_half(made):
    history = read_json(made.folder / "run/stages/learn_translations/history.json")
    scores = history["dev"]["precision"]
    assert history["dev"]["steps"][0] == 0
    dev, chosen = made.folder / "data/parallel/dev", []
    for place in ("run/stages/closed_form/encoder", "encoder"):
        encoder = msd.load_encoder(made.folder / place)
        chosen.append(score_held_out(encoder, dev, part="choose")["precision"])
    assert chosen == [scores[0], max(scores)]


def test_the_recipe_repeats_it(made, tmp_path):
    recipe, data = made.folder / "recipe.toml", made.folder / "data"
    assert "minutes" not in recipe.read_text()
    msd.recipes.run(recipe, tmp_path, data_dir=data, **made.store)
    weights = [
        (place / "weights.safetensors").read_bytes()
        for place in (made.folder / "encoder", tmp_path / "assistant")
    ]
    assert weights[0] == weights[1]


def test_training_starts_from_an_encoder_that_knows_other_text(made, tmp_path):
    start, out = made.folder / "encoder", tmp_path / "model"
    options = OPTIONS | made.store | {"start": start}
    result = msd.distil(pairs_of(seed=1, letters="ac"), out, "sv", **options)
    assert result["start"]["source"] == str(start) and result["kept"] == "encoder"
    known, encoder = msd.load_encoder(start), msd.load_encoder(out / "encoder")
    pieces, size = encoder.tokenizer.pieces(), known.tokenizer.vocabulary_size
    assert pieces[:size] == known.tokenizer.pieces()
    assert any("c" in piece for piece in pieces[size:])
    # What the pairs alone give is compared with: the vocabulary is theirs alone.
    closed = msd.load_encoder(out / "run/stages/closed_form/encoder")
    assert closed.tokenizer.vocabulary_size <= OPTIONS["vocabulary_size"]
    assert not any("b" in piece for piece in closed.tokenizer.pieces()[4:])
    dev = out / "data/parallel/dev"
    for it, name in ((closed, "closed_form"), (encoder, "encoder_scores")):
        scores = score_held_out(it, dev, part="report")
        assert result[name]["precision"] == scores["precision"]
    recipe, data = out / "recipe.toml", out / "data"
    msd.recipes.run(recipe, tmp_path / "again", data_dir=data, **made.store)
    same = msd.load_encoder(tmp_path / "again" / "assistant")
    assert same.fingerprint == encoder.fingerprint


def test_the_closed_form_is_kept_where_it_is_better(made, tmp_path):
    start, out = tmp_path / "start", tmp_path / "model"
    tokenizer = msd.load_encoder(made.folder / "encoder").tokenizer
    table = np.ones((tokenizer.vocabulary_size, 16), "float32")  # one vector for all
    msd.starts.closed_form_encoder(tokenizer, table, max_length=64).save(start)
    still = QUICK | {"stages.learn_translations.learning_rate": 1e-12}
    options = OPTIONS | made.store | {"start": start, "overrides": still}
    result = msd.distil(pairs_of(seed=1, letters="cd"), out, "sv", **options)
    closed = msd.load_encoder(out / "run/stages/closed_form/encoder")
    assert result["kept"] == "closed_form" and result["gain"] == 0
    assert result["start"]["precision"] < result["closed_form"]["precision"]
    assert msd.load_encoder(out / "encoder").fingerprint == closed.fingerprint
    recipe, data = out / "recipe.toml", out / "data"
    msd.recipes.run(recipe, tmp_path / "again", data_dir=data, **made.store)
    again = msd.load_encoder(tmp_path / "again" / "assistant")
    texts = ["c01 c02", "d07"]
    np.testing.assert_array_equal(again.encode(texts), closed.encode(texts))


class StopHereError(Exception):
    pass


@pytest.mark.parametrize(
    ("installed", "options", "base"),
    [
        (True, {}, "_distil_known"),
        (False, {}, "_distil"),
        (True, {"start": "teacher"}, "_distil"),
        (True, {"teacher": "hashed-words"}, "_distil"),
        (True, {"overrides": {"assistant.hidden_dim": 64}}, "_distil"),
    ],
)
def test_tiny12_is_the_start_where_it_is_there(
    tmp_path, monkeypatch, installed, options, base
):
    def stop(*arguments, **options):
        raise StopHereError

    monkeypatch.setattr(module, "is_installed", lambda name: installed)
    monkeypatch.setattr(module, "run", stop)
    with pytest.raises(StopHereError):
        msd.distil(pairs_of(), tmp_path, **options)
    recipe = load_recipe(tmp_path / "recipe.toml")
    assert f'extends = "{base}"' in (tmp_path / "recipe.toml").read_text()
    known = base == "_distil_known"
    assert recipe.assistant.source == ("tiny12" if known else "new")


def test_the_same_call_goes_on_and_another_is_refused(made):
    mark = made.folder / "run/stages/learn_translations/done.json"
    before = mark.stat().st_mtime_ns
    again = msd.distil(pairs_of(), made.folder, "sv", **OPTIONS, **made.store)
    assert mark.stat().st_mtime_ns == before
    assert again == made.result
    with pytest.raises(InputError, match="other pairs than it began with"):
        msd.distil(pairs_of(seed=1), made.folder, "sv", **OPTIONS)


def test_held_out_pairs_are_never_trained_on(made):
    held, trained = (rows_in(made.folder, part) for part in ("dev", "train"))
    for side in (0, 1):
        assert not {row[side] for row in held} & {row[side] for row in trained}
    assert {*held} | {*trained} <= {*pairs_of()}
    halves = {half_of(source) for source, _ in held}
    assert halves == {"choose", "report"}


def test_what_is_held_out_follows_from_the_text_alone(tmp_path):
    rows = pairs_of(2000)
    for name, given in (("one", rows), ("two", rows[::-1][:1500])):
        module._split(
            msd.data.Pairs.from_list([(*r, "sv") for r in given]), tmp_path / name
        )
    one, two = (
        {*read_held_out(tmp_path / name / "parallel/dev")["sv"]}
        for name in ("one", "two")
    )
    assert two <= one and len(two) > 100


def test_a_translation_that_is_held_out_once_is_in_no_other_pair(tmp_path):
    rows = [(source, "same") for source, _ in pairs_of()] + pairs_of()
    corpus = msd.data.Pairs.from_list([(*row, "sv") for row in rows])
    counts = module._split(corpus, tmp_path / "data")["sv"]
    assert "same" not in {target for _, target in rows_in(tmp_path, "train")}
    assert counts["train"] == len(rows_in(tmp_path, "train"))


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (pairs_of(60), "at least 100 pairs to train on.*Received: [45]"),
        ([], "must hold a pair"),
        (
            [*pairs_of(), {"en": "One.", "fi": "Yksi."}],
            "`pairs` in `fi` must give some.*Received: 0 to train, 1 to choose",
        ),
    ],
)
def test_too_few_pairs(tmp_path, pairs, message):
    with pytest.raises(InputError, match=message):
        msd.distil(pairs, tmp_path / "model", **OPTIONS)
    assert not (tmp_path / "model/data").exists()


def test_pairs_without_english_need_another_teacher(tmp_path):
    options = OPTIONS | {"language": "fr", "source_language": "de"}
    with pytest.raises(
        InputError, match="`own.de-fr.tsv.gz`.*Take a multilingual teacher"
    ):
        msd.distil(pairs_of(), tmp_path / "model", **options)


def test_time_ends_the_training(tmp_path):
    result = msd.distil(pairs_of(), tmp_path / "model", minutes=1e-9, **OPTIONS)
    assert result["updates"] == 1
    assert result["pairs"].keys() == {"und"}
    assert "\nsteps = 1\n" in (tmp_path / "model/recipe.toml").read_text()


def test_the_time_of_a_stage_that_goes_on_counts_whole():
    watch = object.__new__(TranslationScores)
    state = {"record": [], "step": 3, "best": 1.0, "best_step": 2}
    state |= {"_looks_since_best": 0, "_weights": [np.zeros(1)]}
    watch.set_state({"scores": state, "seconds": 100.0})
    assert watch.get_state()["seconds"] >= 100.0
    assert watch.get_state()["scores"] == state


def test_the_command(tmp_path, capsys):
    lines = ["sv,en", *(f"{target},{source}" for source, target in pairs_of())]
    path = tmp_path / "own.csv"
    path.write_text("\n".join(lines))
    options = [f"--set={key}={value}" for key, value in QUICK.items()]
    arguments = ["distil", str(path), "--out", str(tmp_path / "model"), "--json"]
    arguments += ["--teacher=hashed-words", "--vocabulary-size=150", *options]
    with pytest.raises(SystemExit) as end:
        main(arguments)
    said = json.loads(capsys.readouterr().out)
    assert not end.value.code and list(said["pairs"]) == ["sv"]
    with pytest.raises(SystemExit):
        main([it for it in arguments if it != "--json"])
    shown = capsys.readouterr().out
    assert f"Gain: {said['gain']:+.1f} points, 8 updates; encoder kept" in shown
    assert f"Start: teacher, P@1 {said['closed_form']['precision']:.1f} before" in shown
    assert said["again"] in shown


def test_a_language_without_held_out_pairs(tmp_path):
    (tmp_path / "own.en-de.tsv").write_text("A\tB\n")
    with pytest.raises(InputError, match="no file for `fr`"):
        read_held_out(tmp_path, ["de", "fr"])
