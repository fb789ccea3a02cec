"""The structure of the package: no circles, no crowded rooms, nothing written twice."""

import ast
import copy
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted((ROOT / "keras_msd").rglob("*.py"))
LINES = 6  # a function body of fewer lines may look like another
# Bodies of one shape that are not one idea, with the reason.
ALIKE: dict[frozenset[str], str] = {}


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {dotted(path): path for path in MODULES}


def imports_of(path: Path) -> set[str]:
    """Return the modules of ours that `path` imports: at once, later or for types."""
    found = set()
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in NAMES else str(node.module))
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            pending += ast.iter_child_nodes(node)
    return {name for name in found if name in NAMES}


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return the names along a circle, none where there is none."""
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph.get(name, ())):
            if found := walk(other, [*way, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := walk(name, []))), [])


def test_no_import_circle():
    graph = {name: imports_of(path) - {name} for name, path in NAMES.items()}
    assert sum(map(len, graph.values())) > 300
    assert circle(graph) == []


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_rooms_are_not_crowded():
    rooms = Counter(path.parent for path in MODULES)
    assert {str(room): n for room, n in rooms.items() if n > 20} == {}
    assert len(MODULES) <= 248


class Shape(ast.NodeTransformer):
    """Takes names, constants and annotations out of a syntax tree."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Name("x", node.ctx), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        node.attr = "x"
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.copy_location(ast.Constant(0), node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.copy_location(ast.Constant(0), node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg("x")

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        self.generic_visit(node)
        node.arg = node.arg and "x"
        return node


def shapes(tree: ast.Module) -> list[tuple[str, str]]:
    """Return name and shape of the bodies of functions of `LINES` lines or more."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        if not body or body[-1].end_lineno - body[0].lineno + 1 < LINES:  # type: ignore
            continue
        shape = [ast.dump(Shape().visit(copy.deepcopy(one))) for one in body]
        found.append((node.name, "\n".join(shape)))
    return found


def test_no_two_function_bodies_of_one_shape():
    places = defaultdict(list)
    for path in MODULES:
        for name, shape in shapes(ast.parse(path.read_text(encoding="utf-8"))):
            places[shape].append(f"{dotted(path)}.{name}")
    assert len(places) > 500
    alike = {frozenset(where) for where in places.values() if len(where) > 1}
    assert alike - ALIKE.keys() == set()
    assert ALIKE.keys() - alike == set()  # an exception that is none any more goes


def test_shapes_see_through_names_and_numbers():
    one = "def f(a):\n    '''Text.'''\n" + "    a = g(a, 1)\n" * 6
    two = "def h(b: int):\n" + "    b = k.m(b, 'x')\n" * 6
    other = "def h(b):\n" + "    b = k(b, b=2)\n" * 6
    shape, *rest = ({s for _, s in shapes(ast.parse(code))} for code in (one, two))
    assert len(shape) == 1
    assert shape != {s for _, s in shapes(ast.parse(other))}
    renamed = one.replace("g(a, 1)", "q(z, 7)").replace("a =", "z =")
    assert shape == {s for _, s in shapes(ast.parse(renamed))}
