"""An encoder and an artefact as models of mteb, on tasks made here."""

import json
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from keras_msd.checks import InputError
from keras_msd.cli import main
from keras_msd.evaluate import adapters, retrieval, sts
from keras_msd.evaluate.adapters import MTEBEncoder
from keras_msd.testing import tiny_encoder, tiny_pairs

ROWS = [
    (5.0 if i == j else float((i * j) % 4), one.source, two.target)
    for i, one in enumerate(tiny_pairs())
    for j, two in enumerate(tiny_pairs()[:4])
]


@pytest.fixture(scope="module")
def encoder():
    return tiny_encoder()


@pytest.fixture(scope="module")
def mteb():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, while it is imported
        return pytest.importorskip("mteb")


def tasks(mteb):
    """Return one of mteb's own tasks, with rows made here, and a task made here."""
    from datasets import Dataset

    (similarity,) = mteb.get_tasks(tasks=["STSBenchmark"])
    rows = [{"score": score, "sentence1": a, "sentence2": b} for score, a, b in ROWS]
    similarity.dataset = {"test": Dataset.from_list(rows)}
    similarity.data_loaded = True

    class MadeBitext(mteb.abstasks.AbsTaskBitextMining):
        metadata = mteb.TaskMetadata(
            name="MadeBitext",
            type="BitextMining",
            description="Made sentences.",
            main_score="accuracy",
            dataset={"path": "made/here", "revision": "1"},
            eval_langs=["eng-Latn", "deu-Latn", "fra-Latn"],
        )

        def load_data(self, **options):
            rows = [{"sentence1": a, "sentence2": b} for a, b, *_ in tiny_pairs()]
            self.dataset = {"test": Dataset.from_list(rows)}
            self.data_loaded = True

    return [similarity, MadeBitext()]


def evaluate(mteb, model, cache=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = mteb.evaluate(model, tasks(mteb), cache=cache, show_progress_bar=False)
    scores = {one.task_name: one.scores["test"][0] for one in result.task_results}
    return result, scores


def check(encoder, scores):
    expected = sts(encoder, ROWS)["spearman"] / 100
    for name in ("cosine_spearman", "spearman"):
        assert scores["STSBenchmark"][name] == pytest.approx(expected, abs=1e-4)
    pairs = tiny_pairs()
    found = retrieval(encoder, pairs)["source_to_target"] / 100
    assert scores["MadeBitext"]["accuracy"] == pytest.approx(found, abs=1e-6)


def test_an_encoder(mteb, encoder, tmp_path, monkeypatch):
    cache = mteb.ResultCache(tmp_path)
    result, scores = evaluate(mteb, MTEBEncoder(encoder, "me/tiny"), cache)
    check(encoder, scores)
    monkeypatch.setattr(MTEBEncoder, "encode", None)  # from here on, from the cache
    check(encoder, evaluate(mteb, MTEBEncoder(encoder, "me/tiny"), cache)[1])
    assert result.model_name == "me/tiny"
    assert result.model_revision == encoder.fingerprint[:16]


def test_vectors_and_cosines(mteb, encoder):
    model = MTEBEncoder(encoder)
    texts = [pair.target for pair in tiny_pairs()]
    batches = [{"text": texts[:5]}, {"text": texts[5:]}]
    vectors = model.encode(batches, batch_size=3, show_progress_bar=False, anything=1)
    np.testing.assert_allclose(vectors, encoder.encode(texts), atol=1e-6)
    longer = vectors * np.arange(1, len(vectors) + 1)[:, None]
    cosines = vectors @ vectors.T
    found = model.similarity(longer, vectors).numpy()
    np.testing.assert_allclose(found, cosines, atol=1e-5)
    found = model.similarity_pairwise(longer, vectors[::-1].copy()).numpy()
    np.testing.assert_allclose(found, np.diag(cosines[:, ::-1]), atol=1e-5)


def test_refusals(mteb, encoder):
    with pytest.raises(InputError, match="`organisation/model`. Received: 'tiny'"):
        MTEBEncoder(encoder, "tiny")
    with pytest.raises(InputError, match="Received: a batch of image"):
        MTEBEncoder(encoder).encode([{"image": [0]}])


def test_without_mteb(monkeypatch, encoder):
    monkeypatch.setitem(sys.modules, "mteb", None)
    monkeypatch.setitem(sys.modules, "mteb.models.model_meta", None)
    with pytest.raises(InputError, match=r'pip install "\.\[mteb\]"'):
        MTEBEncoder(encoder)


def test_the_command_needs_mteb_or_data(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mteb", None)
    for more, message in (
        (["--mteb", "STS17"], 'pip install ".[mteb]"'),
        ([], "`--data`, the folder of the set, or `--mteb TASK`"),
    ):
        with pytest.raises(SystemExit) as end:
            main(["evaluate", "nowhere", *more])
        assert end.value.code == 2 and message in capsys.readouterr().err


def test_the_command_gives_the_main_score(monkeypatch, capsys, tmp_path):
    tiny_encoder(num_layers=0).save(tmp_path / "encoder")
    given = {}

    def evaluate(model, tasks):
        given["dim"], given["tasks"] = model.encoder.dim, tasks
        one = SimpleNamespace(get_score=lambda: 0.25)
        return SimpleNamespace(task_results=[one])

    def get_task(name):
        return {"STS17": "a task"}[name]

    fake = SimpleNamespace(evaluate=evaluate, get_task=get_task)
    monkeypatch.setitem(sys.modules, "mteb", fake)
    monkeypatch.setattr(adapters, "MTEBEncoder", lambda it: SimpleNamespace(encoder=it))
    with pytest.raises(SystemExit):
        main(["evaluate", str(tmp_path / "encoder"), "--mteb", "STS17", "--json"])
    assert json.loads(capsys.readouterr().out) == {"task": "STS17", "score": 25.0}
    assert given == {"dim": 16, "tasks": ["a task"]}
    with pytest.raises(SystemExit):
        main(["evaluate", "x", "--mteb", "STS18"])
    assert "mteb has no task 'STS18'" in capsys.readouterr().err
