"""Everything that can be added is added from outside, each by an entry of a dict."""

import keras
import numpy as np
import pytest
from small_recipe import RECIPE, write_place

import keras_msd as msd
from keras_msd.checks import InputError
from keras_msd.io.files import read_json
from keras_msd.recipes import load_recipe, run
from keras_msd.stages import STAGES, StageRecord
from keras_msd.stages.settings import PairStageSettings
from keras_msd.stages.stage import OF_SOURCE, ExtraStep


@keras.saving.register_keras_serializable(package="test_extending")
class MeanCosine(keras.losses.Loss):
    """`factor * (1 - mean cosine of source and target)`."""

    def __init__(self, factor=1.0):
        super().__init__(dtype="float32")
        self.factor = factor

    def call(self, y_true, y_pred):
        source, target = y_pred
        cosine = keras.ops.sum(
            keras.ops.normalize(source) * keras.ops.normalize(target), axis=-1
        )
        return self.factor * (1 - cosine)


class PullSettings(PairStageSettings):
    """`[stages.pull]`: `strength` multiplies the distances."""

    strength: float = 2.0


class Pull(msd.stages.Stage):
    """Both sides are pulled to the teacher's vector."""

    goals = {"source": "teacher", "target": "teacher"}

    def __init__(self, encoder, strength, mean, **options):
        super().__init__(encoder, **options)
        self.strength, self.mean = strength, mean

    def distance(self, goal, embedding, side, x):
        return self.strength * super().distance(goal - self.mean, embedding, side, x)


def mean_vector(settings):
    """Return the step that computes the mean of the teacher's vectors."""

    def make(teacher, student):
        rows = teacher.source[np.arange(len(teacher.group))]
        return rows.mean(axis=0)

    return ExtraStep("mean", make)


def read_arrows(path, languages):
    for line in path.read_text(encoding="utf-8").splitlines():
        yield tuple(line.split(" -> "))


def score_length(encoder, parts):
    vectors = encoder.encode(["one text", "another"])
    length = float(np.linalg.norm(vectors, axis=1).mean())
    return {"length": length, "primary": "length"}


class Letters(msd.tokenizers.Tokenizer):
    """A token for each letter."""

    kind = "letters"
    definition_file = "letters.txt"
    pad_id, start_ids, end_ids, unknown_id = 0, (1,), (2,), 3

    def __init__(self, letters):
        self.letters = letters
        self.vocabulary_size = 4 + len(letters)

    def encode_plain(self, texts):
        ids = {letter: 4 + place for place, letter in enumerate(self.letters)}
        return [[ids.get(letter, self.unknown_id) for letter in t] for t in texts]

    def pieces(self):
        return ["[PAD]", "[START]", "[END]", "[UNK]", *self.letters]

    @property
    def definition(self):
        return self.letters.encode()

    @classmethod
    def from_definition(cls, definition, settings, origin):
        return cls(definition.decode())


SET = msd.evaluate.EvaluationSet(
    name="vector_length",
    splits=("all",),
    score=score_length,
    find=lambda folder, languages, split: {},
)

EXTENDED = (
    RECIPE.replace('corpora = ["other"]\n', "").replace("size = 40", "size = 60")
    + """
[smoke.stages.pull]
steps = 2
batch_size = 16
strength = 3.0
[smoke.stages.teach_student.losses.together]
loss = "mean_cosine"
goals = "assistant_source"
weight = 0.5
[smoke.stages.teach_student.losses.together.arguments]
factor = 2.0
"""
)


@pytest.fixture(scope="module", autouse=True)
def extended():
    """Add everything, and remove it again."""
    reader = msd.data.Reader(suffixes=(".arrows",), read=read_arrows)
    msd.data.READERS["arrows"] = reader
    msd.evaluate.SETS[SET.name] = SET
    msd.losses.LOSSES["mean_cosine"] = MeanCosine
    STAGES["pull"] = StageRecord(Pull, PullSettings, OF_SOURCE, extra_step=mean_vector)
    yield
    del msd.data.READERS["arrows"], msd.evaluate.SETS[SET.name]
    del STAGES["pull"]
    del msd.losses.LOSSES["mean_cosine"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write a smoke recipe with all of them, and its data."""
    place = write_place(tmp_path_factory.mktemp("extending"))
    (place / "small.toml").write_text(EXTENDED)
    pairs = [f"the cat sees word{n} -> die Katze sieht Wort{n}" for n in range(60)]
    path = place / "data/parallel/train/mine.en-de.arrows"
    path.write_text("\n".join(pairs), encoding="utf-8")
    return place


@pytest.mark.slow
def test_a_smoke_recipe_runs_with_them(place):
    changes = {
        "evaluate.sets": ["examples", "vector_length"],
        "evaluate.intermediate": "none",
        "evaluate.artefacts": False,
        "starts.closed_form": False,
        "stages.teach_assistant.skip": True,
        "stages.align_embedding.skip": True,
        "stages.contrastive_learning.skip": True,
    }
    result = run(
        place / "small.toml",
        place / "run",
        data_dir=place / "data",
        store_dir=place / "store",
        overrides=changes,
        share_steps=True,
    )
    stages = place / "run/stages"
    history = read_json(stages / "teach_student/history.json")
    terms = history["terms"]
    assert {"source_mse", "target_mse", "together"} <= terms.keys()
    total = terms["source_mse"][0] + terms["target_mse"][0] + 0.5 * terms["together"][0]
    assert terms["loss"][0] == pytest.approx(total, rel=1e-5)
    assert 0 < terms["together"][0] < 4  # twice 1 - cosine
    pulled = read_json(stages / "pull/history.json")["terms"]
    assert {"source_mse", "target_mse", "loss"} == pulled.keys()
    teacher = read_json(stages / "teacher_vectors/done.json")["result"]
    assert np.load(stages / "mean/mean.npy").shape == (teacher["dim"],)
    last = result["rows"][-1]
    assert last["stage"] == "pull" and last["vector_length"] == pytest.approx(1.0)
    counts = read_json(stages / "pairs/done.json")["result"]["counts"]
    assert "mine.en-de" in str(counts)
    report = (place / "run/report.html").read_text(encoding="utf-8")
    assert "strength = 3.0" in report and "pull" in report and "vector length" in report


def test_a_setting_of_its_own_is_checked(place):
    recipe = place / "small.toml"
    settings = load_recipe(recipe, overrides={"stages.pull.strength": 5.0}).stages
    assert settings["pull"].strength == 5.0
    with pytest.raises(InputError, match="Did you mean `strength`"):
        load_recipe(recipe, overrides={"stages.pull.strenth": 5.0})


def test_a_tokenizer_kind_is_saved_and_loaded(tmp_path, monkeypatch):
    monkeypatch.setitem(msd.tokenizers.TOKENIZERS, "letters", Letters)
    encoder = msd.testing.tiny_encoder(Letters("abcdefghijklmnopqrstuvwxyz "))
    encoder.save(tmp_path / "encoder")
    again = msd.load_encoder(tmp_path / "encoder")
    assert again.tokenizer.encode(["abc"]) == [[1, 4, 5, 6, 2]]
    texts = ["a word", "another"]
    np.testing.assert_array_equal(again.encode(texts), encoder.encode(texts))
