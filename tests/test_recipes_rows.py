"""Recipes of several students: which row each is, and what they differ in."""

import pytest

from keras_msd.recipes.load import load_recipe

SEVERAL = ["msd_ablations", "msd_convergence", "msd_layers", "msd_sizes", "msd_stages"]


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("scale", ["smoke", "lab", "paper"])
def test_rows_are_students_of_the_recipe(name, scale):
    recipe = load_recipe(name, scale)
    assert set(recipe.recipe.rows) == set(recipe.student.each())
    assert all(
        row.table in recipe.recipe.table or name == "msd_ablations"
        for row in recipe.recipe.rows.values()
    )


def updates(recipe):
    """Return the updates of each student, all stages together."""
    names = ("align_embedding", "teach_student", "contrastive_learning")
    found = {}
    for name, student in recipe.student.each().items():
        stages = [student.stage(n, recipe.stages[n]) for n in names]
        found[name] = sum(stage.steps for stage in stages if not stage.skip)
    return found


@pytest.mark.parametrize("name", ["msd_ablations", "msd_sizes", "msd_layers"])
def test_arms_are_fair(name):
    recipe = load_recipe(name, "lab")
    assert len(set(updates(recipe).values())) == 1
    assert {student.start for student in recipe.student.each().values()} == {
        "random" if name == "msd_layers" else "svd"
    }
    students = recipe.student.each().values()
    stages = [
        one.stage("teach_student", recipe.stages["teach_student"]) for one in students
    ]
    assert len({stage.batch_size for stage in stages}) == 1


def test_ablations_differ_in_what_they_name():
    recipe = load_recipe("msd_ablations", "paper")
    stage, each = recipe.stages["contrastive_learning"], recipe.student.each()
    found = {
        name: (
            student.repeats,
            student.stage("contrastive_learning", stage).target,
            student.stage("contrastive_learning", stage).contrastive_weight,
        )
        for name, student in each.items()
    }
    assert found == {
        "student": (None, "soft", 1.0),
        "student_nomcl": (None, "none", 1.0),
        "student_norec": (1, "soft", 1.0),
        "student_nomclnorec": (1, "none", 1.0),
        "student_bool": (None, "bool", 1.0),
        "student_ce": (None, "ce_soft", 64.0),
        "student_cehard": (None, "ce_hard", 0.01),
    }
    widths = load_recipe("msd_sizes", "paper").student.each().values()
    assert [(one.bottleneck_dim, one.unit_layers) for one in widths] == [
        (None, 3), (128, 3), (256, 3), (128, 6), (128, 12),
    ]  # fmt: skip
    layers = load_recipe("msd_layers", "paper")
    assert [one.unit_layers for one in layers.student.each().values()] == [
        int(row.row.split()[0]) for row in layers.recipe.rows.values()
    ]
    assert {one.repeats for one in layers.student.each().values()} == {1}
