"""A run of a word table without a body: weights by frequency, and a rotation."""

import numpy as np
import pytest

from keras_msd.data.tables import TextTable
from keras_msd.losses import MultilingualContrastive, SimilarityDistribution
from keras_msd.models.encoder import load_saved
from keras_msd.recipes import run

# With graphs: a rotation is found in many steps.
pytestmark = pytest.mark.usefixtures("no_charts")


def weights(folder, step):
    return load_saved(folder / "stages" / step / "encoder").weights()


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
