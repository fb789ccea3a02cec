"""Random meanings: which words go together, and which split they belong to."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TypeVar

from keras_msd.data.made.lexicon import Entry, table
from keras_msd.data.made.meaning import Event, Meaning

T = TypeVar("T")
ADJECTIVE_RATE = 0.3
PLACE_RATE = 0.7
NEGATION_RATE = 0.12


class Draw:
    """Draws meanings from one seed; only `random()` is used, which Python keeps stable.

    Args:
        seed: The same seed gives the same meanings.
        held_out: Whether templates are those of the test split and every sentence has
            a held-out word; without it nothing held out is ever used.
    """

    def __init__(self, seed: int, held_out: bool) -> None:
        self.uniform = random.Random(seed).random
        self.held_out = held_out

    def pick(self, items: Sequence[T]) -> T:
        """Return one of `items`."""
        return items[int(self.uniform() * len(items))]

    def meanings(self) -> Iterator[Meaning]:
        """Yield meanings without end."""
        templates = [t for t in table("templates") if t.held_out == self.held_out]
        while True:
            meaning = self.meaning(self.pick(templates))
            if any(entry.held_out for entry in meaning.entries()) == self.held_out:
                yield meaning

    def meaning(self, template: Entry) -> Meaning:
        """Return a meaning that `template` can word."""
        parts, tenses = template.facts["parts"], template.facts["tense"]
        timed = "t" in parts.lower()
        time = self.pick(_times(tenses)) if timed else None
        tense = time.facts["tense"] if time else self.pick(tenses)
        negated = tense != "i" and (
            "N" in parts or (self.held_out and self.uniform() < NEGATION_RATE)
        )
        event = self.event(tense, negated, place="P" in parts, framed=timed)
        weather = self.pick(table("weather")) if "W" in parts else None
        second = self.event(tense, beside=event) if "2" in parts else None
        return Meaning(template, event, tense, time, weather, second)

    def event(
        self,
        tense: str,
        negated: bool = False,
        place: bool = False,
        framed: bool = True,
        beside: Event | None = None,
    ) -> Event:
        """Return an event whose words go together.

        Args:
            tense: The verb must be natural in it.
            negated: Whether it does not take place.
            place: Whether it may have a place.
            framed: Whether the template adds words to it; an event that stands alone
                and has no object gets a place, so that no sentence is bare.
            beside: An event of the same sentence, of another subject and verb.
        """
        used = (beside.verb, beside.subject) if beside else ()
        verb = self.pick([v for v in self.verbs(tense) if v not in used])
        subject = self.pick([s for s in self.subjects(verb) if s not in used])
        thing = where = adjective = None
        if verb.listed("objects"):
            thing = self.pick(self.objects(verb, subject))
        bare = thing is None and not framed
        place = place and not negated and bool(verb.listed("places"))
        if place and (bare or self.uniform() < PLACE_RATE):
            where = self.pick(self.places(verb, subject))
        if subject.facts["kind"] == "p" and self.uniform() < ADJECTIVE_RATE:
            adjective = self.pick(self.allowed("adjectives"))
        return Event(subject, verb, adjective, thing, where, negated)

    def allowed(self, name: str) -> tuple[Entry, ...]:
        """Return the rows of a table that this split may use."""
        return _allowed(name, self.held_out)

    def verbs(self, tense: str) -> tuple[Entry, ...]:
        """Return the verbs that are natural in `tense`."""
        return _verbs(tense, self.held_out)

    def subjects(self, verb: Entry) -> tuple[Entry, ...]:
        """Return who can do it: `p` people (and family, `f`), `a` animals."""
        return _subjects(verb.facts["who"].replace("p", "pf"), self.held_out)

    def objects(self, verb: Entry, subject: Entry) -> list[Entry]:
        """Return what it can be done to, other than the subject itself.

        Animals eat and drink what is `raw`.
        """
        name = subject.cells["en"].split()[-1]
        fitting = _listed("objects", "classes", verb.facts["objects"], self.held_out)
        return _prefer(
            [one for one in fitting if one.cells["en"].split()[-1] != name],
            lambda one: is_animal(subject) and "raw" in one.listed("classes"),
        )

    def places(self, verb: Entry, subject: Entry) -> list[Entry]:
        """Return where it can be done; animals stay `out` of buildings."""
        fitting = _listed("places", "kinds", verb.facts["places"], self.held_out)
        return _prefer(
            fitting, lambda one: is_animal(subject) and "out" in one.listed("kinds")
        )


def is_animal(subject: Entry) -> bool:
    """Whether a subject is an animal."""
    return subject.facts["kind"] == "a"


def _prefer(
    entries: Sequence[Entry], wanted: Callable[[Entry], bool]
) -> list[Entry]:
    """Return the entries that are wanted, all of them if none is."""
    return [entry for entry in entries if wanted(entry)] or list(entries)


@cache
def _allowed(name: str, held_out: bool) -> tuple[Entry, ...]:
    return tuple(entry for entry in table(name) if held_out or not entry.held_out)


@cache
def _times(tenses: str) -> tuple[Entry, ...]:
    return tuple(t for t in table("times") if t.facts["tense"] in tenses)


@cache
def _verbs(tense: str, held_out: bool) -> tuple[Entry, ...]:
    allowed = _allowed("verbs", held_out)
    return tuple(verb for verb in allowed if tense in verb.facts["tenses"])


@cache
def _subjects(kinds: str, held_out: bool) -> tuple[Entry, ...]:
    allowed = _allowed("subjects", held_out)
    return tuple(subject for subject in allowed if subject.facts["kind"] in kinds)


@cache
def _listed(name: str, fact: str, wanted: str, held_out: bool) -> tuple[Entry, ...]:
    """Return the rows whose list `fact` shares an item with the list `wanted`."""
    wishes = set(wanted.split(","))
    allowed = _allowed(name, held_out)
    return tuple(entry for entry in allowed if wishes & set(entry.listed(fact)))
