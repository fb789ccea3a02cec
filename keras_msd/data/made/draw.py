"""Random meanings, and which split their words belong to."""

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TypeVar

from keras_msd.data.made import sense
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
        event = self.event(
            tense,
            negated,
            place="P" in parts,
            framed=timed,
            described=not set("W2") & set(parts),
        )
        weather = self.pick(table("weather")) if "W" in parts else None
        second = None
        if "2" in parts:
            second = self.event(tense, described=False, beside=event)
        return Meaning(template, event, tense, time, weather, second)

    def event(
        self,
        tense: str,
        negated: bool = False,
        place: bool = False,
        framed: bool = True,
        described: bool = True,
        beside: Event | None = None,
    ) -> Event:
        """Return an event whose words go together.

        Args:
            tense: The verb must be natural in it.
            negated: Whether it does not take place.
            place: Whether it may have a place.
            framed: Whether the template adds words to it; an event that stands alone
                and has no object gets a place, so that no sentence is bare.
            described: Whether the subject may have an adjective; two clauses with
                adjectives would be long.
            beside: An event of the same sentence, of another subject and verb.
        """
        used = (beside.verb, beside.subject) if beside else ()
        verb = self.pick([v for v in verbs(tense, self.held_out) if v not in used])
        who = [s for s in subjects(verb, self.held_out) if s not in used]
        subject = self.pick(who)
        thing = where = adjective = None
        if verb.listed("objects"):
            thing = self.pick(objects(verb, subject, self.held_out))
        bare = thing is None and not framed
        place = place and not negated and bool(verb.listed("places"))
        if place and (bare or self.uniform() < PLACE_RATE):
            where = self.pick(places(verb, subject, self.held_out))
        described = described and subject.facts["kind"] == "p"
        if described and self.uniform() < ADJECTIVE_RATE:
            adjective = self.pick(allowed("adjectives", self.held_out))
        return Event(subject, verb, adjective, thing, where, negated)


@cache
def allowed(name: str, held_out: bool) -> tuple[Entry, ...]:
    """Return the rows of a table that a split may use: training none held out."""
    return tuple(entry for entry in table(name) if held_out or not entry.held_out)


@cache
def _times(tenses: str) -> tuple[Entry, ...]:
    return tuple(t for t in table("times") if t.facts["tense"] in tenses)


@cache
def verbs(tense: str, held_out: bool) -> tuple[Entry, ...]:
    """Return the verbs that are natural in a tense."""
    found = allowed("verbs", held_out)
    return tuple(verb for verb in found if tense in verb.facts["tenses"])


@cache
def subjects(verb: Entry, held_out: bool) -> tuple[Entry, ...]:
    """Return who can do it."""
    return tuple(s for s in allowed("subjects", held_out) if sense.acts(verb, s))


@cache
def objects(verb: Entry, subject: Entry, held_out: bool) -> tuple[Entry, ...]:
    """Return what the subject can do it to."""
    things = allowed("objects", held_out)
    return tuple(one for one in things if sense.takes_object(verb, subject, one))


@cache
def places(verb: Entry, subject: Entry, held_out: bool) -> tuple[Entry, ...]:
    """Return where the subject can do it."""
    found = allowed("places", held_out)
    return tuple(one for one in found if sense.takes_place(verb, subject, one))
