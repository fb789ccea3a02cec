"""Random meanings, which split their words belong to, and small changes of them."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeVar

from keras_msd.data.made.meaning import (
    Entry,
    Event,
    Meaning,
    acts,
    fits,
    is_natural,
    table,
    takes_object,
    takes_place,
)

T = TypeVar("T")
ADJECTIVE_RATE = 0.3
PLACE_RATE = 0.7
NEGATION_RATE = 0.12
CHANGED = ("subject", "adjective", "verb", "object", "place", "weather", "negated")
SAME_MODE_RATE = 0.8


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
            if meaning.held_out == self.held_out:
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
        words = partial(_words, self.held_out)
        verbs = words("verbs", is_natural, tense)
        verb = self.pick([v for v in verbs if v not in used])
        subjects = words("subjects", acts, verb)
        subject = self.pick([s for s in subjects if s not in used])
        thing = where = adjective = None
        if verb.listed("objects"):
            thing = self.pick(words("objects", takes_object, verb, subject))
        bare = thing is None and not framed
        place = place and not negated and bool(verb.listed("places"))
        if place and (bare or self.uniform() < PLACE_RATE):
            where = self.pick(words("places", takes_place, verb, subject))
        described = described and subject.facts["kind"] == "p"
        if described and self.uniform() < ADJECTIVE_RATE:
            adjective = self.pick(words("adjectives"))
        return Event(subject, verb, adjective, thing, where, negated)


@cache
def _words(
    held_out: bool,
    name: str,
    rule: Callable[..., bool] = lambda entry: True,
    *beside: Any,
) -> tuple[Entry, ...]:
    """Return the rows of a table that a split may use: training none held out.

    Args:
        held_out: Whether held-out rows are among them.
        name: The table.
        rule: Of `(*beside, row)`: whether the row goes with the words beside it.
        *beside: Those words.
    """
    rows = (entry for entry in table(name) if held_out or not entry.held_out)
    return tuple(entry for entry in rows if rule(*beside, entry))


@cache
def _times(tenses: str) -> tuple[Entry, ...]:
    return tuple(t for t in table("times") if t.facts["tense"] in tenses)


def change(meaning: Meaning, draw: Draw) -> Meaning:
    """Return `meaning` in other words, with none to three of its parts changed."""
    for _ in range(int(draw.uniform() * 4)):
        part = draw.pick(CHANGED)
        if part == "weather":
            if meaning.weather is not None:
                meaning = replace(meaning, weather=draw.pick(table("weather")))
        elif part == "negated":
            if meaning.tense != "i":
                negated = not meaning.event.negated
                event = replace(meaning.event, negated=negated, place=None)
                meaning = replace(meaning, event=event)
        else:
            meaning = replace(meaning, event=_other(meaning, part, draw))
    return _reworded(meaning, draw)


def inferences(meaning: Meaning, draw: Draw) -> list[tuple[Meaning, Meaning]]:
    """Return (premise, hypothesis) that entail, are neutral and contradict, in turn.

    Less said is entailed, more said is neutral, and another object, or subject where
    there is none, contradicts.

    Returns:
        Three pairs; none where the meaning is no plain statement with something to
        leave out, or where no other word was drawn.
    """
    event, mode = meaning.event, meaning.template.facts["mode"]
    spare = event.adjective is not None or event.place is not None
    if mode != "assert" or event.negated or meaning.second is not None or not spare:
        return []
    part = "object" if event.object is not None else "subject"
    changed = _other(meaning, part, draw)
    if getattr(changed, part).concept == getattr(event, part).concept:
        return []
    bare = replace(meaning, event=replace(event, adjective=None, place=None))
    other = replace(meaning, event=changed)
    return [(meaning, bare), (bare, meaning), (meaning, other)]


def _other(meaning: Meaning, part: str, draw: Draw) -> Event:
    """Return the event with another word for `part`, or as it is if none fits."""
    event, tense = meaning.event, meaning.tense
    if part in ("object", "place") and getattr(event, part) is None:
        return event
    if part == "adjective" and event.subject.facts["kind"] != "p":
        return event
    rules: dict[str, tuple[Any, ...]] = {
        "subject": (acts, event.verb),
        "adjective": (),
        "verb": (is_natural, tense),
        "object": (takes_object, event.verb, event.subject),
        "place": (takes_place, event.verb, event.subject),
    }
    words = _words(draw.held_out, f"{part}s", *rules[part])
    changes: list[dict[str, Any]] = [{part: word} for word in words]
    events = [replace(event, **change) for change in changes]
    if part in ("subject", "verb"):  # the other lists hold what fits these two
        events = [changed for changed in events if fits(changed, tense)]
    return draw.pick(events) if events else event


def _reworded(meaning: Meaning, draw: Draw) -> Meaning:
    """Put the meaning in a template of the same frame, mostly of the same mode."""
    mode = meaning.template.facts["mode"] if draw.uniform() < SAME_MODE_RATE else None
    fitting = [
        template
        for template in table("templates")
        if template.held_out
        and meaning.tense in template.facts["tense"]
        and template.facts["parts"] == meaning.template.facts["parts"]
        and mode in (None, template.facts["mode"])
    ]
    return replace(meaning, template=draw.pick(fitting))
