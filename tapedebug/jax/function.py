"""`jax.function`: a function that launches kernels, as one that JAX differentiates, compiles and maps."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from tapedebug._errors import LaunchError, TapedebugError
from tapedebug.lang import types
from tapedebug.runtime import array, from_numpy
from tapedebug.runtime.tape.recorded_call import ArrayFunction, RecordedCall

if TYPE_CHECKING:
    from jax import Array, ShapeDtypeStruct

CALLER = "tapedebug.jax.function"
Values = np.ndarray[Any, Any]
Shapes: TypeAlias = "ShapeDtypeStruct | Sequence[ShapeDtypeStruct]"
"""The shape and dtype of each result; not in a sequence if there is a single one, not a tuple."""


@overload
def function(
    function: Callable[..., Any],
    *,
    outputs: Shapes | None = None,
    name: str | None = None,
) -> JaxFunction: ...
@overload
def function(
    *,
    outputs: Shapes | None = None,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], JaxFunction]: ...
def function(
    function: Callable[..., Any] | None = None,
    *,
    outputs: Shapes | None = None,
    name: str | None = None,
) -> JaxFunction | Callable[[Callable[..., Any]], JaxFunction]:
    """Return a function that launches kernels as one of JAX arrays, with a `jax.custom_vjp`.

    It can be used as a decorator. The function gets an array for each JAX array, and returns an array or a
    tuple of arrays. It must depend on its arguments only. An annotation such as
    `points: wp.array(dtype=wp.vec3)` makes a JAX array of shape (n, 3) an array of n vectors.

    `jax.grad` and `jax.vjp` run the launches again, on a tape. `jax.jit` calls the function through
    `jax.pure_callback`, and `jax.vmap` runs it row by row. There is no forward mode, and no second
    derivative.

    Args:
        function: The function.
        outputs: The shapes and dtypes of the results, as `jax.ShapeDtypeStruct`. By default the function runs
            once on zeros for each combination of shapes, to find out.
        name: The name in messages; by default that of the function.

    Raises:
        TapedebugError: JAX is not installed.
        LaunchError: `function` cannot be called.
    """
    _load_jax()
    if function is None:
        return lambda function: globals()["function"](function, outputs=outputs, name=name)
    if not callable(function):
        raise LaunchError(f"jax.function: {function!r} cannot be called", hint="pass a function")
    name = name or getattr(function, "__name__", None) or type(function).__name__
    return JaxFunction(function, name, outputs)


def _load_jax() -> ModuleType:
    """Return the module `jax`.

    Raises:
        TapedebugError: JAX is not installed.
    """
    try:
        return importlib.import_module("jax")
    except ImportError as error:
        if error.name not in (None, "jax"):
            raise
        raise TapedebugError(
            f"{CALLER}: the package 'jax' is not installed", hint="install it: pip install jax"
        ) from None


class JaxFunction(ArrayFunction):
    """A function that launches kernels, as one of JAX arrays; see `function`.

    Args:
        function: The function of arrays.
        name: Its name in messages.
        outputs: The shapes and dtypes of the results; None to find out.

    Attributes:
        differentiated: The kinds of calls that were recorded for a gradient.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        outputs: Shapes | None = None,
    ) -> None:
        super().__init__(function, name, "jax.function")
        update_wrapper(self, function, updated=())
        self._outputs = outputs
        self._known: dict[object, Any] = {}
        self.differentiated: set[object] = set()

    def __repr__(self) -> str:
        return f"<tapedebug.jax.function of {self.name}>"

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the function on arrays with the values of JAX arrays.

        Args:
            args: JAX or NumPy arrays, which the function gets as arrays, and other objects, which it gets
                unchanged. An array without dimensions becomes one of one element.
            kwargs: Keyword arguments, likewise.

        Returns:
            A JAX array for the array that the function returned, or a tuple of them.

        Raises:
            LaunchError: The function returned something else than arrays, or arrays of other shapes than
                `outputs`; or an array of floats without `requires_grad` although a gradient is wanted.
        """
        jax = _load_jax()
        call = _Call(jax, self, [*args, *kwargs.values()], tuple(kwargs))
        return call.run(self._shapes(jax, call))

    def _shapes(self, jax: ModuleType, call: _Call) -> Any:
        """Return the shapes and dtypes of the results of a call."""
        if self._outputs is not None:
            several = isinstance(self._outputs, Sequence)
            return tuple(self._outputs) if several else self._outputs
        key = call.key()
        if key is None or key not in self._known:
            found = call.on_host(*(np.zeros(a.shape, a.dtype) for a in call.arrays))
            shapes = jax.tree.map(lambda v: jax.ShapeDtypeStruct(v.shape, v.dtype), found)
            if key is None:
                return shapes
            self._known[key] = shapes
        return self._known[key]


class _Call:
    """One call: its JAX arrays, and the arguments that are none.

    Args:
        jax: The module `jax`.
        owner: The function.
        values: The arguments.
        keys: The names of the last of them, which are passed by keyword.

    Attributes:
        arrays: The JAX arrays among the arguments.
    """

    def __init__(
        self, jax: ModuleType, owner: JaxFunction, values: Sequence[object], keys: Sequence[str]
    ) -> None:
        self.jax, self.owner, self.keys = jax, owner, keys
        self.values = list(values)
        self.places = [n for n, v in enumerate(values) if isinstance(v, jax.Array | np.ndarray)]
        self.arrays: list[Array] = [jax.numpy.asarray(values[n]) for n in self.places]
        names = owner.names(len(values), keys)
        self.names = [names[n] for n in self.places]
        if not self.arrays:
            kinds = ", ".join(type(v).__name__ for v in values) or "nothing"
            raise owner.error(f"no argument is an array; got {kinds}", "pass JAX arrays")
        self.is_float = [jax.numpy.issubdtype(a.dtype, np.floating) for a in self.arrays]

    def key(self) -> object:
        """Return what the shapes of the results may depend on; None if that cannot be compared."""
        others = tuple(v for n, v in enumerate(self.values) if n not in self.places)
        try:
            hash(others)
        except TypeError:
            return None
        return tuple((a.shape, str(a.dtype)) for a in self.arrays), others, tuple(self.places), self.keys

    def run(self, shapes: Shapes) -> Any:
        """Return the results, differentiable by JAX."""
        jax = self.jax
        like = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in self.arrays]
        wanted = tuple(s for s, is_float in zip(like, self.is_float, strict=True) if is_float)

        custom_vjp: Callable[[Callable[..., Any]], Any] = jax.custom_vjp

        @custom_vjp
        def pulled(arrays: Sequence[Array], adjoints: Sequence[Array]) -> Any:
            host = partial(self.pull_on_host, len(arrays))
            return jax.pure_callback(host, wanted, *arrays, *adjoints, vmap_method="sequential")

        pulled.defvjp(lambda arrays, adjoints: (pulled(arrays, adjoints), None), self._no_second_derivative)

        @custom_vjp
        def run(*arrays: Array) -> Any:
            return jax.pure_callback(self.on_host, shapes, *arrays, vmap_method="sequential")

        def reverse(arrays: Sequence[Array], adjoints: object) -> Any:
            self._try_to_differentiate()
            flat = jax.tree.leaves(adjoints)
            seeds = tuple(
                jax.numpy.zeros(s.shape, s.dtype) if a.dtype == jax.dtypes.float0 else a
                for a, s in zip(flat, jax.tree.leaves(shapes), strict=True)
            )
            found = iter(pulled(arrays, seeds))
            return tuple(
                next(found) if is_float else np.zeros(s.shape, jax.dtypes.float0)
                for s, is_float in zip(like, self.is_float, strict=True)
            )

        run.defvjp(lambda *arrays: (run(*arrays), arrays), reverse)
        return run(*self.arrays)

    def _try_to_differentiate(self) -> None:
        """Record the launches on zeros: an error is raised here, instead of in a callback of JAX."""
        key = self.key()
        if key is None or key not in self.owner.differentiated:
            zeros = [np.zeros(a.shape, a.dtype) for a in self.arrays]
            self._recorded(zeros, differentiable=True)
            self.owner.differentiated.add(key)

    def _no_second_derivative(self, *_: object) -> Any:
        raise NotImplementedError(f"jax.function of {self.owner.name} has no second derivative")

    # -- on the host ------------------------------------------------------------------------------------

    def on_host(self, *arrays: Array | Values) -> Any:
        """Run the launches; return the values of the results."""
        call = self._recorded(arrays, differentiable=False)
        found = tuple(a.numpy().copy() for a in call.outputs)
        return found[0] if call.single else found

    def pull_on_host(self, count: int, *arrays: Array | Values) -> tuple[Values, ...]:
        """Run the launches and their reverse; return the adjoints of the arrays of floats."""
        given: list[array] = []
        call = self._recorded(arrays[:count], differentiable=True, given=given)
        seeds = [
            from_numpy(np.array(v), dtype=a.dtype) if types.is_float(a.dtype) else None
            for a, v in zip(call.outputs, arrays[count:], strict=True)
        ]
        call.pull(seeds)
        return tuple(
            a.grad.numpy().copy().reshape(like.shape)
            for a, like, is_float in zip(given, arrays[:count], self.is_float, strict=True)
            if is_float and a.grad is not None
        )

    def _recorded(
        self, arrays: Sequence[Any], *, differentiable: bool, given: list[array] | None = None
    ) -> RecordedCall:
        values = list(self.values)
        for n, name, new, is_float in zip(self.places, self.names, arrays, self.is_float, strict=True):
            plain = np.array(new)
            values[n] = made = from_numpy(
                plain.reshape(1) if plain.ndim == 0 else plain,
                dtype=self.owner.dtype(name),
                requires_grad=differentiable and is_float,
            )
            if given is not None:
                given.append(made)
        return RecordedCall(self.owner, values, self.keys, differentiable=differentiable)
