"""Dependencies point one way: a module imports only from the layers below its own (docs/design.md)."""

import ast
import re
from pathlib import Path

import pytest

import fedprof

PACKAGE = Path(fedprof.__file__).parent
DESIGN = Path(__file__).parents[1] / "docs" / "design.md"

LAYERS = (
    {"errors", "randomness"},
    {"core"},
    {"algorithms", "models", "data", "matching"},
    {"training"},
    {"tasks"},
    {"simulation"},
    {"flower", "report"},
    {"reproduction"},
    {"cli"},
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
STANDALONE = {"models", "data"}
"""Parts that need nothing but errors and randomness."""


def imports(source, package):
    """Yield ``(dotted name, for type checking only)`` for every import of ours, wherever in the file it stands."""
    tree = ast.parse(source)
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        for name in _targets(node, package):
            if name.split(".")[0] == "fedprof":
                yield name, id(node) in typing_only


def _targets(node, package):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        module = ".".join([*base, *filter(None, [node.module])])
        return [f"{module}.{alias.name}" for alias in node.names] if module == "fedprof" else [module]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
        return [a.value for a in node.args[:1] if isinstance(a, ast.Constant)]
    return []


def violations(source, part, package):
    """Imports in ``source``, a module of ``part``, that point sideways or up."""
    allowed = 1 if part in STANDALONE else LEVEL[part]
    for name, typing_only in imports(source, package):
        target = name.split(".")[1] if "." in name else ""
        if target in {part, "__version__"}:
            continue
        if target not in LEVEL:
            yield f"{name}: import it from the module it lives in"
        elif not (LEVEL[target] < allowed or (typing_only and LEVEL[target] <= LEVEL[part])):
            yield name


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        if relative == Path("__init__.py"):
            continue  # the lazy exports
        part = "cli" if relative == Path("__main__.py") else relative.with_suffix("").parts[0]
        yield pytest.param(path, part, id=relative.as_posix())


@pytest.mark.parametrize(("path", "part"), list(modules()))
def test_a_module_imports_only_from_below(path, part):
    assert part in LEVEL, f"give {part!r} a place in LAYERS and in docs/design.md"
    package = ".".join(("fedprof", *path.relative_to(PACKAGE).parent.parts))
    assert list(violations(path.read_text(encoding="utf-8"), part, package)) == []


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("from fedprof.training.engine import Engine", "algorithms"),
        ("def f():\n    import fedprof.simulation.loop", "training"),
        ("from ..models import lenet", "algorithms"),
        ("from .. import cli", "core"),
        ("from fedprof import cli", "core"),
        ("from fedprof import Profile", "algorithms"),
        ("import fedprof", "algorithms"),
        ("import_module('fedprof.report.html')", "simulation"),
        ("from fedprof.core.profile import Profile", "data"),
        ("if TYPE_CHECKING:\n    from fedprof.training.engine import Engine", "algorithms"),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from fedprof.models import lenet", "algorithms"),
    ],
)
def test_an_import_from_above_is_caught(source, part):
    assert len(list(violations(source, part, f"fedprof.{part}"))) == 1


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("from fedprof.core.profile import Profile", "algorithms"),
        ("from fedprof.algorithms.base import Reply", "algorithms"),
        ("from .base import Reply", "algorithms"),
        ("from fedprof import __version__", "cli"),
        ("import numpy\nfrom torch import nn", "core"),
        ("if TYPE_CHECKING:\n    from fedprof.data.clients import ClientData", "algorithms"),
    ],
)
def test_an_import_from_below_is_not(source, part):
    assert list(violations(source, part, f"fedprof.{part}")) == []


def test_the_design_page_lists_the_same_layers_in_the_same_order():
    rows = [line.split("|")[1] for line in DESIGN.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    named = [part for row in rows for part in re.findall(r"`(\w+)(?:/|\.py)`", row)]
    assert set(named) == set(LEVEL)
    assert [LEVEL[part] for part in named] == sorted(LEVEL[part] for part in named)
