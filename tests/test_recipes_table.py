"""A run of a word table without a body: weights by frequency, and a rotation."""

import numpy as np
import pytest

from keras_msd.data.tables import TextTable
from keras_msd.models.encoder import load_saved
from keras_msd.recipes import prepare, run

pytestmark = pytest.mark.usefixtures("no_graphs", "no_charts")

TABLE = {
    "matryoshka_dims": (4, 8),
    "data.pairs_per_language": 60,
    "stages.pretrain_assistant.steps": 2,
    "inverse_frequency": 0.02,
    "evaluate.artefacts": False,
}


def test_a_trained_table_is_weighted_by_frequency_and_turned(tmp_path, monkeypatch):
    """What a rotation makes better is in test_dimension_reduction.py."""
    folder, seen = tmp_path / "run", {}

    def turn(source, target, dims, group, **options):
        seen.update(source=source, target=target, dims=dims)
        return np.eye(source.shape[1], dtype="float32")[::-1]

    monkeypatch.setattr(prepare.reduction, "order_dimensions", turn)
    done = run("tiny12", folder, "smoke", None, tmp_path / "store", TABLE)
    before, last = (row for row in done["rows"][-2:])
    assert before["name"] == "assistant before weights by frequency"
    assert last["name"] == "assistant"
    plain, weighted = (
        load_saved(folder / "stages" / step / "encoder")
        for step in ("pretrain_assistant", "weigh_rows")
    )
    trained = plain.weights()["embedding/word"]
    tokenizer, rows = weighted.tokenizer, len(trained)
    table, shares = TextTable.open(folder / "stages" / "pairs" / "texts"), []
    for language in ("de", "fr"):
        counts = np.zeros(rows)
        for pair in table:
            if pair.language == language:
                for text in pair[:2]:
                    for token in tokenizer.encode([text])[0]:
                        counts[token] += 1
        shares.append(counts / counts.sum())
    weight = 0.02 / (0.02 + np.mean(shares, axis=0))
    found = weighted.weights()["embedding/word"]
    np.testing.assert_allclose(found, weight[:, None] * trained, rtol=1e-5)
    assert weight.min() < 0.5 and weight.max() == 1.0

    texts = [table.texts(side, 0, len(table)) for side in ("source", "target")]
    assert seen["dims"] == (4, 8)
    whole, other = (weighted.encode(side, normalize=True) for side in texts)
    np.testing.assert_allclose(seen["source"], whole, atol=1e-5)
    np.testing.assert_allclose(seen["target"], other, atol=1e-5)
    turned = load_saved(folder / "assistant").encode(texts[0], normalize=True)
    np.testing.assert_allclose(turned, whole[:, ::-1], atol=1e-5)
