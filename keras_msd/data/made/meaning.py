"""What a made sentence says, apart from any language, and how alike two of them are.

A meaning is made of rows of the word lists beside this module.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

LANGUAGES = ("ar", "de", "es", "fr", "it", "nl", "tr")
ALL_LANGUAGES = ("en", *LANGUAGES)
# What a difference costs on the scale of 0 to 5: (to a related word, to another one).
COSTS = {
    "subject": (1.2, 2.2),
    "adjective": (0.4, 0.7),
    "verb": (1.2, 2.2),
    "object": (1.4, 2.6),
    "place": (0.9, 1.8),
    "weather": (0.9, 1.8),
}
MODE_COST = 0.4
TENSE_COST = 0.3
NEGATION_COST = 1.2
SAME_TOPIC = 1.0
CONSUMED = {"food", "drink"}


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

    @property
    def is_animal(self) -> bool:
        """Whether a subject is an animal."""
        return self.facts["kind"] == "a"

    def listed(self, fact: str) -> list[str]:
        """Return a fact that is a list, such as the classes of an object."""
        return [item for item in self.facts[fact].split(",") if item != "-"]


def lines_of(name: str) -> list[str]:
    """Return the lines of one of the `.tsv` files of this package."""
    file = resources.files(__package__) / f"{name}.tsv"
    return file.read_text(encoding="utf-8").splitlines()


@cache
def table(name: str) -> tuple[Entry, ...]:
    """Return all rows of a word list or of the templates, in the order of the file."""
    rows = csv.DictReader(lines_of(name), delimiter="\t", quoting=csv.QUOTE_NONE)
    return tuple(
        Entry(
            id=row["id"],
            held_out=row["split"] == "test",
            facts={key: row[key] for key in row if key not in ALL_LANGUAGES},
            cells={language: row[language] for language in ALL_LANGUAGES},
        )
        for row in rows
    )


@dataclass(frozen=True)
class Event:
    """Who does what, and where.

    A negated event has no place: "not reading in the garden" may deny either.
    """

    subject: Entry
    verb: Entry
    adjective: Entry | None = None
    object: Entry | None = None
    place: Entry | None = None
    negated: bool = False

    def parts(self) -> dict[str, Entry | None]:
        """Return the entries of the event by what they are in it."""
        names = ("subject", "adjective", "verb", "object", "place")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Meaning:
    """An event, its frame, and the template that words both.

    Attributes:
        template: Row of the table of templates.
        event: What happens.
        tense: `n` now, `h` habit, `p` past, `i` none (wish or duty).
        time: When, or None.
        weather: The circumstance, or None.
        second: A second event beside the first, or None.
    """

    template: Entry
    event: Event
    tense: str
    time: Entry | None = None
    weather: Entry | None = None
    second: Event | None = None

    def entries(self) -> list[Entry]:
        """Return every word-list entry that the sentence uses."""
        entries = [self.time, self.weather, *self.event.parts().values()]
        if self.second is not None:
            entries += self.second.parts().values()
        return [entry for entry in entries if entry is not None]

    @property
    def held_out(self) -> bool:
        """Whether the sentence has a word that is absent from training."""
        return any(entry.held_out for entry in self.entries())


def similarity(first: Meaning, second: Meaning) -> float:
    """Return how alike two meanings are, from 0 (unrelated) to 5 (the same).

    Five less the cost of every part that differs, a related word costing less than
    another one; at least 1 where both are about the same topic. The template itself
    costs nothing: only its mode (assertion, guess, question, duty) is meaning.
    """
    parts, others = (
        meaning.event.parts() | {"weather": meaning.weather}
        for meaning in (first, second)
    )
    loss = sum(_cost(part, entry, others[part]) for part, entry in parts.items())
    mode = first.template.facts["mode"] != second.template.facts["mode"]
    loss += MODE_COST * mode
    loss += TENSE_COST * (first.tense != second.tense and not mode)
    loss += NEGATION_COST * (first.event.negated != second.event.negated)
    same_topic = first.event.verb.group == second.event.verb.group
    return round(max(5.0 - loss, SAME_TOPIC if same_topic else 0.0), 2)


def _cost(part: str, entry: Entry | None, other: Entry | None) -> float:
    related, unrelated = COSTS[part]
    if entry is None and other is None:
        return 0.0
    if entry is None or other is None:
        return related
    if entry.concept == other.concept:
        return 0.0
    return related if entry.group == other.group else unrelated


def fits(event: Event, tense: str) -> bool:
    """Whether an event makes sense in a tense (`n`, `h`, `p`, `i`)."""
    verb, subject, thing, place = event.verb, event.subject, event.object, event.place
    return (
        is_natural(tense, verb)
        and acts(verb, subject)
        and (thing is None) != bool(verb.listed("objects"))
        and (thing is None or takes_object(verb, subject, thing))
        and (place is None or takes_place(verb, subject, place))
        and (event.adjective is None or subject.facts["kind"] == "p")
    )


def is_natural(tense: str, verb: Entry) -> bool:
    """Whether a verb is natural in a tense."""
    return tense in verb.facts["tenses"]


def acts(verb: Entry, subject: Entry) -> bool:
    """Whether the subject, a person, relative (`p`, `f`) or animal (`a`), does this."""
    return ("a" if subject.is_animal else "p") in verb.facts["who"]


def takes_object(verb: Entry, subject: Entry, thing: Entry) -> bool:
    """Whether the verb takes the object, which must be another than the subject."""
    classes = set(thing.listed("classes"))
    noun, actor = (entry.cells["en"].split()[-1] for entry in (thing, subject))
    if not classes & set(verb.listed("objects")) or noun == actor:
        return False
    return not subject.is_animal or not classes & CONSUMED or "raw" in classes


def takes_place(verb: Entry, subject: Entry, place: Entry) -> bool:
    """Whether it can happen there; animals stay out of rooms."""
    kinds = set(place.listed("kinds"))
    if not kinds & set(verb.listed("places")):
        return False
    return not subject.is_animal or bool(kinds & {"out", "water"})
