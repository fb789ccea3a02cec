"""Runs that train a word table alone: a branch, an assistant without a body."""

import numpy as np
import pytest

from keras_msd.data.text_table import TextTable
from keras_msd.evaluate import score_set
from keras_msd.losses import MultilingualContrastive, SimilarityDistribution
from keras_msd.models.encoder import load_saved
from keras_msd.recipes import load_recipe, run
from keras_msd.report.runs import model_row

CHANGES = {
    "assistant.word_branch": True,
    "assistant.bottleneck_dim": 32,
    "assistant.num_layers": 2,
    "student.start": "svd",
    "starts.closed_form": False,
    "evaluate.artefacts": False,
    "stages.teach_assistant.skip": True,
    "stages.align_embedding.skip": True,
    "stages.teach_student.steps": 1,
    "stages.contrastive_learning.branch_alone": True,
    "stages.contrastive_learning.steps": 4,
    "stages.contrastive_learning.learning_rate": 1e-2,
    "stages.contrastive_learning.target": "softmax",
}


def weights(folder, step):
    return load_saved(folder / "stages" / step / "encoder").weights()


@pytest.mark.slow
def test_branches_are_tuned_and_put_back(tmp_path):
    store = tmp_path / "store"
    done = run("msd_lab", tmp_path / "run", "smoke", None, store, CHANGES)
    stages = [
        row.get("stage") for row in done["rows"] if row.get("student") == "student"
    ]
    assert stages[-1] == "contrastive_learning"
    for suffix in ("", "_small"):
        before = weights(tmp_path / "run", f"teach_student{suffix}")
        alone = weights(tmp_path / "run", f"branch{suffix}")
        tuned = weights(tmp_path / "run", f"contrastive_learning{suffix}")
        after = weights(tmp_path / "run", f"branch_back{suffix}")
        word, branch = "embedding/word", "word_branch/projection"
        wanted = before[word] @ before[branch]
        own = alone[word] @ alone["embedding/projection"]
        scale = np.linalg.norm(own) / np.linalg.norm(wanted)
        np.testing.assert_allclose(own, scale * wanted, atol=1e-4)
        assert np.abs(tuned[word] - alone[word]).max() > 1e-3
        np.testing.assert_array_equal(after[word], tuned[word])
        np.testing.assert_array_equal(after[branch], tuned["embedding/projection"])
        for path in ("embedding/position", "embedding/type"):
            assert not tuned[path].any(), path  # a bag of pieces has neither
            np.testing.assert_array_equal(after[path], before[path])
        body = [path for path in before if path.startswith("body/")]
        assert body
        for path in body:
            np.testing.assert_array_equal(after[path], before[path])

    rows = {row["name"]: row for row in done["rows"]}
    for name in ("student", "student_small"):
        student = load_saved(tmp_path / "run" / name)
        body = {"word_branch/body_weight": np.zeros(1, np.float32)}
        student.set_weights(student.weights() | body)
        data = tmp_path / "run/stages/example_data/data"
        scores = score_set(student, "examples", data, ["de", "fr"])
        row = rows[f"{name}, branch alone"]
        whole = rows[f"{name}, contrastive_learning"]
        for key in ("cross_lingual", "monolingual"):
            assert row[key] == pytest.approx(scores[key], abs=0.01)
        assert row["cross_lingual"] != whole["cross_lingual"]
        assert set(row["parameters_by_layer"]) == {"embedding"}
    model = model_row(done["rows"], "student")
    assert model == rows["student, contrastive_learning"]


def test_students_of_words_alone_are_trained_like_those_with_a_body():
    lab = load_recipe("msd_lab", "lab").settings()
    words = load_recipe("msd_lab_words", "lab").settings()
    key = "contrastive_learning"
    assert words["stages"][key] == lab["stages"][key]
    sizes = [
        [it.bottleneck_dim for it in load_recipe(name, "lab").student.each().values()]
        for name in ("msd_lab", "msd_lab_words")
    ]
    assert sizes[0] == sizes[1]


TABLE = {
    "matryoshka_dims": (),
    "data.pairs_per_language": 60,
    "stages.pretrain_assistant.steps": 2,
    "inverse_frequency": 0.02,
    "evaluate.artefacts": False,
}


def test_a_trained_table_is_weighted_by_frequency(tmp_path):
    folder = tmp_path / "run"
    done = run("tiny12", folder, "smoke", None, tmp_path / "store", TABLE)
    before, last = (row for row in done["rows"][-2:])
    assert before["name"] == "assistant before weights by frequency"
    assert last["name"] == "assistant"
    trained = weights(folder, "pretrain_assistant")["embedding/word"]
    weighted = load_saved(folder / "assistant")
    tokenizer, rows = weighted.tokenizer, len(trained)
    shares = []
    for language in ("de", "fr"):
        counts = np.zeros(rows)
        for pair in TextTable.open(folder / "stages" / "pairs" / "texts"):
            if pair.language == language:
                for text in pair[:2]:
                    for token in tokenizer.encode([text])[0]:
                        counts[token] += 1
        shares.append(counts / counts.sum())
    weight = 0.02 / (0.02 + np.mean(shares, axis=0))
    found = weighted.weights()["embedding/word"]
    np.testing.assert_allclose(found, weight[:, None] * trained, rtol=1e-5)
    assert weight.min() < 0.5 and weight.max() == 1.0


def test_a_trained_table_is_turned_for_its_prefixes(tmp_path):
    folder = tmp_path / "run"
    turned = {"inverse_frequency": None, "matryoshka_dims": (4, 8)}
    run("tiny12", folder, "smoke", None, tmp_path / "store", TABLE | turned)
    table = TextTable.open(folder / "stages/pairs/texts")
    pairs = [table.texts(side, 0, 100) for side in ("source", "target")]
    steps = folder / "stages/pretrain_assistant/encoder", folder / "assistant"
    plain, found = (load_saved(step) for step in steps)
    whole, same = (it.encode(pairs[0], normalize=True) for it in (plain, found))
    np.testing.assert_allclose(same @ same.T, whole @ whole.T, atol=1e-5)
    losses = MultilingualContrastive("softmax"), SimilarityDistribution()
    apart = []
    for encoder in (plain, found):
        sides = [encoder.encode(side, truncate_dim=4) for side in pairs]
        apart.append(sum(float(loss(whole, sides)) for loss in losses))
    assert apart[1] < 0.8 * apart[0]
