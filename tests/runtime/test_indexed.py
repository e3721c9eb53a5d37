"""Indexed arrays: what they are made of, reading and writing through them, launches and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp


@wp.struct
class Body:
    pos: wp.vec3
    mass: float


@wp.struct
class Group:
    chosen: wp.indexedarray(dtype=Body)
    scale: float


def matrix(grad: bool = False) -> Any:
    return wp.array(np.arange(12, dtype=np.float32).reshape(3, 4), requires_grad=grad)


def rows(*numbers: int) -> Any:
    return wp.array(list(numbers), dtype=int)


def test_chosen_elements() -> None:
    a = matrix()
    chosen = wp.indexedarray(a, [rows(2, 0), None])
    assert (chosen.shape, chosen.ndim, chosen.size, len(chosen)) == ((2, 4), 2, 8, 2)
    assert (chosen.dtype, chosen.data is a, chosen.indices[1]) == (wp.float32, True, None)
    assert not chosen.is_contiguous
    assert chosen.device == a.device and chosen.to("cpu") is chosen
    assert repr(chosen) == "indexedarray(shape=(2, 4), dtype=float32)"
    assert str(chosen) == "[[ 8.  9. 10. 11.]\n [ 0.  1.  2.  3.]]"
    assert chosen.list() == [8, 9, 10, 11, 0, 1, 2, 3]
    assert wp.indexedarray(a, rows(1)).numpy().tolist() == [[4, 5, 6, 7]]
    assert wp.indexedarray(a, [None, [3, 3]]).numpy().tolist() == [[3, 3], [7, 7], [11, 11]]
    assert wp.indexedarray(a, [[1], [0, 2]]).numpy().tolist() == [[4, 6]]


def test_indexing_an_array_with_arrays() -> None:
    a, chosen = matrix(), rows(2, 0)
    assert a[chosen].numpy().tolist() == a.numpy()[[2, 0]].tolist()
    assert a[chosen, 1:3].numpy().tolist() == a.numpy()[[2, 0], 1:3].tolist()
    assert a[:, np.array([3, 1])].numpy().tolist() == a.numpy()[:, [3, 1]].tolist()
    assert a[1, [0, 2]].numpy().tolist() == [4, 6]
    assert isinstance(a[chosen], wp.indexedarray)
    a[chosen] = 7.0
    a[[1]] = [[1.0, 2.0, 3.0, 4.0]]
    assert a.numpy().tolist() == [[7, 7, 7, 7], [1, 2, 3, 4], [7, 7, 7, 7]]


def test_writing_goes_to_the_data() -> None:
    a = matrix()
    chosen = wp.indexedarray(a, [rows(2, 0), [1, 2]])
    chosen.assign([[-1.0, -2.0], [-3.0, -4.0]])
    assert a.numpy().tolist() == [[0, -3, -4, 3], [4, 5, 6, 7], [8, -1, -2, 11]]
    chosen.fill_(9.0)
    assert a.numpy()[2].tolist() == [8, 9, 9, 11]
    chosen.zero_()
    assert a.numpy()[0].tolist() == [0, 0, 0, 3]
    copied = chosen.contiguous()
    copied.fill_(5.0)
    assert not chosen.numpy().any()


@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_every_number_of_dimensions(ndim: int) -> None:
    values = np.random.default_rng(ndim).normal(size=(3, 4, 2, 5)[:ndim]).astype(np.float32)
    kind = (wp.indexedarray1d, wp.indexedarray2d, wp.indexedarray3d, wp.indexedarray4d)[ndim - 1]
    a = wp.array(values, requires_grad=True)
    with wp.Tape() as tape:
        chosen = kind(a, [rows(2, 0)])
        out = chosen.contiguous()
        out2 = wp.zeros_like(out)
        wp.indexedarray(out2, [None] * ndim).assign(out)
    assert np.array_equal(out2.numpy(), values[[2, 0]])
    tape.backward(grads={out2: np.ones(out.shape, np.float32)})
    assert np.array_equal(a.grad.numpy()[0], np.ones_like(values[0]))
    assert not a.grad.numpy()[1].any()
    assert np.array_equal(chosen.grad.numpy(), np.ones(out.shape))
    assert kind(dtype=float) == wp.types.IndexedArrayType(float, ndim)
    assert kind[float] == wp.indexedarray(dtype=float, ndim=ndim)
    with pytest.raises(wp.ArrayError, match=rf"indexedarray{ndim}d: the data has {ndim % 4 + 1} dimensions"):
        kind(wp.zeros((1,) * (ndim % 4 + 1)))


@wp.func
def total(a: wp.indexedarray(dtype=float)) -> float:
    s = float(0.0)
    for i in range(len(a)):
        s += a[i] * a[i]
    return s


@wp.kernel
def mixed(a: wp.indexedarray2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    row = a[i]
    out[i] = total(row) * row[1] + total(a[:, 0]) + float(row.shape[0]) + total(row[1:])
    a[i, 2] = row[0] * 2.0
    a[i, 3] += row[1] * row[1]
    wp.atomic_add(a, i, 1, 1.0)


def test_kernels_read_and_write_through_indices() -> None:
    a, out = matrix(grad=True), wp.zeros(2, requires_grad=True)
    before = a.numpy().astype(float)
    chosen = wp.indexedarray(a, [rows(2, 0), [1, 0, 3, 2]])
    with wp.Tape() as tape:
        wp.launch(mixed, dim=2, inputs=[chosen], outputs=[out])
    view = before[[2, 0]][:, [1, 0, 3, 2]]
    expected = []
    for i in range(2):
        row = view[i]
        value = (row**2).sum() * row[1] + (view[:, 0] ** 2).sum() + 4 + (row[1:] ** 2).sum()
        expected.append(value)
        view[i, 2], view[i, 3] = row[0] * 2, row[3] + row[1] ** 2
        view[i, 1] += 1
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(chosen.numpy(), view, rtol=1e-6)
    result = wp.autograd.gradcheck_tape(tape, show_summary=False)
    assert result.verdict == "AGREE"
    assert ("a.data", "out") in {(p.input, p.output) for p in result.pairs}
    assert tape.records[0].plan.names == ("a.data", "a.indices[0]", "a.indices[1]", "out")
    labels = [info.label for info in tape.trace().arrays]
    assert labels == ["a", "chosen.indices[0]", "chosen.indices[1]", "out"]


@wp.kernel
def push(group: Group, out: wp.array(dtype=float)):
    i = wp.tid()
    body = group.chosen[i]
    group.chosen[i].pos.x += body.mass * group.scale
    group.chosen[i].mass = wp.length(body.pos)
    out[i] = body.mass * body.pos.y


def test_indexed_arrays_of_structs_in_structs() -> None:
    bodies = wp.array([Body(wp.vec3(k, 2.0, 3.0), k + 1) for k in range(4)], dtype=Body, requires_grad=True)
    group = Group(wp.indexedarray(bodies, [rows(3, 1)]), 0.5)
    out = wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(push, dim=2, inputs=[group], outputs=[out])
    assert out.numpy().tolist() == [8, 4]
    assert bodies.numpy()["pos"][:, 0].tolist() == [0, 2, 2, 5]
    assert wp.autograd.gradcheck_tape(tape, show_summary=False).verdict == "AGREE"
    assert tape.records[0].plan.names[:3] == (
        "group.chosen.data.pos",
        "group.chosen.data.mass",
        "group.chosen.indices[0]",
    )
    first = group.chosen.contiguous()
    assert first.numpy()["mass"].tolist() == group.chosen.numpy()["mass"].tolist()


@wp.kernel
def plain(x: wp.array2d(dtype=float)):
    x[0, 0] = 1.0


def message_of(act: Any) -> str:
    with pytest.raises((wp.ArrayError, wp.LaunchError)) as caught:
        act()
    lines = str(caught.value).splitlines()
    return "\n".join([lines[0], lines[-1].removeprefix("  = ")])


def test_messages() -> None:
    a, out = matrix(), wp.zeros(2)
    chosen = wp.indexedarray(a, [rows(1)])
    assert message_of(lambda: wp.indexedarray([1.0])) == (
        "indexedarray: the data must be an array; got [1.0]\nhint: pass array(…)"
    )
    assert message_of(lambda: wp.indexedarray(a, [None, None, None])) == (
        "indexedarray: 3 arrays of indices for data of shape (3, 4)\nhint: pass at most 2"
    )
    assert message_of(lambda: wp.indexedarray(a, [[3]])) == (
        "indexedarray: the index 3 lies outside axis 0 of data of shape (3, 4)\nhint: its indices are 0 to 2"
    )
    assert message_of(lambda: wp.indexedarray(a, [1.5])) == (
        "indexedarray: indices along axis 0 are an array of int32 or None; got 1.5\n"
        "hint: pass array([…], dtype=int)"
    )
    assert message_of(lambda: wp.indexedarray(a, [out])) == (
        "indexedarray: indices along axis 0 are a one-dimensional array of int32; "
        "got array(shape=(2,), dtype=float32)\nhint: make it with dtype=int"
    )
    assert message_of(lambda: chosen[0]) == (
        "indexedarray(shape=(1, 4), dtype=float32) is indexed in kernels only\n"
        "hint: index contiguous(), a copy, or data, the whole array"
    )
    assert message_of(lambda: chosen.assign(out)) == (
        "assign to an indexedarray(shape=(1, 4), dtype=float32): the source has shape (2,) "
        "and dtype float32\nhint: assign an array of the same shape and dtype"
    )
    assert message_of(lambda: wp.launch(plain, 1, [chosen])) == (
        "launch of plain: argument 'x' (number 1) must be array(dtype=float32, ndim=2); "
        "got indexedarray(dtype=float32, ndim=2) of shape (1, 4)\n"
        "hint: pass contiguous(), a copy, or annotate it as indexedarray(dtype=float32, ndim=2)"
    )
    assert message_of(lambda: wp.launch(mixed, 1, [a, out])) == (
        "launch of mixed: argument 'a' (number 1) must be indexedarray(dtype=float32, ndim=2); "
        "got array(dtype=float32, ndim=2) of shape (3, 4)\n"
        "hint: pass indexedarray(data, [indices, None]), or annotate `a` as array"
    )
    with pytest.raises(IndexError):
        wp.indexedarray(a, [wp.array([7], dtype=int)]).numpy()


def test_copies_and_arrays_like_an_indexed_one() -> None:
    data = wp.array(np.arange(12.0).reshape(4, 3), dtype=float)
    chosen = wp.indexedarray(data, [wp.array([3, 1], dtype=int), None])
    expected = [[9.0, 10.0, 11.0], [3.0, 4.0, 5.0]]
    dest = wp.zeros((2, 3), dtype=float)
    wp.copy(dest, chosen)
    assert dest.numpy().tolist() == wp.clone(chosen).numpy().tolist() == expected
    dest.zero_()
    dest.assign(chosen)
    assert dest.numpy().tolist() == expected
    other = wp.zeros((4, 3), dtype=float)
    target = wp.indexedarray(other, [wp.array([0, 2], dtype=int), None])
    target.assign(chosen)
    assert other.numpy()[[0, 2]].tolist() == expected
    wp.copy(chosen, wp.full_like(chosen, 7.0))
    assert data.numpy()[[3, 1]].tolist() == [[7.0] * 3] * 2
    assert wp.zeros_like(chosen).shape == wp.empty_like(chosen).shape == wp.ones_like(chosen).shape == (2, 3)
    assert isinstance(wp.ones_like(chosen), wp.array)
    with pytest.raises(wp.ArrayError) as caught:
        wp.copy(dest, chosen, count=1)
    assert str(caught.value) == (
        "copy: an indexed array is copied whole, to or from an array of its shape and dtype; got "
        f"dest={dest!r} and src={chosen!r} with dest_offset=0, src_offset=0, count=1\n"
        "  = hint: copy contiguous(), or select other elements"
    )
    with pytest.raises(wp.ArrayError, match="copy: src must be an array; got 3"):
        wp.copy(chosen, 3)  # type: ignore[arg-type]


def test_gradients_pass_through_copies_of_indexed_arrays() -> None:
    x = wp.array([1.0, 2.0, 3.0, 4.0], dtype=float, requires_grad=True)
    y = wp.zeros(4, dtype=float, requires_grad=True)
    rows = wp.array([2, 0], dtype=int)
    with wp.Tape() as tape:
        wp.copy(y[wp.array([3, 1], dtype=int)], wp.clone(x[rows]))
    tape.backward(grads={y: wp.array([1.0, 10.0, 100.0, 1000.0], dtype=float)})
    assert y.numpy().tolist() == [0.0, 1.0, 0.0, 3.0]
    assert x.grad.numpy().tolist() == [10.0, 0.0, 1000.0, 0.0]


def test_map_and_operators_take_indexed_arrays_as_inputs_and_results() -> None:
    x = wp.array([1.0, 2.0, 3.0, 4.0], dtype=float, requires_grad=True)
    chosen = x[rows(3, 1)]
    with wp.Tape() as tape:
        squares = wp.map(lambda a: a * a, chosen)
        wp.map(lambda a: a * 10.0, chosen, out=chosen)
        scaled = 2.0 * chosen
        chosen += 1.0
        total = scaled + squares - chosen
    assert isinstance(chosen, wp.indexedarray) and isinstance(scaled, wp.array)
    assert x.numpy().tolist() == [1.0, 21.0, 3.0, 41.0]
    tape.backward(grads={total: wp.ones(2)})
    assert x.grad.numpy().tolist() == [0.0, 20.0 + 4.0 - 10.0, 0.0, 20.0 + 8.0 - 10.0]
    with wp.Tape() as tape:
        x[rows(0)] += 2.0
    assert [record.name for record in tape.records] == ["map_add"]
    x[rows(1, 2)] = x[rows(0, 0)]
    assert x.numpy().tolist() == [3.0, 3.0, 3.0, 41.0]
    with pytest.raises(wp.ArrayError, match=r"map: out must be an array\(shape=\(2,\), dtype=float32\)"):
        wp.map(lambda a: a * a, chosen, out=x[rows(1, 2, 3)])
