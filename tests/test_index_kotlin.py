"""The index in Kotlin gives what Python gives, with Android's own org.json."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from test_index_node import Drawn

from keras_msd.index import Index, build_index

ROOT = Path(__file__).resolve().parents[1]
KOTLINC, JAVA = shutil.which("kotlinc"), shutil.which("java")
# Of the Debian package libandroid-json-java.
ORG_JSON = Path("/usr/share/java/com.android.json.jar")
pytestmark = pytest.mark.skipif(
    not (KOTLINC and JAVA and ORG_JSON.is_file()),
    reason="needs kotlinc, Java and libandroid-json-java",
)
ASK = """
import java.io.File
import org.json.JSONArray
import org.json.JSONObject

fun message(action: () -> Unit): String =
    try { action(); "same" } catch (error: IllegalArgumentException) { error.message!! }

fun main(given: Array<String>) {
    val asked = JSONObject(File(given[1]).readText())
    val index = SentenceIndex(File(given[0]))
    val numbers = asked.getJSONArray("query")
    val query = FloatArray(numbers.length()) { numbers.getDouble(it).toFloat() }
    fun rows(found: List<Found>) = JSONArray(found.map {
        JSONArray(listOf(it.cosine, it.text, it.file, it.line))
    })
    val cards = asked.getJSONArray("cards")
    val answer = JSONObject()
        .put("found", rows(index.search(query, top = 7)))
        .put("above", rows(index.search(query, 7, asked.getDouble("threshold"))))
        .put("threshold", index.threshold)
        .put("width", message { index.search(FloatArray(3)) })
        .put("cards", JSONArray((0 until cards.length()).map { place ->
            message { index.checkModel(cards.getJSONObject(place)) }
        }))
    File(given[0], "lines.i64").appendBytes(ByteArray(8))
    answer.put("cut", message { SentenceIndex(File(given[0])) })
    File(given[2]).writeText(answer.toString())
}
"""


def test_search(tmp_path):
    for name, lines in {"a": 40, "b": 60}.items():
        rows = [f"{name} {i} ü {i % 7}\n" for i in range(lines)]
        (tmp_path / f"{name}.txt").write_text("".join(rows), encoding="utf-8")
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    threshold = {"cosine": 0.25, "precision": 95.5, "recall": 1.5, "pairs": 7}
    threshold |= {"asked": 95.0, "set": "held out"}
    build_index(Drawn(), files, tmp_path / "index", threshold=threshold)
    index = Index.open(tmp_path / "index")
    expected = index.search(Drawn(), "a 3 ü 3", 7)
    lowest = (expected[2].cosine + expected[3].cosine) / 2
    prints = Drawn.fingerprint, "0" * 32
    asked = {
        "query": (3 * Drawn().encode(["a 3 ü 3"])[0]).tolist(),
        "threshold": lowest,
        "cards": [{"encoder": {"fingerprint": it}} for it in prints],
    }
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    (tmp_path / "Ask.kt").write_text(ASK, encoding="utf-8")
    sources = [ROOT / "export" / "SentenceIndex.kt", tmp_path / "Ask.kt"]
    jar, answer = tmp_path / "ask.jar", tmp_path / "answer.json"
    compile_ = [KOTLINC, *sources, "-cp", ORG_JSON, "-include-runtime", "-d", jar]
    subprocess.run(compile_, check=True)
    run = [JAVA, "-Dfile.encoding=UTF-8", "-cp", f"{jar}:{ORG_JSON}", "AskKt"]
    places = tmp_path / "index", tmp_path / "asked.json", answer
    subprocess.run([*run, *places], check=True)
    found = json.loads(answer.read_text(encoding="utf-8"))
    assert [tuple(row[1:]) for row in found["found"]] == [it[1:] for it in expected]
    assert [row[0] for row in found["found"]] == pytest.approx(
        [it.cosine for it in expected], abs=2e-6
    )
    assert found["above"] == found["found"][:3]
    assert found["threshold"] == threshold["cosine"]
    assert "24 numbers a vector, not 3" in found["width"]
    assert found["cards"][0] == "same" and "another model" in found["cards"][1]
    assert "lines.i64 must have" in found["cut"]
