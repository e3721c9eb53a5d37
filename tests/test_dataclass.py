"""Data classes whose methods are written on first use are those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from typing import Any, ClassVar

import pytest

from tapedebug import _dataclass
from tests.processes import run_python

NAN = float("nan")  # one object: equality of tuples looks at identity first, and the hash is made of it


def classes(dataclass: Any) -> dict[str, type]:
    """Return data classes of every kind that the package has, made by a decorator."""

    @dataclass
    class Plain:
        """Fields with and without defaults."""

        kind: ClassVar[str] = "plain"
        x: int
        y: list[int] = dataclasses.field(default_factory=list)
        z: float = dataclasses.field(default=1.5, repr=False, compare=False)

    @dataclass(frozen=True)
    class Frozen:
        """A value with a method that makes it."""

        x: int
        y: str = "y"

    @dataclass(frozen=True, slots=True)
    class FrozenSlots:
        """A value without a dictionary."""

        x: int
        y: float = NAN

    @dataclass(slots=True, kw_only=True)
    class KeywordOnly:
        """Fields that are named in calls."""

        x: int
        y: int = 2

    @dataclass(slots=True)
    class Derived(KeywordOnly):
        """A field of its own, and work after `__init__`."""

        z: int = 3
        total: int = dataclasses.field(init=False)
        known: object = dataclasses.field(default=None, init=False)

        def __post_init__(self) -> None:
            self.total = self.x + self.y + self.z

    @dataclass(eq=False)
    class Identity:
        """Compared by identity."""

        x: int

    @dataclass(frozen=True, repr=False)
    class OwnMethods(Frozen):
        """Methods that the class defines are left as they are."""

        z: int = 0

        def __eq__(self, other: object) -> bool:
            return isinstance(other, OwnMethods) and self.x == other.x

        def __hash__(self) -> int:
            return 17

        def __repr__(self) -> str:
            return f"own {self.x}"

    @dataclass
    class OwnInit(Plain):
        """An `__init__` that calls that of its base."""

        w: int = 0

        def __init__(self, w: int) -> None:
            super().__init__(x=2 * w)
            self.w = w

    made = (Plain, Frozen, FrozenSlots, KeywordOnly, Derived, Identity, OwnMethods, OwnInit)
    return {cls.__name__: cls for cls in made}


MADE, STANDARD = classes(_dataclass.dataclass), classes(dataclasses.dataclass)
ARGUMENTS: dict[str, list[dict[str, Any]]] = {
    "Plain": [{"x": 1}, {"x": 1, "z": 2.0}, {"x": 2, "y": [3]}],
    "Frozen": [{"x": 1}, {"x": 1, "y": "y"}, {"x": 1, "y": "n"}],
    "FrozenSlots": [{"x": 1, "y": 0.5}, {"x": 1}, {"x": 1}],
    "KeywordOnly": [{"x": 1}, {"x": 1, "y": 2}, {"x": 3}],
    "Derived": [{"x": 1}, {"x": 1, "z": 4}, {"x": 1, "z": 3}],
    "Identity": [{"x": 1}, {"x": 1}],
    "OwnMethods": [{"x": 1}, {"x": 1, "z": 2}, {"x": 2}],
    "OwnInit": [{"w": 1}, {"w": 1}, {"w": 2}],
}


def said(call: Any) -> str:
    """Return the result of a call as text, or its error."""
    try:
        return repr(call()).replace("object at 0x", "").split(" 7f")[0]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", MADE)
def test_methods_are_those_of_the_standard_library(name: str) -> None:
    def results(cls: Any) -> list[object]:
        values = [cls(**arguments) for arguments in ARGUMENTS[name]]
        again = [cls(**arguments) for arguments in ARGUMENTS[name]]
        shown = [repr(value) for value in values] if "__repr__" in dir(cls) and name != "Identity" else []
        return [
            str(inspect.signature(cls)),
            shown,
            [[a == b for b in [*values, *again, 1]] for a in values],
            [said(lambda a=a: hash(a)) if name != "Identity" else hash(a) == hash(a) for a in values[:2]],
            said(cls),
            said(lambda: cls(1, 2, 3, 4, 5, 6)),
            said(lambda: setattr(values[0], "x", 5)),
            said(lambda: setattr(values[0], "other", 5)) if name != "FrozenSlots" else "",
            said(lambda: delattr(values[0], "x")),
            cls.__match_args__,
            hasattr(cls, "__slots__") and cls.__slots__,
            [(f.name, f.type, f.init, f.kw_only, f.repr) for f in dataclasses.fields(cls)],
            dataclasses.is_dataclass(cls),
        ]

    assert results(MADE[name]) == results(STANDARD[name])


@pytest.mark.parametrize("name", [name for name in MADE if name != "OwnInit"])
def test_values_are_copied_replaced_and_pickled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cls: Any = classes(_dataclass.dataclass)[name]
    cls.__qualname__ = name
    monkeypatch.setattr(sys.modules[__name__], name, cls, raising=False)
    value = cls(**ARGUMENTS[name][0])
    for other in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert type(other) is cls
        assert dataclasses.asdict(other) == dataclasses.asdict(value)
    assert dataclasses.replace(value, x=7).x == 7


def test_methods_are_written_on_first_use() -> None:
    cls: Any = classes(_dataclass.dataclass)["FrozenSlots"]
    names = ("__init__", "__repr__", "__eq__", "__hash__")
    assert not any(inspect.isfunction(cls.__dict__[name]) for name in names)
    value = cls(x=1)
    assert all(inspect.isfunction(cls.__dict__[name]) for name in names)
    assert value.__init__.__qualname__.endswith("FrozenSlots.__init__")
    assert cls.__init__.__module__ == __name__


def test_a_base_class_writes_its_own_methods() -> None:
    made = classes(_dataclass.dataclass)
    assert made["OwnInit"](w=3).x == 6
    assert inspect.isfunction(made["Plain"].__dict__["__init__"])

    plain = type("Undecorated", (made["KeywordOnly"],), {})
    assert plain(x=4).x == 4
    assert "__init__" not in plain.__dict__


def test_few_methods_are_written_by_imports() -> None:
    counted = """
import gc
from tapedebug import _dataclass
import tapedebug.cli
import tapedebug.diagnose._diagnose
made = [cls for cls in gc.get_objects() if isinstance(cls, type) and "__dataclass_fields__" in cls.__dict__]
waiting = [c for c in made if any(isinstance(v, _dataclass._Unwritten) for v in c.__dict__.values())]
print(len(waiting) / len(made))
"""
    done = run_python(counted)
    assert float(done.stdout) > 0.8, done.stderr
