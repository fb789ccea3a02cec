"""Which operators of a .tflite model XNNPACK runs, LiteRT's kernels for CPUs."""

from collections import Counter
from typing import Any, NamedTuple


class Delegation(NamedTuple):
    """What the runtime does with a model.

    Attributes:
        delegated: How often XNNPACK runs an operator, by the operator's name.
        left: The same for operators that the runtime itself runs.
        partitions: Pieces that XNNPACK got; one is best, as each costs a hand-over.
    """

    delegated: dict[str, int]
    left: dict[str, int]
    partitions: int


def delegation(interpreter: Any) -> Delegation:
    """Ask an interpreter what it gave to XNNPACK.

    Args:
        interpreter: A LiteRT `Interpreter` whose tensors are allocated.
    """
    # There is no public list. A delegate appears as one more operator, from the tensors
    # it needs to those it gives; what lies between them is what it runs.
    operators = interpreter._get_ops_details()
    pieces = [one for one in operators if one["op_name"] == "DELEGATE"]
    plain = [one for one in operators if one["op_name"] != "DELEGATE"]
    source = {tensor: one for one in plain for tensor in one["outputs"]}
    inside = set[int]()
    for piece in pieces:
        given, wanted = set(piece["inputs"]), list(piece["outputs"])
        while wanted:
            tensor = wanted.pop()
            operator = source.get(tensor)
            if tensor in given or operator is None or operator["index"] in inside:
                continue
            inside.add(operator["index"])
            wanted.extend(operator["inputs"])
    counts = [
        Counter(
            one["op_name"] for one in plain if (one["index"] in inside) == delegated
        )
        for delegated in (True, False)
    ]
    delegated, left = (dict(sorted(count.items())) for count in counts)
    return Delegation(delegated, left, len(pieces))
