"""What a made sentence says, apart from any language, and how alike two of them are."""

from dataclasses import dataclass

from keras_msd.data.made.lexicon import Entry

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
        found = [self.time, self.weather]
        for event in (self.event, self.second):
            if event is not None:
                found += [event.subject, event.adjective, event.verb]
                found += [event.object, event.place]
        return [entry for entry in found if entry is not None]


def similarity(first: Meaning, second: Meaning) -> float:
    """Return how alike two meanings are, from 0 (unrelated) to 5 (the same).

    Five less the cost of every part that differs, a related word costing less than
    another one; at least 1 where both are about the same topic. The template itself
    costs nothing: only its mode (assertion, guess, question, duty) is meaning.
    """
    one, other = first.event, second.event
    pairs = {
        "subject": (one.subject, other.subject),
        "adjective": (one.adjective, other.adjective),
        "verb": (one.verb, other.verb),
        "object": (one.object, other.object),
        "place": (one.place, other.place),
        "weather": (first.weather, second.weather),
    }
    loss = sum(_cost(name, *pair) for name, pair in pairs.items())
    mode = first.template.facts["mode"] != second.template.facts["mode"]
    loss += MODE_COST * mode
    loss += TENSE_COST * (first.tense != second.tense and not mode)
    loss += NEGATION_COST * (one.negated != other.negated)
    floor = SAME_TOPIC if topic(one) == topic(other) else 0.0
    return round(max(5.0 - loss, floor), 2)


def topic(event: Event) -> str:
    """Return what an event is about."""
    return event.verb.group


def _cost(name: str, one: Entry | None, other: Entry | None) -> float:
    related, unrelated = COSTS[name]
    if one is None and other is None:
        return 0.0
    if one is None or other is None:
        return related
    if one.concept == other.concept:
        return 0.0
    return related if one.group == other.group else unrelated
