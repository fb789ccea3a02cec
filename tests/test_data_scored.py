"""Files of natural language inference, as their publishers write them."""

import gzip
import json

import pytest

from keras_msd.checks import InputError
from keras_msd.choices import CLASSES
from keras_msd.data.scored import read_inference, read_scored

THREE = [(0, "A dog runs.", "An animal runs."), (1, "A dog.", "A dog is late."),
         (2, "Rain.", "It is dry.")]  # fmt: skip
ASSIN = ("none", "entailment", "paraphrase")


def write(tmp_path, name, text):
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name[-3:] == ".gz" else data)
    return tmp_path / name


def tsv(columns, rows):
    return "".join("\t".join(map(str, row)) + "\n" for row in (columns, *rows))


def jsonl(columns, rows):
    objects = (dict(zip(columns, row, strict=True)) for row in rows)
    return "".join(json.dumps(item) + "\n" for item in objects)


SNLI = [
    (CLASSES[label], "( parse", premise, hypothesis, "7.jpg")
    for label, premise, hypothesis in THREE
]
SNLI.insert(1, ("-", "( parse", 'A "quoted text', "No label.", "8.jpg"))
SNLI_COLUMNS = ("gold_label", "sentence1_parse", "sentence1", "sentence2", "captionID")


@pytest.mark.parametrize(
    ("name", "form"), [("snli.txt", tsv), ("a.tsv.gz", tsv), ("a.jsonl.gz", jsonl)]
)
def test_snli(tmp_path, name, form):
    found = read_inference(write(tmp_path, name, form(SNLI_COLUMNS, SNLI)))
    assert found == (THREE, 1)


def test_labels_in_capitals_as_ids_and_in_translations(tmp_path):
    columns = ("premise", "hypo", "label")
    rows = [THREE[0][1:] + ("Entailment",), THREE[1][1:] + (1,)]
    rows.append(THREE[2][1:] + ("contradictory",))
    for name, form in (("a.tsv", tsv), ("a.jsonl", jsonl)):
        text = form(columns, [*rows, ("Left", "out", -1)])
        assert read_inference(write(tmp_path, name, text)) == (THREE, 1)


def test_assin_has_classes_of_its_own_and_scores_beside_them(tmp_path):
    columns = ("premise", "hypothesis", "relatedness_score", "entailment_judgment")
    rows = [("O cão.", "Um cão.", 4.5, "Paraphrase"), ("A chuva.", "Sol.", 1, "None")]
    text = tsv(columns, rows)
    found = read_inference(write(tmp_path, "assin.tsv", text), ASSIN)
    assert found.rows == [(2, "O cão.", "Um cão."), (0, "A chuva.", "Sol.")]
    two = text.replace("Paraphrase", "Entailment")
    two = read_inference(write(tmp_path, "assin2.tsv", two), ("None", "Entailment"))
    assert [label for label, *_ in two.rows] == [1, 0]
    scored = "".join(f"{gold}\t{one}\t{other}\n" for one, other, gold, _ in rows)
    path = write(tmp_path, "assin.train.pt.tsv.gz", scored)
    assert read_scored(path, "from_1") == [
        (0.875, "O cão.", "Um cão."),
        (0.0, "A chuva.", "Sol."),
    ]


HEAD = "premise\thypothesis\tlabel\n"
ROW = {"premise": "a", "hypothesis": "b", "label": 0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sentence1\tb\nx\ty\n", "line 2: the column of the hypothesis.*Rename it"),
        (HEAD + "x\ty\t0\nx\ty\n", "line 3: a line must have 3 fields.*Received: 2"),
        (HEAD + "x\ty\tnuetral\n", "line 2: a label must be.*Did you mean `neutral`"),
        (HEAD + f"x\ty\t{'9' * 5000}\n", "line 2: a label must be.*Received: '999"),
        ("", "is empty"),
        ({"premise": "a", "label": 0}, "line 1: the column of the hypothesis.*'label'"),
        ([1], "line 1: a line must be a JSON object"),
        (ROW | {"premise": 1}, "line 1: premise and hypothesis must be texts.*1 and"),
        (ROW | {"premise": "\ud800"}, "line 1: text must be Unicode"),
        (ROW | {"label": 3}, "line 1: a label must be.*3"),
        (ROW | {"label": None}, "line 1: a label must be.*Received: None"),
    ],
)
def test_mistakes_are_named(tmp_path, content, message):
    is_tsv = isinstance(content, str)
    name, text = ("a.tsv", content) if is_tsv else ("a.jsonl", json.dumps(content))
    with pytest.raises(InputError, match=f"{name}.*{message}"):
        read_inference(write(tmp_path, name, text))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="a.tsv` does not exist"):
        read_inference(tmp_path / "a.tsv")
