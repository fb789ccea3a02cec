"""The report of a run: one HTML page that needs no other file and no network."""

from html import escape
from pathlib import Path

from keras_msd.files import atomic_path
from keras_msd.report import sections
from keras_msd.report.files import RunFiles, read_run

NAME = "report.html"

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { margin: 0 auto; max-width: 70rem; padding: 1rem;
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
.scroll { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums;
  overflow-wrap: normal; }
th, td { padding: .35rem .75rem; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th:first-child, .text th, .text td { text-align: left; }
tbody th { font-weight: normal; }
tbody tr:nth-child(odd) { background: var(--soft); }
ol { margin: 0; padding-left: 1.25rem; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr;
  gap: .25rem 1rem; margin: .5rem 0; }
dt { font-weight: 600; }
dd { margin: 0; }
.grid { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
figure { margin: 0; padding: .75rem;
  border: 1px solid var(--line); border-radius: .5rem; }
figure { max-width: 44rem; }
figcaption { font-weight: 600; }
figure svg { width: 100%; height: auto; }
.source, small { opacity: .7; font-size: .85rem; }
pre { overflow-x: auto; background: var(--soft); padding: .75rem; font-size: .85rem; }
@media (max-width: 36rem) { dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .5rem; } }
"""


def write_report(run_folder: str | Path) -> Path:
    """Write `report.html` into the folder of a finished run.

    Every number comes from `recipe.toml`, `scores.json`, `timings.json`,
    `stages/<stage>/history.json` or `neighbours.json` of that folder, and the page
    names which. The same files give the same bytes.

    Args:
        run_folder: The folder that `recipes.run` made.

    Returns:
        The path of the page.

    Raises:
        InputError: A file is missing or broken.
    """
    folder = Path(run_folder)
    run = read_run(folder)
    text = (folder / "recipe.toml").read_text(encoding="utf-8")
    page = _page(run, text)
    with atomic_path(folder / NAME) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return folder / NAME


def _page(run: RunFiles, recipe_text: str) -> str:
    about = run.recipe.get("recipe", {})
    title = escape(about.get("title") or run.scores["recipe"])
    lead = f"Recipe {run.scores['recipe']}, scale {run.scores['scale']}."
    if about.get("paper"):
        lead += f" {about['paper']}."
    parts = (
        sections.scores,
        sections.figures,
        sections.published,
        sections.neighbours,
        sections.losses,
        sections.timings,
        sections.settings,
    )
    body = "".join(part(run) for part in parts)
    rest = f"<pre>{escape(recipe_text)}</pre>"
    return whole_page(
        title,
        f"<h1>{title}</h1>\n<p>{escape(lead)}</p>\n"
        f"{body}<details><summary>recipe.toml</summary>{rest}</details>\n",
    )


def whole_page(title: str, body: str) -> str:
    """Return a page that a browser lets fetch nothing, from escaped parts."""
    # The policy makes the browser refuse anything that is not in this file.
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
{body}</body>
</html>
"""
