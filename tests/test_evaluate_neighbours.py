import numpy as np
import pytest

import keras_msd
from keras_msd.checks import InputError
from keras_msd.evaluate import Match, neighbours


class Plane:
    """Gives sentences the hand-made vectors below; counts what it sees."""

    vectors = {
        "north": [0, 3],
        "north again": [0, 1],
        "north-east": [1, 1],
        "east": [2, 0],
        "south": [0, -1],
        "Nord": [0, 2],
        "Ost": [1, 0],
    }

    def __init__(self):
        self.seen = []

    def encode(self, texts):
        self.seen += texts
        return np.array([self.vectors[text] for text in texts], np.float32)


PLACES = ["south", "east", "north again", "north-east", "north"]


def test_nearest_first_ties_in_the_given_order():
    found = keras_msd.search(Plane(), "Nord", PLACES, top=3)
    assert found == [
        Match(1.0, 2, "north again"),
        Match(1.0, 4, "north"),
        Match(round(1 / np.sqrt(2), 6), 3, "north-east"),
    ]


def test_more_than_there_are_gives_all_down_to_the_opposite():
    found = keras_msd.search(Plane(), "Nord", PLACES, top=99)
    assert [match.sentence for match in found] == [
        "north again", "north", "north-east", "east", "south"
    ]  # fmt: skip
    assert found[-1].cosine == -1.0


def test_a_word_search_over_random_vectors_equals_brute_force():
    random = np.random.default_rng(0)
    table = {f"s{i}": random.normal(size=5) for i in range(40)}

    class Drawn:
        def encode(self, texts):
            return np.array([table[text] for text in texts])

    found = keras_msd.search(Drawn(), "s0", [f"s{i}" for i in range(1, 40)], top=10)
    scored = []
    for name in [f"s{i}" for i in range(1, 40)]:
        a, b = table["s0"], table[name]
        scored.append((float(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b)), name))
    expected = sorted(scored, reverse=True)[:10]
    assert [match.sentence for match in found] == [name for _, name in expected]
    assert [match.cosine for match in found] == pytest.approx(
        [cosine for cosine, _ in expected], abs=1e-6
    )


def test_neighbours_are_what_a_report_shows_and_nothing_is_encoded_twice():
    plane = Plane()
    queries = [("Nord", "de"), ("Ost", "de")]
    found = neighbours(plane, queries, [*PLACES, "north", "east"], top=2)
    assert found == [
        {
            "query": "Nord",
            "language": "de",
            "neighbours": [
                {"sentence": "north again", "cosine": 1.0},
                {"sentence": "north", "cosine": 1.0},
            ],
        },
        {
            "query": "Ost",
            "language": "de",
            "neighbours": [
                {"sentence": "east", "cosine": 1.0},
                {"sentence": "north-east", "cosine": 0.7071},
            ],
        },
    ]
    assert len(plane.seen) == len(set(plane.seen)) == 7


def test_several_queries():
    plane = Plane()
    queries = ["Nord", "Ost", "Nord"]
    found = keras_msd.search(plane, queries, PLACES, top=2)
    assert len(plane.seen) == len(set(plane.seen)) == 7
    assert found == [keras_msd.search(plane, one, PLACES, top=2) for one in queries]
    assert keras_msd.search(plane, [], PLACES) == []


def test_bad_requests():
    with pytest.raises(InputError, match="`top` must be at least 1"):
        keras_msd.search(Plane(), "Nord", PLACES, top=0)
    with pytest.raises(InputError, match="`sentences` must be at least 1"):
        keras_msd.search(Plane(), "Nord", [])
    with pytest.raises(InputError, match="`query` must hold strings"):
        keras_msd.search(Plane(), ["Nord", None], PLACES)
    with pytest.raises(InputError, match="must be a list of sentences"):
        keras_msd.search(Plane(), "Nord", "north")
