"""Memory that somebody else owns or shares: pointers, NumPy arrays, DLPack; copies and pickles of arrays."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import threading
import warnings
import weakref

import numpy as np
import pytest

import tapedebug as wp
from tests.runtime.kernels import move, scale, square


@pytest.fixture(autouse=True)
def _collected():
    """Arrays over memory that is gone go, too, before the next test gets that memory."""
    yield
    gc.collect()


@wp.struct
class Pair:
    a: float
    b: wp.vec2


def _floats(*values):
    return (ctypes.c_float * len(values))(*values)


def test_a_pointer_with_shape_strides_and_capacity():
    memory = _floats(*range(12))
    a = wp.array(ptr=ctypes.addressof(memory), shape=(2, 3), strides=(24, 8), dtype=float, capacity=48)
    assert a.numpy().tolist() == [[0, 2, 4], [6, 8, 10]]
    assert (a.capacity, a.pinned, a.is_contiguous) == (24, False, False)
    assert a.buffer.nbytes == 48
    a.fill_(7)
    assert list(memory)[:4] == [7, 1, 7, 3]
    v = wp.from_ptr(ctypes.addressof(memory), 4, dtype=wp.vec3)
    assert v.shape == (4,)
    assert v.buffer is a.buffer


def test_the_deleter_runs_when_nothing_uses_the_memory():
    memory, calls = _floats(1, 2, 3), []
    address = ctypes.addressof(memory)
    a = wp.array(
        ptr=address, shape=3, dtype=float, requires_grad=True, deleter=lambda p, n: calls.append((p, n))
    )
    view, kept = a[1:], a.numpy()
    del a
    gc.collect()
    assert calls == []
    del view
    gc.collect()
    assert calls == []
    assert kept.tolist() == [1, 2, 3]
    del kept
    gc.collect()
    assert calls == [(address, 12)]


def _recorded_over_numpy():
    owned = np.arange(4, dtype=np.float32)
    part, y = wp.array(owned, copy=False, requires_grad=True)[1:3], wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[part], outputs=[y])
    return tape, y, weakref.ref(owned)


def test_memory_of_an_owner_is_kept_alive_by_views_and_tapes():
    tape, y, owner = _recorded_over_numpy()
    gc.collect()
    assert owner() is not None
    tape.backward(grads={y: wp.ones(2)})
    del tape, y
    gc.collect()
    assert owner() is None


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: wp.array(ptr=64, dtype=float), "array: ptr= needs a shape\n  = hint: pass shape="),
        (
            lambda: wp.array(ptr="x", shape=2, dtype=float),
            "array: ptr is an address, an int; got 'x'\n  = hint: pass array.ptr or data_ptr()",
        ),
        (
            lambda: wp.array(ptr=64, shape=(2, 3), strides=(4,), dtype=float),
            "array: strides are one number of bytes for each dimension of shape (2, 3); got (4,)\n"
            "  = hint: leave strides out for contiguous memory",
        ),
        (
            lambda: wp.array(ptr=64, shape=2, strides=(6,), dtype=float),
            "array: strides of float32 are multiples of 4 bytes; got (6,)\n"
            "  = hint: strides count bytes, not elements",
        ),
        (
            lambda: wp.array(ptr=64, shape=4, dtype=wp.vec3, capacity=40),
            "array: shape (4,) of vec3 needs 48 bytes; capacity is 40\n"
            "  = hint: pass a smaller shape, or the size of the memory",
        ),
        (
            lambda: wp.from_dlpack([1.0]),
            "from_dlpack: list has no __dlpack__\n  = hint: pass a tensor, or a capsule",
        ),
        (
            lambda: wp.from_dlpack(np.zeros(4, np.complex64)),
            "from_dlpack: elements of complex64 have no type in the kernel language\n"
            "  = hint: convert them first",
        ),
        (
            lambda: wp.from_dlpack(np.zeros(4), dtype=float),
            "from_dlpack: elements of float64 are not those of float32\n"
            "  = hint: convert the tensor first, or pass another dtype",
        ),
        (
            lambda: wp.from_dlpack(np.zeros((4, 2), np.float32), dtype=wp.vec3),
            "from_dlpack: shape (4, 2) with strides (8, 4) holds no vec3: its last dimensions must be (3,), "
            "side by side\n  = hint: pass a contiguous tensor of shape (…, 3)",
        ),
        (
            lambda: wp.from_dlpack(np.ones((), np.float32)),
            "from_dlpack: a tensor without dimensions is no array\n"
            "  = hint: pass tensor.reshape(1), which shares its memory",
        ),
        (
            lambda: wp.to_dlpack(wp.zeros(4)[::-1]),
            "an array with negative strides (-4,) cannot be shared through DLPack\n"
            "  = hint: share contiguous(), which is a copy",
        ),
        (
            lambda: wp.to_dlpack(wp.zeros(4, dtype=Pair)),
            "an array of Pair cannot be shared through DLPack, which has no structs\n"
            "  = hint: share the arrays of its fields",
        ),
    ],
)
def test_messages(action, message):
    with pytest.raises(wp.ArrayError) as caught:
        action()
    assert str(caught.value) == message


# Memory with two names ------------------------------------------------------------------------------------


def test_a_pointer_into_an_array_is_a_view_of_it():
    """Versions and gradients belong to memory: an overwrite through the pointer is preserved."""
    a = wp.array([1.0, 2.0, 3.0, 4.0], dtype=float, requires_grad=True)
    alias = wp.array(ptr=a.ptr + 4, shape=2, dtype=float, requires_grad=True)
    y = wp.zeros(4, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 4, inputs=[a], outputs=[y])
        alias.fill_(9)
    tape.backward(grads={y: wp.ones(4)})
    assert a.grad.numpy().tolist() == [2, 4, 6, 8]
    assert alias.grad.numpy().tolist() == [4, 6]
    assert tape.preserved_bytes == 16


def test_memory_that_overlaps_in_part_is_said_and_watched():
    memory = np.arange(1, 7, dtype=np.float32)
    first = wp.array(ptr=memory.ctypes.data, shape=4, dtype=float, requires_grad=True)
    with pytest.warns(wp.TapedebugWarning) as caught:
        second = wp.array(ptr=memory.ctypes.data + 8, shape=4, dtype=float, requires_grad=True)
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message) == (
        f"the memory of this array (16 bytes at {memory.ctypes.data + 8:#x}) overlaps that of another array "
        f"(16 bytes at {memory.ctypes.data:#x}) in part: tapes see what is written through the other, but "
        "gradients do not pass from one to the other; make the array of the whole memory first"
    )
    y = wp.zeros(4, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 4, inputs=[first], outputs=[y])
        wp.launch(scale, 4, inputs=[y, second, 10.0])
    tape.backward(grads={y: wp.ones(4)})
    assert first.grad.numpy().tolist() == [2, 4, 6, 8]
    assert [(event.how, event.at) for event in tape.outside] == [("numpy", 2)]
    assert tape.replay(dtype=wp.float64).backward({y: np.ones(4)}).gradient(first).tolist() == [2, 4, 6, 8]


def test_our_own_memory_overlapped_from_outside_is_watched_while_the_other_lives():
    a = wp.ones(4, requires_grad=True)
    with pytest.warns(wp.TapedebugWarning, match="overlaps that of another array"):
        other = wp.array(ptr=a.ptr + 8, shape=4, dtype=float)
    assert a.buffer.windows == 1
    del other
    assert a.buffer.windows == 0


def test_numpy_arrays_are_known_again_by_their_memory():
    memory = np.zeros(8, np.float32)
    a = wp.array(memory, copy=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for other in (
            memory[2:4],
            np.asarray(memoryview(memory)[1:5]),
            np.frombuffer(memory.data, np.float32),
        ):
            assert wp.array(other, copy=False).buffer is a.buffer


def _through_numpy(a):
    return a.numpy()


def _through_interface(a):
    return np.asarray(a)


def _through_dlpack(a):
    return np.from_dlpack(a)


@pytest.mark.parametrize("share", [_through_numpy, _through_interface, _through_dlpack])
@pytest.mark.parametrize("opened", ["before", "during", "briefly"])
def test_writes_by_others_between_recording_and_backward_are_found(share, opened):
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros(3, requires_grad=True)
    view = share(x) if opened == "before" else None
    with wp.Tape() as tape:
        wp.launch(square, 3, inputs=[x], outputs=[y])
        view = share(x) if view is None else view
        view[1] = 50
        if opened == "briefly":
            del view
    assert not tape.outside or opened == "briefly"
    tape.backward(grads={y: wp.ones(3)})
    assert x.grad.numpy().tolist() == [2, 4, 6]
    assert [event.how for event in tape.outside] == ["numpy"]
    assert tape.preserved_bytes == 12


def test_opening_another_view_hides_no_write():
    """A change through an earlier view counts, also if a later view is opened and closed in between."""
    x, y = wp.ones(4, requires_grad=True), wp.zeros(4, requires_grad=True)
    view = x.numpy()
    with wp.Tape() as tape:
        wp.launch(move, 4, inputs=[y], outputs=[x])  # x comes from the tape: nothing needs it yet
        view[0] = 5
        x.numpy()
        wp.launch(square, 4, inputs=[x], outputs=[y])
    assert [(event.how, event.at) for event in tape.outside] == [("numpy", 1)]
    assert tape.replay().matches_live()


# DLPack ---------------------------------------------------------------------------------------------------


def test_dlpack_both_ways_shares_memory():
    a = wp.zeros(2, dtype=wp.mat33)
    there = np.from_dlpack(a)
    assert there.shape == (2, 3, 3)
    assert a.__dlpack_device__() == (1, 0)
    there[1, 2, 2] = 4
    assert a.numpy()[1, 2, 2] == 4
    assert np.from_dlpack(wp.ones(2, dtype=wp.vec2h)).dtype == np.float16
    back = wp.from_dlpack(there, dtype=wp.mat33)
    assert (back.buffer, back.shape, back.dtype) == (a.buffer, (2,), wp.mat33)
    assert wp.from_dlpack(wp.to_dlpack(a)).shape == (2, 3, 3)
    foreign = np.arange(6, dtype=np.int32).reshape(2, 3)
    b = wp.from_dlpack(foreign.T)
    assert (b.shape, b.strides, b.dtype) == ((3, 2), (4, 12), wp.int32)
    b.fill_(1)
    assert foreign.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert wp.from_dlpack(np.zeros(3, np.int32), dtype=wp.uint32).dtype is wp.uint32


def test_a_capsule_counts_as_long_as_it_lives():
    a = wp.zeros(3)
    capsule = wp.to_dlpack(a)
    assert a.buffer.windows == 1
    back = wp.from_dlpack(capsule)
    del capsule, back
    gc.collect()
    assert a.buffer.windows == 0


# Types and shapes -----------------------------------------------------------------------------------------


def test_views_regroup_components():
    v = wp.array(np.arange(12.0), dtype=wp.vec3, requires_grad=True)
    numbers = v.view(float)
    assert (numbers.shape, numbers.strides) == ((4, 3), (12, 4))
    assert numbers.view(wp.vec3).shape == (4,)
    assert v.view(wp.uint32).shape == (4, 3)
    assert wp.zeros((2, 3, 3)).view(wp.mat33).shape == (2,)
    assert wp.zeros(3).view(wp.vec3).shape == (1,)
    assert wp.zeros((4, 6))[:, :3].view(wp.vec3).strides == (24,)
    assert wp.zeros(3, dtype=wp.vec4).view(wp.quat).shape == (3,)
    numbers.grad.fill_(2)
    assert v.grad.numpy()[0].tolist() == [2, 2, 2]
    for wrong in (lambda: wp.zeros((3, 2))[:, ::2].view(wp.vec2), lambda: v.view(wp.vec2)):
        with pytest.raises(wp.ArrayError, match="view: vec2 has 8 bytes"):
            wrong()


def test_from_numpy_takes_rows_as_vectors():
    assert wp.from_numpy(np.zeros(3)).dtype is wp.float64
    assert wp.from_numpy(np.zeros((2, 3), np.float32)).dtype is wp.vec3
    assert wp.from_numpy(np.zeros((2, 3, 3), np.float32)).dtype is wp.mat33
    assert wp.from_numpy(np.zeros((2, 3)), dtype=float).shape == (2, 3)
    assert wp.from_numpy(np.zeros((2, 3)), shape=6).shape == (6,)
    assert wp.from_numpy(np.zeros((2, 3, 4, 5))).shape == (2, 3, 4, 5)
    kept = wp.from_numpy(np.zeros(3), requires_grad=True, retain_grad=True)
    assert kept.requires_grad
    assert kept.retain_grad


def test_is_transposed():
    a = wp.zeros((2, 3))
    assert not a.is_transposed
    assert a.transpose().is_transposed
    assert wp.zeros(3).is_transposed


# Copies, pickles, threads ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [
        wp.float32,
        wp.bool,
        wp.uint8,
        wp.vec3,
        wp.types.matrix((2, 5), wp.float64),
        wp.quat,
        wp.vec3i,
        wp.transform,
    ],
)
def test_copies_and_pickles(dtype):
    a = wp.ones((2, 3), dtype=dtype)
    for made in (copy.deepcopy(a), pickle.loads(pickle.dumps(a)), copy.deepcopy({"a": a})["a"]):
        assert (made.dtype, made.shape, made.requires_grad) == (a.dtype, a.shape, False)
        assert made.buffer is not a.buffer
        np.testing.assert_array_equal(made.numpy(), a.numpy())
    assert copy.copy(a).buffer is a.buffer


@pytest.mark.parametrize(
    "value",
    [
        wp.vec3(1, 2, 3),
        wp.types.vector(7, wp.float64)(*range(7)),
        wp.mat22(1, 2, 3, 4),
        wp.quat(0, 0, 0, 1),
        wp.transform(wp.vec3(1, 2, 3), wp.quat(0, 0, 0, 1)),
        wp.vec2i(1, 2),
    ],
)
def test_copies_of_values(value):
    for made in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert type(made) is type(value)
        assert made == value
        assert made is not value


def test_copies_of_structs():
    a = wp.zeros(2, dtype=Pair)
    a.fill_(Pair(a=1.0, b=wp.vec2(2, 3)))
    for made in (copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert made.dtype is Pair
        assert made[1].b == wp.vec2(2, 3)


def test_copies_take_their_gradient_along():
    a = wp.array([1.0, 2.0], dtype=float, requires_grad=True, retain_grad=True)
    a.grad.fill_(3)
    made = pickle.loads(pickle.dumps(a[::-1]))
    assert made.numpy().tolist() == [2, 1]
    assert made.is_contiguous
    assert made.retain_grad
    assert made.grad.numpy().tolist() == [3, 3]
    assert made.grad.buffer is not a.grad.buffer


def test_threads_make_share_and_drop_views():
    memory = np.zeros(64, np.float32)
    first = wp.array(memory, copy=False)
    errors = []

    def work():
        try:
            for i in range(200):
                a = wp.array(memory[i % 32 :], copy=False)
                assert a.buffer is first.buffer
                a.numpy()[0] += 1
                wp.zeros(8).fill_(2)
        except Exception as error:  # pragma: no cover - what the assertion below reports
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert first.buffer.windows == 1
