"""Table 6 at lab size: which stages a student needs, over three seeds.

Every arm has the same architecture, pairs, order and number of updates; the recipe
`msd_stages` says what each does. The table is run without closed-form starts, then with
them in all arms. What arms and seeds have in common is done once. A run that was
stopped goes on where it was.

    python benchmarks/stages.py --data DATA --assistant runs/narrow/assistant

The assistant is the one before stage 1, which the single-stage arms begin with and
which guides pre-distillation; without `--assistant` it is a new one.
"""

from typing import Any

from arms import changes, over_seeds, parser

RECIPE = "msd_stages"
CLOSED_FORM: dict[str, Any] = {
    "assistant.start": "ridge",
    "assistant.normalize_first": True,
    "assistant.zero_residuals": True,
    "assistant.embedding_layer_norm": False,
}
STUDENT = {"student.start": "svd"}


def main() -> None:
    """Run what is not there yet, print both tables, write the result."""
    given = parser(__doc__, "stages").parse_args()
    same = changes(RECIPE, given, ("tatoeba",))
    new = {} if given.assistant else CLOSED_FORM
    over_seeds("random", RECIPE, same, given)
    over_seeds("closed form", RECIPE, same | STUDENT | new, given)


if __name__ == "__main__":
    main()
