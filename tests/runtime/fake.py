"""A kernel made of NumPy functions with the interface of the compiler's, so that the runtime is tested without it."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from tapedebug.lang import types


@dataclass(eq=False)
class Fake:
    key: str
    types: dict
    run: object
    back: object = None
    reads: frozenset = frozenset()
    writes: frozenset = frozenset()
    covers: frozenset = frozenset()
    atomic: frozenset = frozenset()
    needs: frozenset = frozenset()
    enable_backward: bool = True
    plans: dict = field(default_factory=dict)

    def __post_init__(self):
        self.params = tuple(SimpleNamespace(name=n, type=t, index=i) for i, (n, t) in enumerate(self.types.items()))
        code, values, adjoints = "4q", [], []
        slot = 4
        for p in self.params:
            values.append(slot)
            if isinstance(p.type, types.ArrayType):
                code += f"Q{2 * p.type.ndim}q"
                slot += 1 + 2 * p.type.ndim
            else:
                n = types.components(p.type)
                code += f"{n}{'d' if types.is_float(p.type) else 'q'}"
                slot += n
        for p in self.params:
            if isinstance(p.type, types.ArrayType):
                code += "Q"
                adjoints.append(slot)
                slot += 1
            else:
                adjoints.append(None)
        self.layout = SimpleNamespace(
            struct=struct.Struct("=" + code), values=tuple(values), adjoints=tuple(adjoints), size=8 * slot
        )
        self.analysis = SimpleNamespace(
            reads=self.reads, writes=self.writes, covers=self.covers, atomic=self.atomic, accesses=(), serial=False
        )

    def adjoint_info(self, active, *, replay=frozenset()):
        return SimpleNamespace(needs=self.needs, replay=self.needs & self.writes, need_spans={})

    def _entry(self, f64, what):
        def entry(lo, hi, address):
            slots = self.layout.struct.unpack(ctypes.string_at(address, self.layout.size))
            dims = slots[:4]
            assert (lo, hi) == (0, int(np.prod(dims)))
            args, adj = [], []
            for p, at, ad in zip(self.params, self.layout.values, self.layout.adjoints, strict=True):
                if not isinstance(p.type, types.ArrayType):
                    n = types.components(p.type)
                    args.append(slots[at] if n == 1 else np.array(slots[at : at + n]))
                    continue
                scalar = types.numpy_dtype(p.type)
                if f64 and scalar == np.float32:
                    scalar = np.dtype(np.float64)
                nd, inner = p.type.ndim, types.value_shape(p.type.dtype)
                shape = slots[at + 1 : at + 1 + nd] + inner
                strides = tuple(s * scalar.itemsize for s in slots[at + 1 + nd : at + 1 + 2 * nd])
                strides += (scalar.itemsize,) * len(inner)
                for pointer, into in ((slots[at], args), (slots[ad], adj)):
                    into.append(_at(pointer, shape, strides, scalar) if pointer else None)
            if what == "run":
                self.run(*args)
            else:
                self.back(args, adj)

        return entry

    def forward(self, *, f64=False, strided=False):
        return self._entry(f64, "run")

    def adjoint(self, active, *, f64=False, strided=False, replay=frozenset()):
        return self._entry(f64, "back")


def _at(pointer, shape, strides, scalar):
    low = sum(min(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True))
    high = scalar.itemsize + sum(max(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True))
    memory = (ctypes.c_uint8 * (high - low)).from_address(pointer + low)
    return np.ndarray(shape, scalar, memory, -low, strides)


F = types.ArrayType(float, 1)


def _square_back(args, adj):
    x, adj_x, adj_y = args[0], adj[0], adj[1]
    if adj_y is None:
        return
    if adj_x is not None:
        g = adj_y.copy()
        adj_y[...] = 0
        adj_x += 2 * x * g
    else:
        adj_y[...] = 0


square = Fake(
    "square", {"x": F, "y": F}, lambda x, y: np.copyto(y, x * x), _square_back,
    reads=frozenset({0}), writes=frozenset({1}), covers=frozenset({1}), needs=frozenset({0}),
)


def _scale_back(args, adj):
    adj_x, adj_y = adj[0], adj[1]
    g = adj_y.copy()
    adj_y[...] = 0
    if adj_x is not None:
        adj_x += args[2] * g


scale = Fake(
    "scale", {"x": F, "y": F, "a": types.float32}, lambda x, y, a: np.copyto(y, x * a), _scale_back,
    reads=frozenset({0}), writes=frozenset({1}), covers=frozenset({1}),
)


def _total(x, loss):
    loss[0] += x.sum()


def _total_back(args, adj):
    if adj[0] is not None and adj[1] is not None:
        adj[0] += adj[1][0]


total = Fake(
    "total", {"x": F, "loss": F}, _total, _total_back,
    reads=frozenset({0}), writes=frozenset({1}), atomic=frozenset({1}),
)
