"""The papers' tables at lab size: MSD's 1 to 5, 7, 8, LEALLA's 3, 5, 6 and 8.

Also MSD's figures 1 and 3, and the amounts of pairs of Reimers and Gurevych's table 6.
Every row has the same pairs, order and number of updates as its neighbours. What rows,
recipes and seeds have in common is done once. A run that was stopped goes on where it
was, and a seed that stands in the result is not run again: move the file to begin anew.
Recipes with an assistant begin with that of `--assistant`, as it was before stage 1;
LEALLA's have the default teacher, which reads English alone, or that of `--teacher`.

    python benchmarks/ablations.py --data DATA --assistant runs/narrow/assistant

`--recipe` picks some. MSD's tables 1 and 2 have another assistant, so that they are
made apart:

    python benchmarks/ablations.py --recipe msd_faithful msd_tradeoffs --data DATA \
        --assistant runs/assistant/assistant

LEALLA's table 6 is of a teacher whose vectors of every language are reduced:

    python benchmarks/ablations.py --recipe lealla_dimensions --data DATA \
        --teacher runs/assistant/assistant
"""

from arms import changes, over_seeds, parser

# At most so many of the seeds, and sets left out: MSD's own tables have STS alone.
WIDE, DIMENSIONS = ("msd_faithful", "msd_tradeoffs"), "lealla_dimensions"
RECIPES: dict[str, tuple[int | None, tuple[str, ...]]] = {
    **dict.fromkeys(WIDE, (None, ())),
    "msd_ablations": (None, ("tatoeba",)),
    "msd_sizes": (None, ("tatoeba",)),
    "msd_layers": (None, ("tatoeba",)),
    "msd_convergence": (None, ("tatoeba",)),
    "xkd_amounts": (None, ()),
    "lealla_lab": (None, ()),
    "lealla_search": (1, ()),
    DIMENSIONS: (None, ()),
}
NARROW = [name for name in RECIPES if name not in (*WIDE, DIMENSIONS)]


def main() -> None:
    """Run what is not there yet, print the tables, write the result."""
    options = parser(__doc__, "ablations")
    options.add_argument("--recipe", nargs="+", choices=RECIPES, default=NARROW)
    given = options.parse_args()
    for recipe in given.recipe:
        most, without = RECIPES[recipe]
        found = changes(recipe, given, without)
        other = ", multilingual teacher" if "teacher.source" in found else ""
        over_seeds(recipe + other, recipe, found, given, most)


if __name__ == "__main__":
    main()
