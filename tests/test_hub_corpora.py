"""Corpora of the Hugging Face hub at `hf://`, from a server on this machine."""

import io
import json

import pytest
from child_process import run_python
from hub_server import hub

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("huggingface_hub")

TALKS = "sentence-transformers/parallel-sentences-talks"
STSB = "PhilipMay/stsb_multi_mt"
TATOEBA = "mteb/tatoeba-bitext-mining"
ROWS = [(f"The house number {n}.", f"Das Haus Nummer {n}.") for n in range(900)]


def packed(columns):
    buffer = io.BytesIO()
    parquet.write_table(arrow.table(columns), buffer)
    return buffer.getvalue()


def talks(rows):
    english, other = zip(*rows, strict=True)
    return packed({"english": english, "non_english": other})


FILES = {
    TALKS: {
        "README.md": b"# Talks",
        "en-de/train-00000-of-00002.parquet": talks(ROWS[:500]),
        "en-de/train-00001-of-00002.parquet": talks(ROWS[500:]),
        "en-pt-br/train-00000-of-00001.parquet": talks([("Tea.", "Ch\u00e1.")]),
    },
    STSB: {
        "de/test-00000-of-00001.parquet": packed(
            {
                "sentence1": ["Ein Hund.", "Tee."],
                "sentence2": ["Eine Katze.", "Kaffee."],
                "similarity_score": [1.25, 5.0],
            }
        )
    },
    TATOEBA: {
        "deu-eng/test-00000-of-00001.parquet": packed(
            {"sentence1": ["Ein Haus."], "sentence2": ["A house."], "lang": ["deu-eng"]}
        )
    },
}


@pytest.fixture(scope="module")
def server():
    with hub(FILES) as (address, seen):
        yield address, seen


def run(server, folder, code, *arguments):
    """Run Python with the hub at the server; its modules read the address at import."""
    own = {"HF_ENDPOINT": server[0], "HF_HOME": str(folder / "hub")}
    own |= {"HF_HUB_OFFLINE": "0", "KERAS_BACKEND": "tensorflow"}
    return json.loads(run_python(code, *arguments, cwd=folder, **own))


PAIRS = """
import json, sys
from keras_msd import InputError
from keras_msd.data import read_pairs
found = []
for place in sys.argv[1:]:
    try:
        pairs = read_pairs(place)
        found.append([pairs.languages, [pair[:3] for pair in pairs]])
    except InputError as error:
        found.append(str(error))
print(json.dumps(found))
"""


def test_pairs_are_those_of_the_files(server, tmp_path):
    codes = "en-de", "en-pt-br", "en-xx"  # a country; none of the hub
    places = [f"hf://datasets/{TALKS}/{code}/*.parquet" for code in codes]
    german, country, error = run(server, tmp_path, PAIRS, *places)
    assert german == [["de"], [[*row, "de"] for row in ROWS]]
    assert country == [["pt_br"], [["Tea.", "Ch\u00e1.", "pt_br"]]]
    assert f"The corpus file `{places[2]}` does not exist" in error
    asked = {path for _, path in server[1]}
    assert any(path.startswith(f"/datasets/{TALKS}/resolve/") for path in asked)


WRITE = """
import json, sys
from keras_msd.data import write_corpus
print(json.dumps([write_corpus(**given) for given in json.loads(sys.argv[1])]))
"""


def test_a_data_folder_is_made_of_them(server, tmp_path):
    calls = [
        {"source": f"hf://datasets/{TALKS}/en-de/*.parquet", "name": "talks",
         "language": "de"},
        {"source": f"hf://datasets/{STSB}/de/test-*.parquet", "name": "stsb",
         "language": "de", "layout": "sts",
         "columns": ["similarity_score", "sentence1", "sentence2"]},
        {"source": f"hf://datasets/{TATOEBA}/deu-eng/*.parquet", "name": "tatoeba",
         "language": "deu", "layout": "tatoeba"},
    ]  # fmt: skip
    calls = [call | {"folder": "DATA"} for call in calls]
    rows = run(server, tmp_path, WRITE, json.dumps(calls))
    from keras_msd.data import read_pairs
    from keras_msd.evaluate import read_tatoeba
    from keras_msd.evaluate.similarity import read_sts

    data = tmp_path / "DATA"
    train, dev = (read_pairs(data / "parallel" / part) for part in ("train", "dev"))
    assert sorted(pair[:2] for each in (train, dev) for pair in each) == sorted(ROWS)
    assert sum(rows[0].values()) == len(ROWS)
    assert read_sts(data / "sts/stsb.test.de.tsv.gz") == [
        (1.25, "Ein Hund.", "Eine Katze."), (5.0, "Tee.", "Kaffee."),
    ]  # fmt: skip
    assert read_tatoeba(data, ["de"]) == {"deu": [("A house.", "Ein Haus.")]}
