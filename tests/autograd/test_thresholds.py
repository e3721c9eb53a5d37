"""Every threshold of a verdict stands once, in one module, with its reason, and decides something."""

import ast

from tests.processes import ROOT

THRESHOLDS = ROOT / "tapedebug" / "autograd" / "thresholds.py"
ROOMS = [ROOT / "tapedebug" / room for room in ("autograd", "diagnose")]


def reasons() -> dict[str, str]:
    """Return the docstring under each constant."""
    body = ast.parse(THRESHOLDS.read_text("utf-8")).body
    found = {}
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            said = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            found[node.targets[0].id] = str(following.value.value) if said else ""
    return found


def test_thresholds_have_reasons_and_are_used() -> None:
    names = reasons()
    assert len(names) > 80
    texts = [path.read_text("utf-8") for room in ROOMS for path in room.rglob("*.py") if path != THRESHOLDS]
    used = {name for text in texts for name in names if f" {name}" in text or f"({name}" in text}
    assert [name for name, reason in names.items() if not reason.endswith(".")] == []
    assert set(names) - used == set()


def test_no_other_module_gives_a_threshold_a_second_value() -> None:
    names = set(reasons())
    again = [
        f"{path.relative_to(ROOT)}: {target.id}"
        for room in ROOMS
        for path in room.rglob("*.py")
        if path != THRESHOLDS
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in names
    ]
    assert again == []
