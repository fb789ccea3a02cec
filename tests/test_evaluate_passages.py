"""Retrieval of passages: trec_eval's numbers, formulas, both layouts, bad files."""

import gzip
import json
from math import log2

import numpy as np
import pytest
from table_encoder import Table

from keras_msd.checks import InputError
from keras_msd.evaluate import passages, score_set
from keras_msd.evaluate.parts import half_of
from keras_msd.evaluate.rows import asked_sets, evaluation_files, score_row


def tied_set():
    """Return vectors and relevance: many equal cosines, grades from -1 to 3."""
    random = np.random.default_rng(7)
    few = random.integers(-2, 3, (60, 6)).astype(float)
    documents = few[random.integers(0, 60, 300)]
    asked = random.integers(-2, 3, (12, 6)).astype(float)
    relevance = {}
    for query, vector in enumerate(asked):
        lengths = np.linalg.norm(documents, axis=1)
        near = np.argsort(-(documents @ vector) / lengths, kind="stable")[:200]
        chosen = random.choice(near, [1, 3, 150][query % 3], replace=False)
        judged = {f"p{row}": int(random.integers(-1, 4)) for row in chosen}
        relevance[f"q{query}"] = judged | {f"p{chosen[0]}": 2}
    return asked, documents, relevance


def texts(start, vectors):
    return {f"{start}{row}": f"text {start}{row}" for row in range(len(vectors))}


def table(asked, documents):
    named = {f"text q{row}": vector for row, vector in enumerate(asked)}
    return Table(named | {f"text p{row}": it for row, it in enumerate(documents)})


def passage_retrieval(encoder, queries, texts, relevance):
    given = passages.PassageSet(queries, texts, relevance)
    scores = passages.score_passages(encoder, {"one": given})
    assert scores.pop("tracks") == {"one": scores["ndcg_at_10"]}
    return scores


@pytest.mark.parametrize("block", [7, 8192])
def test_numbers_of_trec_eval(block, monkeypatch):
    """Of pytrec_eval-terrier 0.5.11, on the cosines of `tied_set` to ten decimals."""
    monkeypatch.setattr(passages, "STREAMED", block)
    asked, documents, relevance = tied_set()
    encoder = table(asked, documents)
    sides = texts("q", asked), texts("p", documents)
    scores = passage_retrieval(encoder, *sides, relevance)
    assert scores == {
        "ndcg_at_10": pytest.approx(10.5434, abs=1e-4),
        "recall_at_100": pytest.approx(38.3523, abs=1e-4),
        "mrr_at_10": pytest.approx(27.7778, abs=1e-4),
        "precision_at_1": pytest.approx(16.6667, abs=1e-4),
        "queries": 12,
        "passages": 300,
        "primary": "ndcg_at_10",
    }
    turned = dict(reversed(sides[1].items()))
    assert passage_retrieval(encoder, sides[0], turned, relevance) == scores


def test_a_ranking_made_by_hand():
    """Grades 3, 2 and 1 at ranks 2, 4 and 12 of 120 passages; a fourth at rank 101."""
    angles = np.linspace(0, 1.5, 120)
    documents = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    relevance = {"q0": {"p1": 3, "p3": 2, "p11": 1, "p100": 1, "p0": 0}}
    sides = texts("q", [0]), texts("p", documents)
    scores = passage_retrieval(table([[1.0, 0]], documents), *sides, relevance)
    best = 3 / log2(2) + 2 / log2(3) + 1 / log2(4) + 1 / log2(5)
    found = (3 / log2(3) + 2 / log2(5)) / best
    assert scores["ndcg_at_10"] == pytest.approx(100 * found, abs=1e-3)
    assert scores["recall_at_100"] == 75.0
    assert (scores["mrr_at_10"], scores["precision_at_1"]) == (50.0, 0.0)


def test_each_side_has_its_prompt():
    class Prompted:
        def encode(self, texts):
            raise AssertionError("it has a method for each side")

        def encode_query(self, texts):
            return np.array([[1.0, 0] if text == "a" else [0, 1.0] for text in texts])

        def encode_document(self, texts):
            return np.array([[0, 1.0] if text == "a" else [1.0, 0] for text in texts])

    given = ({"q": "a"}, {"same": "a", "other": "b"}, {"q": {"other": 1}})
    assert passage_retrieval(Prompted(), *given)["precision_at_1"] == 100.0
    assert passage_retrieval(Table(), *given)["precision_at_1"] == 0.0


def packed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


QUERIES = {f"q{row}": f"Frage {row}?" for row in range(8)}
PASSAGES = {f"p{row}": f"Absatz {row}." for row in range(9)}
RELEVANCE = {query: {f"p{row}": row % 3 + 1} for row, query in enumerate(QUERIES)}


def flat(folder, name="faq.de", end=".tsv.gz"):
    """Write a set as files `<name>.<xx>.<kind>.tsv.gz`."""
    for kind, content in (("queries", QUERIES), ("passages", PASSAGES)):
        lines = "".join(f"{one}\t{text}\n" for one, text in content.items())
        packed(folder / f"{name}.{kind}{end}", lines)
    packed(folder / f"{name}.qrels{end}", qrels())


def qrels(header=""):
    rows = [
        f"{query}\t{passage}\t{value}\n"
        for query, judged in RELEVANCE.items()
        for passage, value in judged.items()
    ]
    return header + "".join(rows)


def beir(folder, end=".jsonl"):
    """Write a set in BEIR's layout, with queries of another split."""
    other = {"train1": "Eine Frage des Trainings?"}
    for name, content in (("queries", QUERIES | other), ("corpus", PASSAGES)):
        items = (
            {"_id": one, "title": "", "text": text, "metadata": {}}
            for one, text in content.items()
        )
        packed(folder / f"{name}{end}", "".join(f"{json.dumps(it)}\n" for it in items))
    packed(folder / "qrels/test.tsv", qrels("query-id\tcorpus-id\tscore\n"))
    packed(folder / "qrels/dev.tsv", "train1\tp0\t1\n")


def expected():
    return passage_retrieval(Table(), QUERIES, PASSAGES, RELEVANCE)


def test_both_layouts_are_one_set(tmp_path):
    flat(tmp_path / "flat/retrieval")
    beir(tmp_path / "beir/de")
    beir(tmp_path / "packed/de", ".jsonl.gz")
    for name, track in (("flat", "faq.de"), ("beir", "de"), ("packed", "de")):
        for languages in (None, ["de"]):
            scores = score_set(Table(), "retrieval", tmp_path / name, languages)
            wanted = expected()
            assert scores.pop("tracks") == {track: wanted["ndcg_at_10"]}
            assert scores == wanted
    dev = score_set(Table(), "retrieval", tmp_path / "beir/de", split="dev")
    assert (dev["queries"], dev["passages"]) == (1, 9)


def test_titles_headers_and_numbers_as_ids(tmp_path):
    packed(tmp_path / "queries.tsv", "_id\ttext\n7\tA?\n")
    lines = [
        '{"_id": 1, "title": "Tea", "text": "It is hot."}',
        '{"id": 2, "text": ""}',
    ]
    packed(tmp_path / "corpus.jsonl", "\n".join(lines))
    judged = '{"query-id": "7", "corpus-id": 1, "score": 2.0}\n'
    packed(tmp_path / "qrels.jsonl", judged)
    encoder = Table()
    assert score_set(encoder, "retrieval", tmp_path)["queries"] == 1
    assert sorted(encoder.seen) == ["", "A?", "Tea It is hot."]


def test_halves_have_each_query_once(tmp_path):
    flat(tmp_path)
    scores = {}
    for part in ("choose", "report"):
        asked = {q: text for q, text in QUERIES.items() if half_of(text) == part}
        judged = {query: RELEVANCE[query] for query in asked}
        encoder = Table()
        scores[part] = score_set(encoder, "retrieval", tmp_path, part=part)
        assert set(encoder.seen) == {*asked.values(), *PASSAGES.values()}
        wanted = passage_retrieval(Table(), asked, PASSAGES, judged)
        assert scores[part]["ndcg_at_10"] == wanted["ndcg_at_10"]
    assert sum(one["queries"] for one in scores.values()) == 8


def test_in_a_recipe(tmp_path):
    flat(tmp_path / "retrieval")
    flat(tmp_path / "retrieval", "faq.en")
    recipe = {"data": {"languages": ["de"]}, "evaluate": {"sets": ["retrieval"]}}
    names = {path.name for path in evaluation_files(recipe, tmp_path)}
    assert names == {f"faq.de.{it}.tsv.gz" for it in ("queries", "passages", "qrels")}
    [asked] = asked_sets(recipe)
    assert asked.title == "Retrieval of passages"
    row = score_row(recipe, tmp_path, Table())
    score = expected()["ndcg_at_10"]
    assert row == {"ndcg_at_10": score, "tracks": {"ndcg_at_10-faq.de": score}}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("queries", b"", "queries.tsv` is empty"),
        ("queries", b"id\ttext\n", "must hold _id TAB text.*only a header"),
        ("passages", b"p1\tA\np1\tB\n", "passages.tsv`, line 2: an id .*'p1' again"),
        ("passages", b"p1\tA\tB\n", "line 1: a line must have 2 fields.*Received: 3"),
        ("passages", b"p1\tA\np2\t\xe4\n", "passages.tsv`, line 2: text must be UTF-8"),
        ("qrels", b"q0\tp0\t1\nq1\tp99\t1\n", "line 2: the passage .*'p99'. Add its"),
        ("qrels", b"q99\tp0\t1\n", "line 1: the query must be in .*queries.tsv`"),
        ("qrels", b"q0\tp0\tgood\n", "line 1: a relevance must be.*'good'. Correct"),
        ("qrels", b"q0\tp0\n", "line 1: a line must have 3 fields, query-id TAB"),
        ("qrels", b"q0\tp0\t1\nq0\tp0\t2\n", "line 2: a passage may be judged once"),
        ("qrels", b"q0\tp0\t0\n", "qrels.tsv`, line 1: the query 'q0' must have"),
        ("qrels", b"q0\tp0\t1\n", "qrels.tsv`: the query 'q1' must have a passage"),
    ],
)
def test_bad_lines(tmp_path, name, content, message):
    flat(tmp_path, end=".tsv")
    (tmp_path / f"faq.de.{name}.tsv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        score_set(Table(), "retrieval", tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: a line must be a JSON object"),
        ('{"_id": "p0"}', "corpus.jsonl`, line 1: `text` must be a text.*None"),
        ('{"text": "A"}', "line 1: `_id` must be a text"),
        ('{"_id": "p0", "text": "\\ud800"}', "line 1: text must be Unicode"),
    ],
)
def test_bad_lines_of_json(tmp_path, line, message):
    beir(tmp_path)
    (tmp_path / "corpus.jsonl").write_text(line)
    with pytest.raises(InputError, match=message):
        score_set(Table(), "retrieval", tmp_path)


def test_missing_files(tmp_path):
    with pytest.raises(InputError, match=r"no files for sets; found none\. A set is"):
        score_set(Table(), "retrieval", tmp_path)
    flat(tmp_path)
    with pytest.raises(InputError, match=r"no files for fr; found faq\.de"):
        score_set(Table(), "retrieval", tmp_path, ["de", "fr"])
    flat(tmp_path / "again")
    with pytest.raises(InputError, match="`faq.de` must have one file of passages"):
        score_set(Table(), "retrieval", tmp_path)
    (tmp_path / "again/faq.de.qrels.tsv.gz").unlink()
    with pytest.raises(InputError, match=r"`faq.de` must have .*Received: no qrels\."):
        score_set(Table(), "retrieval", tmp_path / "again")
    beir(tmp_path / "own")
    with pytest.raises(InputError, match=r"the split train\). Received: no qrels"):
        score_set(Table(), "retrieval", tmp_path / "own", split="train")
