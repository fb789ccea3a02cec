"""The word lists of the made corpus, read from the tables beside this module."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

LANGUAGES = ("ar", "de", "es", "fr", "it", "nl", "tr")
ALL_LANGUAGES = ("en", *LANGUAGES)
TABLES = (
    "subjects",
    "adjectives",
    "verbs",
    "objects",
    "places",
    "times",
    "weather",
    "templates",
)


@dataclass(frozen=True, eq=False)
class Entry:
    """One row of a table: what it says, and how each language says it.

    Rows are read once, so that the same row is the same object.

    Attributes:
        id: Name within its table. `film` and `film.2` are synonyms.
        held_out: Whether it is absent from training.
        facts: The columns that belong to no language, such as `group` or `kind`.
        cells: Language code to the forms that its grammar reads.
    """

    id: str
    held_out: bool
    facts: Mapping[str, str]
    cells: Mapping[str, str]

    @property
    def concept(self) -> str:
        """The meaning that synonyms share."""
        return self.id.split(".")[0]

    @property
    def group(self) -> str:
        """The family of related meanings."""
        return self.facts["group"]

    def listed(self, fact: str) -> list[str]:
        """Return a fact that is a list, such as the classes of an object."""
        return [one for one in self.facts[fact].split(",") if one != "-"]


@cache
def table(name: str) -> tuple[Entry, ...]:
    """Return all rows of one of `TABLES`, in the order of the file."""
    file = resources.files(__package__) / f"{name}.tsv"
    lines = file.read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    return tuple(
        Entry(
            id=row["id"],
            held_out=row["split"] == "test",
            facts={key: row[key] for key in row if key not in ALL_LANGUAGES},
            cells={language: row[language] for language in ALL_LANGUAGES},
        )
        for row in rows
    )
