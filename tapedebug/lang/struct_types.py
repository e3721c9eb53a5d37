"""Struct types (fields of numbers, compound values, arrays, structs), and their values outside kernels.

In kernels a struct is its fields. A struct argument of a launch is taken apart into one argument a field, an
array of structs into one strided view a field (`compiler.flatten`, `runtime.launch.argument_flattening`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

DESCRIPTOR = np.dtype(
    [
        ("data", np.uint64),
        ("grad", np.uint64),
        ("shape", np.int32, 4),
        ("strides", np.int32, 4),
        ("ndim", np.uint16),
        ("flags", np.uint16),
    ],
    align=True,
)
"""An array in the memory of an element of an array of structs, laid out as in Warp: address of the values (0:
none), of the gradient (0: none), shape, strides in bytes, dimensions."""


class Field(NamedTuple):
    """A declared field: its name and type."""

    label: str
    type: Any


class Leaf(NamedTuple):
    """A number, compound value or array inside an array element that is a struct.

    Attributes:
        path: The fields that lead to it: `("inner", "x")`.
        type: Its type; of an array, the vector type that its `DESCRIPTOR` is copied as.
        offset: Bytes from the beginning of the element.
        held: The type of an array; else None.
    """

    path: tuple[str, ...]
    type: Any
    offset: int
    held: Any = None


class Struct:
    """Base of the types that `@struct` makes.

    Instances exist outside kernels, as arguments of launches and elements of arrays. Fields are checked and
    converted when they are assigned; nested structs and compound values are copied, arrays are shared.

    Attributes:
        fields: The type of each field, in order.
    """

    fields: ClassVar[MappingProxyType[str, Any]]

    def __init__(self, *values: Any, **named: Any) -> None:
        cls = type(self)
        if not hasattr(cls, "fields"):
            raise TypeError("Struct has no fields: decorate a class with @struct")
        names = tuple(cls.fields)
        if len(values) > len(names):
            listed = ", ".join(names)
            raise TypeError(
                f"{cls.__name__}() takes {len(names)} fields ({listed}); got {len(values)} values"
            )
        for name, kind in cls.fields.items():
            self.__dict__[name] = _default(kind)
        for name, value in zip(names, values, strict=False):
            setattr(self, name, value)
        for name, value in named.items():
            if name in names[: len(values)]:
                raise TypeError(f"{cls.__name__}() got two values for the field {name!r}")
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self).fields.get(name)
        if kind is None:
            raise AttributeError(self._unknown(name))
        self.__dict__[name] = _converted(type(self), name, kind, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        raise AttributeError(self._unknown(name))

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"the fields of {type(self).__name__} cannot be deleted")

    @classmethod
    def _unknown(cls, name: str) -> str:
        return f"{cls.__name__} has no field {name!r}; {near_field(cls, name)}"

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={self.__dict__[name]!r}" for name in type(self).fields)
        return f"{type(self).__name__}({shown})"

    def __copy__(self) -> Any:
        made = type(self)()
        Struct.assign(made, self)
        return made

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    def assign(self, value: Any) -> None:
        """Take over the fields of another instance of the same struct.

        Raises:
            TypeError: `value` is something else.
        """
        if type(value) is not type(self):
            raise TypeError(f"cannot assign {_described(value)} to a {type(self).__name__}")
        for name in type(self).fields:
            setattr(self, name, value.__dict__[name])

    def to(self, device: Any) -> Any:
        """A copy on `device`, with its arrays."""
        made = type(self)()
        for name, value in self.__dict__.items():
            moved = Struct.to(value, device) if isinstance(value, Struct) else value
            setattr(made, name, value.to(device) if hasattr(value, "kernel_type") else moved)
        return made

    def numpy_value(self) -> tuple[Any, ...]:
        """The fields as a nested tuple, which a structured NumPy array takes as an element.

        An array is a tuple of the fields of `DESCRIPTOR`.

        Raises:
            TypeError: The struct holds indexed arrays.
        """
        from tapedebug.lang import types

        type(self).numpy_dtype()
        values: list[Any] = []
        for name in type(self).fields:
            value = self.__dict__[name]
            if isinstance(type(self).fields[name], types.ArrayType):
                values.append(_descriptor(value))
            else:
                values.append(Struct.numpy_value(value) if isinstance(value, Struct) else _number(value))
        return tuple(values)

    @classmethod
    def numpy_dtype(cls) -> np.dtype[Any]:
        """The structured NumPy dtype of the struct, laid out as in C; arrays are a `DESCRIPTOR`.

        Raises:
            TypeError: The struct holds indexed arrays.
        """
        this: Any = cls
        found: np.dtype[Any] = _numpy_dtype(this)
        return found

    @classmethod
    def from_numpy(cls, value: Any, array_of: Callable[[Any, Any], Any] | None = None) -> Any:
        """An instance of an element of a structured array.

        Args:
            value: The element.
            array_of: A function of a `DESCRIPTOR` and the type of the field that returns the array; without
                it, array fields are None.
        """
        from tapedebug.lang import types

        made = cls()
        for name, kind in cls.fields.items():
            inside = value[name]
            if isinstance(kind, types.ArrayType):
                setattr(made, name, None if array_of is None else array_of(inside, kind))
            else:
                setattr(made, name, kind.from_numpy(inside, array_of) if is_struct(kind) else inside)
        return made

    @classmethod
    def leaves(cls) -> tuple[Leaf, ...]:
        """The numbers, compound values and arrays of an array element, at any depth.

        Raises:
            TypeError: The struct holds indexed arrays.
        """
        this: Any = cls
        found: tuple[Leaf, ...] = _leaves(this)
        return found

    @classmethod
    def indexed_field(cls) -> str | None:
        """The path of a field that is an indexed array, at any depth; None where there is none."""
        from tapedebug.lang import types

        for name, kind in cls.fields.items():
            if is_struct(kind):
                inside = kind.indexed_field()
                if inside is not None:
                    return f"{name}.{inside}"
            elif isinstance(kind, types.IndexedArrayType):
                return name
            elif isinstance(kind, types.ArrayType) and is_struct(kind.dtype):
                inside = kind.dtype.indexed_field()
                if inside is not None:
                    return f"{name}[…].{inside}"
        return None

    @classmethod
    def holds_arrays(cls) -> bool:
        """True if a field is an array, at any depth: the elements of an array of such structs hold arrays."""
        return any(
            kind.holds_arrays() if is_struct(kind) else hasattr(kind, "ndim") for kind in cls.fields.values()
        )

    @classmethod
    def empty_struct(cls) -> type[Struct] | None:
        """The struct without fields that this one is or contains, at any depth; None if there is none."""
        inside = (kind.empty_struct() for kind in cls.fields.values() if is_struct(kind))
        return next((found for found in inside if found is not None), None) if cls.fields else cls

    @classmethod
    def signature(cls) -> str:
        """The whole definition in one line, equal for structs that are equivalent in kernels."""
        return f"{cls.__name__}({', '.join(_signature(cls))})"


def _signature(cls: type[Struct]) -> Iterator[str]:
    from tapedebug.lang import types

    for name, kind in cls.fields.items():
        element = getattr(kind, "dtype", kind)
        inside = f" of {element.signature()}" if is_struct(element) else ""
        yield f"{name}: {types.type_name(kind)}{inside}"


def is_struct(kind: Any) -> bool:
    """True if `kind` is a struct type."""
    return isinstance(kind, type) and issubclass(kind, Struct) and hasattr(kind, "fields")


def near_field(kind: type[Struct], name: str) -> str:
    """Return a hint for a field that does not exist."""
    import difflib

    near = difflib.get_close_matches(name, kind.fields, 1)
    return f"did you mean {near[0]!r}?" if near else f"its fields are {', '.join(kind.fields)}"


@functools.cache
def _numpy_dtype(cls: type[Struct]) -> np.dtype[Any]:
    from tapedebug.lang import types

    path = cls.indexed_field()
    if path is not None:
        raise TypeError(f"{cls.__name__} holds an indexed array ({path}), which elements of arrays cannot")
    parts: list[Any] = [
        (name, DESCRIPTOR)
        if isinstance(kind, types.ArrayType)
        else (name, types.numpy_dtype(kind), types.value_shape(kind))
        for name, kind in cls.fields.items()
    ]
    return np.dtype(parts, align=True)


@functools.cache
def _leaves(cls: type[Struct]) -> tuple[Leaf, ...]:
    from tapedebug.lang import types

    dtype = cls.numpy_dtype()
    assert dtype.fields is not None
    found: list[Leaf] = []
    for name, kind in cls.fields.items():
        offset = dtype.fields[name][1]
        if is_struct(kind):
            found += [
                Leaf((name, *inner.path), inner.type, offset + inner.offset, inner.held)
                for inner in kind.leaves()
            ]
        elif isinstance(kind, types.ArrayType):
            words = types.vector(DESCRIPTOR.itemsize // 8, types.uint64)
            found.append(Leaf((name,), words, offset, kind))
        else:
            found.append(Leaf((name,), kind, offset))
    return tuple(found)


def _default(kind: Any) -> Any:
    from tapedebug.lang import types

    if types.is_scalar(kind):
        return kind.numpy.type(0).item()
    return None if hasattr(kind, "ndim") else kind()


def _descriptor(a: Any) -> tuple[Any, ...]:
    """The fields of the `DESCRIPTOR` of an array; zeros of None."""
    if a is None:
        return (0, 0, [0] * 4, [0] * 4, 0, 0)
    rest = [0] * (4 - a.ndim)
    limit = np.iinfo(np.int32).max
    if max(map(abs, (*a.shape, *a.strides))) > limit:
        raise ValueError(f"{a!r} is too large for an element of an array: sizes are int32 there")
    gradient = a.grad
    return (a.ptr, 0 if gradient is None else gradient.ptr, [*a.shape, *rest], [*a.strides, *rest], a.ndim, 0)


def _number(value: Any) -> Any:
    return np.asarray(value) if hasattr(value, "__array__") else value


def _converted(owner: type[Struct], name: str, kind: Any, value: Any) -> Any:
    """A value as a field holds it.

    Raises:
        TypeError: It is not of the field's type.
        ValueError: An integer is out of the type's range.
    """
    from tapedebug.lang import types

    what = f"{owner.__name__}.{name} is {types.type_name(kind)}"
    if is_struct(kind):
        if type(value) is not kind:
            raise TypeError(f"{what}; got {_described(value)}")
        made = kind()
        Struct.assign(made, value)
        return made
    if types.is_compound(kind):
        return _compound(what, kind, value)
    if types.is_scalar(kind):
        return _scalar(what, kind, value)
    if value is None:
        return None
    got = getattr(value, "kernel_type", None)
    if got is None:
        raise TypeError(f"{what}; got {_described(value)}")
    if got != kind:
        raise TypeError(f"{what}; got one of {types.type_name(got)} with shape {value.shape}")
    return value


def _compound(what: str, kind: Any, value: Any) -> Any:
    if np.isscalar(value) or value is None:
        raise TypeError(f"{what}; got {_described(value)}")
    try:
        return kind(*np.asarray(value).reshape(-1))
    except (TypeError, ValueError):
        raise TypeError(f"{what}; got {_described(value)}") from None


def _scalar(what: str, kind: Any, value: Any) -> Any:
    from tapedebug.lang import types

    if isinstance(value, np.ndarray) and value.shape == ():
        value = value.item()
    if kind is types.bool:
        fits = isinstance(value, bool | np.bool_ | int | np.integer)
        made: Any = bool(value) if fits else None
    elif kind in types.INTEGERS:
        fits = isinstance(value, int | np.integer | np.bool_)
        made = int(value) if fits else None
        limits = np.iinfo(kind.numpy)
        if fits and not limits.min <= made <= limits.max:
            raise ValueError(f"{what}; {made} is outside {limits.min} … {limits.max}")
    else:
        fits = isinstance(value, int | float | np.floating | np.integer | np.bool_ | types.bfloat16)
        made = float(value) if fits else None
    if not fits:
        raise TypeError(f"{what}; got {_described(value)}")
    return made


def _described(value: Any) -> str:
    shown = repr(value)
    return f"{shown if len(shown) <= 60 else shown[:57] + '...'} ({type(value).__name__})"
