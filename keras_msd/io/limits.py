"""Upper limits for files; anything larger is refused before it takes memory.

SECURITY.md lists them all (tests/test_security_page.py).
"""

from typing import NamedTuple

from keras_msd.checks import InputError


class Limit(NamedTuple):
    """An upper limit.

    Attributes:
        most: The largest number that is accepted.
        of: What is limited.
    """

    most: int
    of: str

    def check(self, number: int, where: str, repair: str) -> None:
        """Raise `InputError`, naming the limit, if `number` is over it.

        Args:
            number: The number received, or counted so far.
            where: The file and the place in it.
            repair: What to do.
        """
        if number > self.most:
            raise InputError(
                f"{where}: {self.of} may be at most {self.most:,}. Received: "
                f"{number:,}. {repair}"
            )


JSON = Limit(1 << 25, "bytes of a JSON file")  # XLM-RoBERTa's tokenizer.json: 17 MB
TOML = Limit(1 << 18, "bytes of a TOML file")
NESTING = Limit(100, "tables and lists inside each other")
VOCABULARY = Limit(1 << 25, "bytes of a vocabulary")
LINE = Limit(1 << 20, "bytes of a line or text")  # a longer one is no sentence
UNIT = Limit(1 << 20, "characters of one unit, tag or comment of a TMX file")
ELEMENTS_DEEP = Limit(64, "elements inside each other in a TMX file")
TIMES = Limit(200, "compression ratio of an archive")
TENSOR_HEADER = Limit(1 << 24, "bytes of the header of a safetensors file")
DEPTH = Limit(128, "layers of an encoder, repeats counted")
GRAPH = Limit(1 << 30, "bytes of a saved_model.pb")
CARD = Limit(1 << 22, "bytes of a card.json")  # a real one has a few thousand
