"""Structs outside kernels: fields, what they take, what they say of what they do not take."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.lang.structs import struct


@wp.struct
class Inner:
    x: float
    n: wp.int32


@wp.struct
class State:
    """The state of a simulation."""

    q: wp.array(dtype=wp.vec3)
    mass: float
    gravity: wp.vec3
    inner: Inner
    on: bool
    small: wp.uint8


@wp.struct
class Particle:
    pos: wp.vec3
    flag: wp.uint8
    inner: Inner
    weight: wp.float64
    frame: wp.mat22


@wp.struct
class Rows:
    rows: wp.indexedarray(dtype=float)


@wp.struct
class Selected:
    parts: wp.array(dtype=Rows)


def test_fields_begin_as_zeros_and_arrays_as_none() -> None:
    s = State()
    assert s.q is None
    assert (s.mass, s.gravity, s.on, s.small) == (0.0, wp.vec3(0, 0, 0), False, 0)
    assert (s.inner.x, s.inner.n) == (0.0, 0)
    assert list(State.vars) == ["q", "mass", "gravity", "inner", "on", "small"]
    assert State.vars["inner"].type is Inner
    assert State.vars["mass"].label == "mass"
    assert State.__doc__ == "The state of a simulation."
    assert State.__module__ == __name__


def test_fields_are_converted_and_copied() -> None:
    s = State(mass=np.float32(2.5), gravity=(0, -9.8, 0), small=np.int64(7))
    assert isinstance(s.mass, float)
    assert s.gravity == wp.vec3(0, -9.8, 0)
    inner, v = Inner(3.0, 4), wp.vec3(1, 2, 3)
    s.inner, s.gravity = inner, v
    inner.x, v[0] = 9.0, 9.0
    assert (s.inner.x, s.gravity[0]) == (3.0, 1.0)
    s.inner.x, s.gravity[1] = 5.0, 6.0
    assert (s.inner.x, s.gravity[1]) == (5.0, 6.0)
    s.on = 1
    assert s.on is True
    s.mass = np.array(4.0)
    assert s.mass == 4.0


def test_arrays_are_shared() -> None:
    q = wp.zeros(2, dtype=wp.vec3)
    s = State(q)
    other = copy.copy(s)
    assert s.q is q and other.q is q
    other.mass = 2.0
    other.inner.x = 1.0
    assert (s.mass, s.inner.x) == (0.0, 0.0)
    assert s.to("cpu").q is q
    s.assign(other)
    assert s.mass == 2.0
    s.q = None
    assert s.q is None


def test_repr_shows_every_field() -> None:
    assert repr(Inner(1.5, 2)) == "Inner(x=1.5, n=2)"
    assert repr(State()) == (
        "State(q=None, mass=0.0, gravity=vec3(0.0, 0.0, 0.0), inner=Inner(x=0.0, n=0), on=False, small=0)"
    )


WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda s: setattr(s, "mas", 1.0), AttributeError, "State has no field 'mas'; did you mean 'mass'?"),
    (
        lambda s: s.velocity,
        AttributeError,
        "State has no field 'velocity'; its fields are q, mass, gravity, inner, on, small",
    ),
    (lambda s: setattr(s, "mass", "heavy"), TypeError, "State.mass is float32; got 'heavy' (str)"),
    (lambda s: setattr(s, "small", 300), ValueError, "State.small is uint8; 300 is outside 0 … 255"),
    (lambda s: setattr(s, "small", 1.5), TypeError, "State.small is uint8; got 1.5 (float)"),
    (lambda s: setattr(s, "gravity", 2.0), TypeError, "State.gravity is vec3; got 2.0 (float)"),
    (lambda s: setattr(s, "gravity", (1, 2)), TypeError, "State.gravity is vec3; got (1, 2) (tuple)"),
    (lambda s: setattr(s, "inner", 3), TypeError, "State.inner is Inner; got 3 (int)"),
    (
        lambda s: setattr(s, "q", wp.zeros(3)),
        TypeError,
        "State.q is array(dtype=vec3); got one of array(dtype=float32) with shape (3,)",
    ),
    (
        lambda s: setattr(s, "q", [1.0]),
        TypeError,
        "State.q is array(dtype=vec3); got [1.0] (list)",
    ),
    (lambda s: Inner(1.0, 2, 3), TypeError, "Inner() takes 2 fields (x, n); got 3 values"),
    (lambda s: Inner(1.0, x=2), TypeError, "Inner() got two values for the field 'x'"),
    (lambda s: s.assign(Inner()), TypeError, "cannot assign Inner(x=0.0, n=0) (Inner) to a State"),
    (lambda s: delattr(s, "mass"), AttributeError, "the fields of State cannot be deleted"),
    (
        lambda s: Selected.numpy_dtype(),
        TypeError,
        "Selected holds an indexed array (parts[…].rows), which elements of arrays cannot",
    ),
]


@pytest.mark.parametrize(("act", "kind", "message"), WRONG)
def test_wrong_uses(act: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        act(State())
    assert str(caught.value) == message


def test_layout_is_that_of_c() -> None:
    dtype = Particle.numpy_dtype()
    assert dtype.names == ("pos", "flag", "inner", "weight", "frame")
    assert [dtype.fields[name][1] for name in dtype.names] == [0, 12, 16, 24, 32]
    assert dtype.itemsize == 48
    assert dtype["frame"].shape == (2, 2)
    assert [(leaf.path, leaf.offset) for leaf in Particle.leaves()][2:4] == [
        (("inner", "x"), 16),
        (("inner", "n"), 20),
    ]


def test_values_go_to_numpy_and_back() -> None:
    p = Particle(pos=(1, 2, 3), inner=Inner(0.5, 2), frame=wp.mat22(1, 2, 3, 4))
    values = np.array(p.numpy_value(), Particle.numpy_dtype())
    assert values["inner"]["n"] == 2
    assert repr(Particle.from_numpy(values)) == repr(p)


def test_the_same_definition_again_is_the_same_type() -> None:
    def define(kind: Any) -> Any:
        class Cell:
            a: kind  # type: ignore[valid-type]

        return struct(Cell)

    assert define(wp.float32) is define(float)
    assert define(wp.float32) is not define(wp.float64)
    assert State.signature() == (
        "State(q: array(dtype=vec3), mass: float32, gravity: vec3, "
        "inner: Inner of Inner(x: float32, n: int32), on: bool, small: uint8)"
    )


def test_a_field_may_be_called_as_a_method() -> None:
    @wp.struct
    class Odd:
        to: float
        leaves: Inner

    odd = Odd(1.0, Inner(2.0))
    assert (odd.to, odd.leaves.x) == (1.0, 2.0)
    assert Odd.leaves()[1].path == ("leaves", "x")
    assert copy.deepcopy(odd).leaves.x == 2.0


def refused(namespace: dict[str, Any]) -> str:
    with pytest.raises(wp.KernelTypeError) as caught:
        struct(type("Bad", (), namespace))
    return str(caught.value)


def test_wrong_definitions() -> None:
    assert refused({"__annotations__": {"a": str}}) == (
        "struct `Bad`: the type `str` of `a` is not a type of the kernel language\n"
        "  = hint: use float, int, bool, vec3, array(dtype=float), …"
    )
    assert refused({"__annotations__": {"a": wp.array}}) == (
        "struct `Bad`: the type `array` of `a` is not a type of the kernel language\n"
        "  = hint: write array(dtype=float), array2d(dtype=vec3), …: arrays need their element type"
    )
    assert refused({"__annotations__": {"a": "Bad"}}) == (
        "struct `Bad`: the type `Bad` of `a` cannot be read (NameError: name 'Bad' is not defined)\n"
        "  = hint: a struct cannot hold itself: keep the index of another element instead"
    )
    with pytest.raises(wp.KernelTypeError, match="@struct decorates a class; got a function"):
        struct(lambda: 0)  # type: ignore[arg-type]


def test_a_struct_without_fields() -> None:
    @wp.struct
    class Nothing:
        pass

    @wp.struct
    class Holder:
        nothing: Nothing
        x: float

    assert repr(Holder(x=2.0)) == "Holder(nothing=Nothing(), x=2.0)"
    for kind in (Nothing, Holder):
        with pytest.raises(wp.ArrayError, match="Nothing has no fields, and cannot be in elements of arrays"):
            wp.zeros(2, dtype=kind)


def test_fields_of_base_classes_come_first() -> None:
    class Named:
        n: wp.int32

        def doubled(self) -> Any:
            return 2 * self.n

    @wp.struct
    class Mass(Named):
        mass: float

    @wp.struct
    class Body(Mass):
        pos: wp.vec3
        n: float

    assert list(Mass.vars) == ["n", "mass"]
    assert {name: field.type for name, field in Body.vars.items()} == {
        "n": wp.float32,
        "mass": wp.float32,
        "pos": wp.vec3,
    }
    assert Body(n=1.5).doubled() == 3.0
    assert not issubclass(Body, Mass)  # each is a type of its own


def test_default_values_are_not_used_and_a_warning_says_so() -> None:
    with pytest.warns(wp.TapedebugWarning) as caught:

        @wp.struct
        class Started:
            n: int = 3
            mass: float

    [warning] = caught
    assert str(warning.message) == (
        "struct `Started`: the default value 3 of `n` is not used: fields begin as zeros, as in NVIDIA Warp\n"
        "  = hint: write `n: …` only, and assign it to an instance"
    )
    assert warning.filename.endswith("test_structs.py")
    assert Started().n == 0
