"""Arrays: construction, views, values, and the messages where they do not fit."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tapedebug as wp
from tapedebug import _unsupported
from tapedebug._config import DEFAULTS


@pytest.mark.parametrize(
    ("data", "dtype", "shape", "kind"),
    [
        ([1, 2, 3], None, (3,), wp.int64),
        ([1.0, 2.0], None, (2,), wp.float64),
        ([True, False], None, (2,), wp.bool),
        (np.arange(3, dtype=np.float32), None, (3,), wp.float32),
        ([1, 2, 3], float, (3,), wp.float32),
        ([1.5, 2.5], int, (2,), wp.int32),
        (np.zeros((4, 3)), wp.vec3, (4,), wp.vec3),
        (np.zeros((2, 2, 3)), wp.vec3, (2, 2), wp.vec3),
        (np.zeros(12), wp.vec3, (4,), wp.vec3),
        (np.zeros(3), wp.vec3, (1,), wp.vec3),
        ([wp.vec3(1, 2, 3)], wp.vec3, (1,), wp.vec3),
        ([], float, (0,), wp.float32),
        ([], wp.vec3, (0,), wp.vec3),
        (np.zeros((2, 3)), float, (2, 3), wp.float32),
    ],
)
def test_construction_infers_shape_and_dtype_as_the_documents_do(data, dtype, shape, kind):
    a = wp.array(data, dtype=dtype)
    assert a.shape == shape
    assert a.dtype is kind
    assert a.ndim == len(shape)
    assert a.size == int(np.prod(shape))
    assert len(a) == shape[0]
    assert a.is_contiguous
    assert a.device == "cpu"
    assert a.ptr % 4 == 0


def test_a_shape_reshapes_the_data():
    a = wp.array(np.arange(6.0), dtype=float, shape=(2, 3))
    assert a.shape == (2, 3)
    assert a.strides == (12, 4)
    np.testing.assert_array_equal(a.numpy(), [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (wp.array(dtype=float), "array(dtype=float32)"),
        (wp.array(dtype=wp.vec3, ndim=2), "array(dtype=vec3, ndim=2)"),
        (wp.array[float], "array(dtype=float32)"),
        (wp.array1d(dtype=int), "array(dtype=int32)"),
        (wp.array2d[bool], "array(dtype=bool, ndim=2)"),
        (wp.array3d(dtype=float), "array(dtype=float32, ndim=3)"),
        (wp.array4d[wp.vec2], "array(dtype=vec2, ndim=4)"),
    ],
)
def test_annotations(annotation, text):
    assert repr(annotation) == text


def test_repr_and_str():
    assert repr(wp.zeros(3)) == "array(shape=(3,), dtype=float32)"
    assert repr(wp.zeros((2, 2), dtype=wp.vec3)) == "array(shape=(2, 2), dtype=vec3)"
    assert str(wp.array([1.0, 2.5], dtype=float)) == "[1.  2.5]"


def test_factories_and_likes():
    assert wp.zeros(3).numpy().tolist() == [0, 0, 0]
    assert wp.ones((2, 2), dtype=int).numpy().tolist() == [[1, 1], [1, 1]]
    assert wp.full(2, 2.5).numpy().tolist() == [2.5, 2.5]
    assert wp.full(2, 2).dtype is wp.int32
    assert wp.full(2, True).dtype is wp.bool
    assert wp.full(2, wp.vec3(1, 2, 3)).numpy().tolist() == [[1, 2, 3], [1, 2, 3]]
    for matrix in (np.eye(2, dtype=np.float32), [[1.0, 0], [0, 1.0]]):
        assert wp.full(1, matrix).dtype is wp.mat22 and wp.full(1, matrix).numpy().tolist() == [
            [[1, 0], [0, 1]]
        ]
    assert wp.full(1, np.array([1, 2, 3], np.int16)).dtype is wp.vec3s
    assert wp.array(np.ones((4, 0, 3)), dtype=wp.vec3).shape == (4, 0)
    assert wp.array(np.ones((2, 3, 1)), dtype=wp.vec3).numpy().tolist() == [[1, 1, 1], [1, 1, 1]]
    assert wp.full(2, (1.0, 2.0), dtype=wp.vec2).list() == [wp.vec2(1, 2), wp.vec2(1, 2)]
    source = wp.array(np.ones((2, 3)), dtype=float, requires_grad=True)
    for like in (
        wp.zeros_like(source),
        wp.ones_like(source),
        wp.empty_like(source),
        wp.full_like(source, 4.0),
    ):
        assert (like.shape, like.dtype, like.requires_grad) == ((2, 3), wp.float32, True)
    assert not wp.zeros_like(source, requires_grad=False).requires_grad
    assert wp.from_numpy(np.zeros((4, 3), np.float32), dtype=wp.vec3).shape == (4,)


def test_views_share_memory_and_gradient():
    a = wp.array(np.arange(12.0).reshape(3, 4), dtype=float, requires_grad=True)
    row, column, part = a[1], a[:, 1], a[1:, ::2]
    assert (row.shape, row.strides, row.is_contiguous) == ((4,), (4,), True)
    assert (column.shape, column.strides, column.is_contiguous) == ((3,), (16,), False)
    assert (part.shape, part.strides) == ((2, 2), (16, 8))
    assert a[..., 0].numpy().tolist() == [0, 4, 8]
    assert a[::-1].numpy()[0].tolist() == [8, 9, 10, 11]
    assert a[-1].numpy().tolist() == [8, 9, 10, 11]
    assert a[0:0].shape == (0, 4)
    column.fill_(7)
    assert a.numpy()[:, 1].tolist() == [7, 7, 7]
    assert row.requires_grad
    row.grad.fill_(2)
    assert a.grad.numpy().tolist() == [[0] * 4, [2] * 4, [0] * 4]
    flat = a.flatten()
    assert flat.shape == (12,)
    assert flat.buffer is a.buffer
    assert a.reshape((2, -1)).shape == (2, 6)
    assert a.transpose().strides == (4, 16)
    assert a.transpose((1, 0)).shape == (4, 3)
    bits = a.view(int)
    assert bits.dtype is wp.int32
    assert bits.ptr == a.ptr
    assert column.contiguous().is_contiguous
    assert column.contiguous().buffer is not a.buffer
    assert a.contiguous() is a


def test_elements():
    a = wp.array(np.arange(6.0).reshape(2, 3), dtype=float)
    assert a[1, 2] == 5.0
    assert [v for v in a[0]] == [0, 1, 2]
    v = wp.array([[1, 2, 3], [4, 5, 6]], dtype=wp.vec3)
    assert v[1] == wp.vec3(4, 5, 6)
    assert v.list() == [wp.vec3(1, 2, 3), wp.vec3(4, 5, 6)]
    assert wp.array([1, 2], dtype=int).list() == [1, 2]


def test_setting_items_copies_and_fills():
    a = wp.zeros((3, 4))
    a[0] = 5
    a[1, 2] = 7
    a[2, 1:3] = [8, 9]
    assert a.numpy().tolist() == [[5, 5, 5, 5], [0, 0, 7, 0], [0, 8, 9, 0]]
    v = wp.zeros(2, dtype=wp.vec3)
    v[1] = wp.vec3(1, 2, 3)
    v[0] = (4, 5, 6)
    assert v.numpy().tolist() == [[4, 5, 6], [1, 2, 3]]


def test_numpy_shares_memory_and_is_counted_while_it_lives():
    a = wp.zeros(4)
    view = a.numpy()
    view[1] = 3
    assert a.numpy().tolist() == [0, 3, 0, 0]
    part = view[1:]
    assert a.buffer.windows == 1
    del view
    assert a.buffer.windows == 1
    del part
    assert a.buffer.windows == 0
    other = np.asarray(a)
    assert a.buffer.windows == 1
    other[0] = 9
    assert a[0] == 9
    del other
    assert a.buffer.windows == 0


def test_numpy_keeps_the_memory_alive():
    a = wp.ones(4)
    view = a.numpy()
    gone = weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None
    assert view.tolist() == [1, 1, 1, 1]


def test_copy_false_shares_numpy_memory_and_knows_it_again():
    values = np.zeros((4, 3), np.float32)
    a = wp.array(values, dtype=wp.vec3, copy=False)
    a.fill_(2)
    assert values.tolist() == [[2, 2, 2]] * 4
    part = wp.array(values[1:], dtype=wp.vec3, copy=False)
    assert part.buffer is a.buffer
    again = wp.array(a.numpy(), dtype=wp.vec3, copy=False)
    assert again.buffer is a.buffer
    pointed = wp.array(ptr=a.ptr, shape=2, dtype=wp.vec3)
    assert pointed.buffer is a.buffer
    copied = wp.array(np.zeros(3), dtype=float, copy=False)  # float64 data cannot be shared
    assert copied.shape == (3,)


def test_negative_strides_are_shared_too():
    values = np.arange(4, dtype=np.float32)
    a = wp.array(values[::-1], copy=False)
    assert a.strides == (-4,)
    a[0:1].fill_(9)
    assert values.tolist() == [0, 1, 2, 9]


def test_arrays_are_keys_by_identity():
    a, b = wp.zeros(2), wp.zeros(2)
    assert {a: 1, b: 2}[a] == 1
    assert a == a
    assert a != b


def test_grad():
    a = wp.zeros(3, dtype=wp.vec3, requires_grad=True)
    assert a.grad.shape == (3,)
    assert a.grad.dtype is wp.vec3
    assert a.grad is a.grad
    assert wp.zeros(3).grad is None
    given = wp.ones(3, dtype=wp.vec3)
    a.grad = given
    assert a.grad is given
    a[1:].grad = wp.full(2, wp.vec3(5, 5, 5))
    assert given.numpy()[:, 0].tolist() == [1, 5, 5]
    a.grad = None
    assert not a.requires_grad
    b = wp.array([1.0], dtype=float, grad=wp.array([4.0], dtype=float))
    assert b.requires_grad
    assert b.grad.numpy().tolist() == [4]


def test_copy_with_offsets():
    a, b = wp.array(np.arange(6.0), dtype=float), wp.zeros(6)
    wp.copy(b, a, dest_offset=2, src_offset=1, count=3)
    assert b.numpy().tolist() == [0, 0, 1, 2, 3, 0]
    wp.copy(b, a[0:2])
    assert b.numpy().tolist() == [0, 1, 1, 2, 3, 0]
    square = wp.zeros((2, 3))
    wp.copy(square, a)
    assert square.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    wp.copy(a[1:], a[:5])  # overlapping: as if through a temporary
    assert a.numpy().tolist() == [0, 0, 1, 2, 3, 4]


def test_clone_and_assign():
    a = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    b = wp.clone(a)
    assert b.requires_grad
    assert b.buffer is not a.buffer
    assert not wp.clone(a, requires_grad=False).requires_grad
    b.assign([5, 6])
    assert b.numpy().tolist() == [5, 6]
    b.assign(a)
    assert b.numpy().tolist() == [1, 2]
    strided = wp.clone(wp.array(np.arange(4.0).reshape(2, 2), dtype=float)[:, 1])
    assert strided.is_contiguous
    assert strided.numpy().tolist() == [1, 3]


GRID = wp.zeros((3, 4), requires_grad=True)
VECTORS = wp.zeros(2, dtype=wp.vec3)


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (
            lambda: wp.array(5.0),
            wp.ArrayError,
            "array: data must be a sequence or an array; got 5.0\n"
            "  = hint: write [5.0] for an array of one element",
        ),
        (
            lambda: wp.array([[1], [2, 3]], dtype=float),
            wp.ArrayError,
            "array: the data cannot become an array of float32: setting an array element with a sequence. "
            "The requested "
            "array has an inhomogeneous shape after 1 dimensions. The detected shape was (2,) + "
            "inhomogeneous part.\n"
            "  = hint: pass rows of equal length and numbers in the range of the dtype",
        ),
        (
            lambda: wp.array(["a"]),
            wp.ArrayError,
            "array: data of NumPy dtype <U1 has no type in the kernel language (bool, int8, uint8, "
            "int16, uint16, int32, uint32, int64, uint64, float16, bfloat16, float32, float64)\n"
            "  = hint: pass dtype=, or convert the data first",
        ),
        (
            lambda: wp.array([2**40], dtype=int),
            wp.ArrayError,
            "array: the data cannot become an array of int32: Python integer 1099511627776 out of bounds "
            "for int32\n"
            "  = hint: pass rows of equal length and numbers in the range of the dtype",
        ),
        (
            lambda: wp.array(np.zeros((4, 2)), dtype=wp.vec3),
            wp.ArrayError,
            "array: data of shape (4, 2) cannot be elements of vec3: its last dimension, 2, is not a "
            "multiple of 3\n"
            "  = hint: pass data of shape (…, 3)",
        ),
        (
            lambda: wp.array(np.zeros(6), dtype=float, shape=5),
            wp.ArrayError,
            "array: 6 values of shape (6,) do not fill shape (5,) of float32\n"
            "  = hint: pass a shape with as many elements as the data",
        ),
        (
            lambda: wp.zeros(-3),
            wp.ArrayError,
            "zeros: sizes cannot be negative; got shape (-3,)\n  = hint: pass sizes of 0 or more",
        ),
        (
            lambda: wp.zeros((1, 1, 1, 1, 1)),
            wp.ArrayError,
            "zeros: arrays have 1 to 4 dimensions; shape (1, 1, 1, 1, 1) has 5\n"
            "  = hint: flatten some dimensions, or use a vector dtype for the last one",
        ),
        (
            lambda: wp.zeros(2.5),
            wp.ArrayError,
            "zeros: a shape is an int or a tuple of ints; got 2.5\n  = hint: pass integers",
        ),
        (
            lambda: wp.zeros(3, device="cuda:0"),
            wp.DeviceError,
            "there is no device 'cuda:0': this version runs on \"cpu\" only (CUDA is planned)\n"
            '  = hint: leave device= out, pass device="cpu", or set config.cuda_on_cpu = True '
            "(--cuda-on-cpu)",
        ),
        (
            lambda: wp.array([1.0], device="tpu"),
            wp.DeviceError,
            "there is no device 'tpu': the devices are \"cpu\"\n"
            '  = hint: leave device= out, or pass device="cpu"',
        ),
        (
            lambda: wp.array([1.0], retain_grad=True),
            wp.ArrayError,
            "array: retain_grad=True needs requires_grad=True\n  = hint: pass requires_grad=True too",
        ),
        (
            lambda: wp.array2d([1.0]),
            wp.ArrayError,
            "array2d: the data has 1 dimensions (shape (1,))\n  = hint: reshape the data, or use array()",
        ),
        (
            lambda: GRID.reshape(5),
            wp.ArrayError,
            "reshape: an array of shape (3, 4) (12 elements) has no shape (5,)\n"
            "  = hint: keep the number of elements",
        ),
        (
            lambda: GRID[:, 1].flatten(),
            wp.ArrayError,
            "reshape: the array of shape (3,) with strides (16,) is not contiguous\n"
            "  = hint: call contiguous() first (it copies)",
        ),
        (
            lambda: GRID.view(wp.vec3),
            wp.ArrayError,
            "view: vec3 has 12 bytes, float32 has 4 (shape (3, 4), strides (16, 4))\n"
            "  = hint: view as a type of the same size, vectors as scalars, or scalars side by side in a "
            "last "
            "dimension of a vector's length as vectors",
        ),
        (
            lambda: GRID.fill_("a"),
            wp.ArrayError,
            "fill_ of an array(shape=(3, 4), dtype=float32): 'a' is not a value of float32\n"
            "  = hint: pass a number",
        ),
        (
            lambda: wp.zeros(3, dtype=int).fill_(2.5),
            wp.ArrayError,
            "fill_ of an array(shape=(3,), dtype=int32): 2.5 is not a value of int32\n"
            "  = hint: pass a whole number in its range",
        ),
        (
            lambda: wp.full(3, 300, dtype=wp.uint8),
            wp.ArrayError,
            "full: 300 is not a value of uint8\n  = hint: pass a whole number in its range",
        ),
        (
            lambda: wp.full(3, (1, -1), dtype=wp.vec2ub),
            wp.ArrayError,
            "full: (1, -1) is not a value of vec2ub\n  = hint: pass 2 whole numbers in its range",
        ),
        (
            lambda: VECTORS.fill_([1, 2]),
            wp.ArrayError,
            "fill_ of an array(shape=(2,), dtype=vec3): [1, 2] is not a value of vec3\n  = hint: pass 3 "
            "numbers",
        ),
        (
            lambda: GRID.assign([1, 2]),
            wp.ArrayError,
            "assign to an array(shape=(3, 4), dtype=float32): 2 values of shape (2,) do not fill shape "
            "(3, 4) of "
            "float32\n  = hint: pass a shape with as many elements as the data",
        ),
        (
            lambda: GRID.assign(wp.zeros(3)),
            wp.ArrayError,
            "assign to an array(shape=(3, 4), dtype=float32): the source has shape (3,) (3 elements)\n"
            "  = hint: assign as many elements as the array has",
        ),
        (
            lambda: wp.copy(GRID, VECTORS),
            wp.ArrayError,
            "copy: dest has dtype float32, src has vec3\n  = hint: use arrays of one dtype",
        ),
        (
            lambda: wp.copy(GRID, [1, 2]),
            wp.ArrayError,
            "copy: src must be an array; got [1, 2] (list)\n  = hint: pass two arrays",
        ),
        (
            lambda: wp.copy(GRID[0], GRID[1], dest_offset=3),
            wp.ArrayError,
            "copy: 4 elements from offset 3 do not fit dest of shape (4,)\n"
            "  = hint: pass a smaller count or offset",
        ),
        (
            lambda: wp.copy(GRID, GRID, count=-1),
            wp.ArrayError,
            "copy: offsets and count cannot be negative; got dest_offset=0, src_offset=0, count=-1\n"
            "  = hint: pass 0 or more",
        ),
        (
            lambda: wp.copy(wp.zeros(6), wp.zeros((3, 4))[:, :2]),
            wp.ArrayError,
            "copy: src of shape (3, 2) is not contiguous: it has no elements in a row to copy\n"
            "  = hint: copy between arrays of one shape, or slice first",
        ),
        (
            lambda: wp.zeros_like(3),
            wp.ArrayError,
            "zeros_like: 3 is not an array\n  = hint: pass an array, or use zeros(shape, dtype)",
        ),
        (
            lambda: setattr(GRID, "grad", VECTORS),
            wp.ArrayError,
            "the gradient of an array(shape=(3, 4), dtype=float32) must be an array of the same shape and "
            "dtype; got "
            "array(shape=(2,), dtype=vec3)\n"
            "  = hint: pass zeros_like(array), or an array made from data of that shape and dtype",
        ),
        (lambda: GRID[5], IndexError, "index 5 is out of range for dimension 0 of an array of shape (3, 4)"),
        (lambda: GRID[0, 0, 0], IndexError, "3 indices for an array of 2 dimensions (shape (3, 4))"),
        (lambda: GRID["x"], TypeError, "an array is indexed by ints and slices; got 'x'"),
        (
            lambda: wp.array(np.broadcast_to(np.float32(1), (3,)), copy=False),
            wp.ArrayError,
            "array: copy=False needs a writable NumPy array\n  = hint: pass copy=True",
        ),
    ],
)
def test_messages(action, error, message):
    before = GRID.numpy().copy()
    with pytest.raises(error) as caught:
        action()
    assert str(caught.value) == message
    np.testing.assert_array_equal(GRID.numpy(), before)


def test_config_refuses_unknown_names_and_values():
    with pytest.raises(AttributeError) as caught:
        wp.config.quite = True
    assert str(caught.value) == (
        f"tapedebug.config has no setting 'quite'; did you mean 'quiet'? (settings: {', '.join(DEFAULTS)})"
    )
    with pytest.raises(
        ValueError, match=r"config\.on_overwrite is one of preserve, warn, error, ignore; got 'keep'"
    ):
        wp.config.on_overwrite = "keep"
    assert wp.config.on_overwrite == "preserve"


def test_unknown_names_of_the_package(monkeypatch):
    monkeypatch.setattr(_unsupported, "running_command", lambda: "cloth.py")
    keep = (
        "Keep Warp as the engine of the program (`import warp as wp`) and watch it: `tapedebug run cloth.py`"
    )
    spatial = (
        "exists in NVIDIA Warp only: meshes, BVHs, hash grids, volumes, textures, tiles, sparse matrices and "
        f"finite elements are not rebuilt here. {keep}"
    )
    other = f"exists in NVIDIA Warp only: recording and debugging gradients does not need it. {keep}"
    for name, message in {
        "launch_tiled": f"tapedebug.launch_tiled {spatial}",
        "fem": f"tapedebug.fem {spatial}",
        "Mesh": f"tapedebug.Mesh {spatial}",
        "mesh_query_point": f"tapedebug.mesh_query_point {spatial}",
        "capture_save": f"tapedebug.capture_save {other}",
        "launhc": "tapedebug has no name 'launhc'; did you mean 'launch'?",
        "zzz": "tapedebug has no name 'zzz'",
    }.items():
        with pytest.raises(AttributeError) as caught:
            getattr(wp, name)
        assert str(caught.value) == message
    assert not hasattr(wp, "__wrapped__")


def test_devices():
    assert wp.get_device().alias == "cpu"
    assert wp.get_device("cpu") == wp.get_device()
    assert wp.get_devices() == [wp.get_device()]
    assert wp.is_cpu_available()
    assert not wp.is_cuda_available()
    assert wp.get_cuda_device_count() == 0
    with wp.ScopedDevice("cpu") as device:
        assert str(device) == "cpu"
    wp.init()
    wp.set_device("cpu")
    wp.synchronize()
    wp.synchronize_device("cpu")


def test_an_empty_array_has_an_address_for_numpy() -> None:
    """NumPy before 2.4 takes the address 0 for no interface at all."""
    values = wp.zeros(0, dtype=wp.vec3).numpy()
    assert values.shape == (0, 3)
    assert values.base.__array_interface__["data"][0] != 0
