"""Files become chunks: what belongs together, without markup, within the limit."""

import gzip
import json

import pytest

from keras_msd.checks import InputError
from keras_msd.index import Piece, read_passages, split

MARKDOWN = """---
title: left out
---
Before *any* heading.

# One **bold** `code`

A [link](http://x.y) goes
on &amp; \\*on\\*. <b>Tag</b> ![a picture](p.png)

- item
  - inner item

| a | b |
|---|---|
| 1 | _two_ |

```python
left_out()
```

Two
---
<!-- left out -->
> quoted
"""


def read(path, *arguments):
    return list(read_passages(path, *arguments))


def test_markdown_by_headings_without_markup(tmp_path):
    path = tmp_path / "a.md"
    path.write_text(MARKDOWN)
    first, one, two = read(path)
    assert first == [Piece(4, "Before any heading.")]
    assert one == [
        Piece(6, "One bold code"),
        Piece(8, "A link goes on & *on*. Tag a picture"),
        Piece(11, "item"),
        Piece(12, "inner item"),
        *(Piece(14, cell) for cell in "ab"),
        *(Piece(16, cell) for cell in ("1", "two")),
    ]
    assert two == [Piece(22, "Two"), Piece(25, "quoted")]


def test_lines_and_paragraphs(tmp_path):
    path = tmp_path / "a.txt.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("One goes\n on.\n\n \nTwo.\n")
    assert read(path) == [[Piece(1, "One goes")], [Piece(2, "on.")], [Piece(5, "Two.")]]
    (one,), (two,) = read(path, None, True)
    assert (one, two) == ((1, "One goes  on."), (5, "Two."))


def test_columns_and_keys(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text('id,text\n1,"two, \nlines"\n2,\n3,end\n')
    assert read(table, "text") == [[Piece(3, "two, \nlines")], [Piece(5, "end")]]
    assert read(table, "1")[0] == [Piece(1, "id")]  # a number: no row has names
    tabs = tmp_path / "a.TSV"
    tabs.write_text('x\t"quoted\ny\tz\n')
    assert read(tabs, "2") == [[Piece(1, '"quoted')], [Piece(2, "z")]]
    lines = tmp_path / "a.jsonl"
    lines.write_text("\n".join(json.dumps({"body": text}) for text in ("é", " ", "b")))
    assert read(lines, "body") == [[Piece(1, "é")], [Piece(3, "b")]]


def test_what_cannot_be_read(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("id,text\n1\n")
    with pytest.raises(InputError, match="must be said which column"):
        read(table)
    with pytest.raises(InputError, match="Did you mean `text`"):
        read(table, "texts")
    with pytest.raises(InputError, match="no column '9999"):
        read(table, "9" * 5000)
    with pytest.raises(InputError, match="line 2: a row must have the column 'text'"):
        read(table, "text")
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"body": 3}\n')
    with pytest.raises(InputError, match="line 1: there must be a text under 'body'"):
        read(lines, "body")
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "none.txt")


def words(texts):
    return [len(text.split()) for text in texts]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8, 100])
def test_chunks_keep_within_the_limit_and_lose_nothing(limit):
    texts = [
        "One two three. Four five! (Six seven?) eight",
        "a b c d e f g h i j",
        "x",
    ]
    passages = [
        [Piece(9, "Head"), Piece(10, texts[0])],
        *([Piece(1, t)] for t in texts),
    ]
    chunks = list(split(passages, limit, words))
    assert all(0 < len(chunk.text.split()) <= limit for chunk in chunks)
    expected = " ".join(["Head", texts[0], *texts]).split()
    assert " ".join(chunk.text for chunk in chunks).split() == expected
    if limit == 100:
        assert [chunk.line for chunk in chunks] == [9, 1, 1, 1]


def test_sentences_are_packed_and_keep_their_lines():
    passage = [Piece(3, "Head"), Piece(5, "One two. Three. Four five six.")]
    assert list(split([passage], 4, words)) == [
        Piece(3, "Head One two. Three."),
        Piece(5, "Four five six."),
    ]
    # Without blanks between sentences, and a word that no cut makes shorter.
    passage = [Piece(1, "一。二。三。")]
    cut = split([passage], 4, lambda texts: [len(text) for text in texts])
    assert [chunk.text for chunk in cut] == ["一。 二。", "三。"]
    long = [Piece(1, "endless")]
    assert list(split([long], 2, lambda texts: [len(text) for text in texts])) == long
