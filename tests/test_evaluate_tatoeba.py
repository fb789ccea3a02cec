"""Tatoeba as LASER lays it out and as `write_corpus` writes it."""

import gzip
from dataclasses import replace

import numpy as np
import pytest
from table_encoder import Table

from keras_msd.checks import InputError
from keras_msd.evaluate import read_tatoeba, retrieval_languages, score_set
from keras_msd.evaluate.rows import asked_sets

# Of LASER's data/tatoeba/v1.
CODES = """
afr amh ang ara arq arz ast awa aze bel ben ber bos bre bul cat cbk ceb ces cha cmn
cor csb cym dan deu dsb dtp ell epo est eus fao fin fra fry gla gle glg gsw heb hin
hrv hsb hun hye ido ile ina ind isl ita jav jpn kab kat kaz khm kor kur kzj lat lfn
lit lvs mal mar max mhr mkd mon nds nld nno nob nov oci orv pam pes pms pol por ron
rus slk slv spa sqi srp swe swg swh tam tat tel tgl tha tuk tur tzl uig ukr urd uzb
vie war wuu xho yid yue zsm
""".split()


def made_pairs(code, pairs=6):
    return [(f"English {i % 5} for {code}", f"{code}\u00a0{i} ") for i in range(pairs)]


def write_laser(folder, code, rows):
    folder.mkdir(parents=True, exist_ok=True)
    for ending, side in (("eng", 0), (code, 1)):
        text = "".join(f"{row[side]}\n" for row in rows)
        (folder / f"tatoeba.{code}-eng.{ending}").write_text(text, encoding="utf-8")


def write_ours(folder, code, rows):
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{a}\t{b}\n" for a, b in rows)
    path = folder / f"tatoeba.{code}-eng.tsv.gz"
    path.write_bytes(gzip.compress(text.encode()))


def test_112_languages_as_laser_has_them(tmp_path):
    codes = CODES
    assert len(codes) == len(set(codes)) == 112
    pairs = {code: made_pairs(code) for code in codes}
    for code, rows in pairs.items():
        write_laser(tmp_path / "tatoeba" / "v1", code, rows)
    assert read_tatoeba(tmp_path) == pairs
    scores = score_set(Table(), "tatoeba", tmp_path)
    assert scores == retrieval_languages(Table(), pairs)
    assert len(scores["tracks"]) == 112 and scores["pairs"] == 112 * 6
    assert 0 < scores["source_to_target"] != scores["target_to_source"] > 0


def test_both_layouts_hold_the_same_pairs(tmp_path):
    rows = made_pairs("deu")
    write_laser(tmp_path / "laser", "deu", rows)
    write_ours(tmp_path / "ours", "deu", rows)
    for name in ("laser", "ours", "."):
        assert read_tatoeba(tmp_path / name, ["de"]) == {"deu": rows}
    write_ours(tmp_path / "ours", "deu", rows[:-1])
    assert read_tatoeba(tmp_path) == {"deu": rows[:-1]}, "our layout comes first"


def test_pairs_without_english(tmp_path):
    rows = [("Tee", "thé"), ("Wind", "vent")]
    write_ours(tmp_path, "deu", made_pairs("deu"))
    text = "".join("\t".join(row) + "\n" for row in rows)
    data = gzip.compress(text.encode())
    (tmp_path / "tatoeba.deu-fra.tsv.gz").write_bytes(data)
    assert read_tatoeba(tmp_path, ["de-fr"]) == {"deu-fra": rows}
    encoder = Table({word: np.eye(4)[i // 2] for i, word in enumerate(sum(rows, ()))})
    scores = score_set(encoder, "tatoeba", tmp_path, ["deu-fra"])
    assert scores["tracks"] == {"deu-fra": 100.0}
    recipe = {"data": {"languages": ["de"]}, "evaluate": {"sets": ["tatoeba"]}}
    [asked] = asked_sets(recipe)
    others = asked._replace(record=replace(asked.record, folder="")).others(tmp_path)
    assert others.languages == ["deu-fra"]
    with pytest.raises(InputError, match=r"lacks deu-ita.*<xxx>-<yyy>.tsv.gz.*deu-fra"):
        read_tatoeba(tmp_path, ["de-it", "de"])


def test_languages_by_either_code_and_what_is_missing(tmp_path):
    for code in ("deu", "cmn", "swh"):
        write_laser(tmp_path, code, made_pairs(code))
    assert list(read_tatoeba(tmp_path, ["zh", "swh", "sw"])) == ["cmn", "swh"]
    message = r"lacks fra, tur of the Tatoeba .*tatoeba.<xxx>-eng.eng.*Found: cmn, deu"
    with pytest.raises(InputError, match=message):
        read_tatoeba(tmp_path, ["fr", "deu", "tur"])
    with pytest.raises(InputError, match="at least one part"):
        read_tatoeba(tmp_path, [])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="lacks every language .*Found: none"):
        read_tatoeba(tmp_path / "empty")


def test_sides_of_different_length(tmp_path):
    write_laser(tmp_path, "deu", made_pairs("deu"))
    other = tmp_path / "tatoeba.deu-eng.deu"
    other.write_text("eins\n")
    message = "tatoeba.deu-eng.deu` ends after line 1"
    with pytest.raises(InputError, match=message):
        read_tatoeba(tmp_path)
    other.write_text("Zeile\n" * 7)
    with pytest.raises(InputError, match="tatoeba.deu-eng.eng` ends after line 6"):
        read_tatoeba(tmp_path)
    other.unlink()
    with pytest.raises(InputError, match="needs the file `tatoeba.deu-eng.deu`"):
        read_tatoeba(tmp_path)
