"""Memory shared with PyTorch: tensors both ways, gradients, and a function of PyTorch's autograd."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import tapedebug as wp
from tests.runtime.kernels import square, total

torch = pytest.importorskip("torch")


def test_tensors_and_arrays_share_memory():
    t = torch.arange(6.0).reshape(2, 3)
    a = wp.from_torch(t)
    assert (a.shape, a.dtype, a.requires_grad) == ((2, 3), wp.float32, False)
    a.fill_(4)
    assert t.tolist() == [[4, 4, 4], [4, 4, 4]]
    assert wp.from_torch(t, dtype=wp.vec3, return_ctype=True).shape == (2,)
    assert wp.from_torch(t.T).strides == (4, 12)
    assert wp.from_torch(torch.zeros(2, 3, 3), dtype=wp.mat33).shape == (2,)
    assert wp.from_torch(torch.zeros(3, dtype=torch.int32), dtype=wp.uint32).dtype is wp.uint32
    assert wp.from_torch(torch.ones(1).expand(3)).numpy().tolist() == [1, 1, 1]
    back = wp.to_torch(wp.zeros(2, dtype=wp.mat33))
    assert (back.shape, back.dtype, back.requires_grad) == ((2, 3, 3), torch.float32, False)
    assert wp.to_torch(a).data_ptr() == t.data_ptr()


def test_slices_of_a_tensor_are_slices_of_one_memory():
    storage = torch.zeros(8)
    tail, head = wp.from_torch(storage[4:]), wp.from_torch(storage[:6])
    assert tail.buffer is head.buffer
    a = wp.zeros(4)
    assert wp.from_torch(wp.to_torch(a)[1:]).buffer is a.buffer


def test_gradients_are_shared():
    t = torch.tensor([1.0, 2.0], requires_grad=True)
    x, y = wp.from_torch(t), wp.zeros(2, requires_grad=True)
    assert x.requires_grad
    assert t.grad.tolist() == [0, 0]
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x], outputs=[y])
    tape.backward(grads={y: wp.ones(2)})
    assert t.grad.tolist() == [2, 4]
    again = wp.from_torch(t)
    assert again.grad.numpy().tolist() == [2, 4]
    assert not wp.from_torch(t, requires_grad=False).requires_grad
    plain = torch.zeros(2)
    assert wp.from_torch(plain, requires_grad=True).grad.ptr == plain.grad.data_ptr()


def test_gradients_of_a_part_are_shared_too():
    """A tensor within larger memory: the tensor's gradient becomes a view of the gradient of the whole."""
    part = torch.zeros(8)[2:6].requires_grad_()
    part.grad = torch.tensor([1.0, 0.0, 0.0, 0.0])
    a = wp.from_torch(part)
    assert a.grad.numpy().tolist() == [1, 0, 0, 0]
    a.grad.fill_(3)
    assert part.grad.tolist() == [3, 3, 3, 3]


def test_a_given_gradient():
    t, gradient = torch.zeros(2), torch.zeros(2)
    a = wp.from_torch(t, grad=gradient)
    a.grad.fill_(5)
    assert gradient.tolist() == [5, 5]
    assert t.grad is None
    given = wp.ones(2)
    assert wp.from_torch(torch.zeros(2), grad=given).grad is given


def test_to_torch_with_gradients():
    a = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    t = wp.to_torch(a)
    assert t.requires_grad
    assert t.is_leaf
    (t * t).sum().backward()
    assert a.grad.numpy().tolist() == [2, 4]
    assert not wp.to_torch(a, requires_grad=False).requires_grad
    assert wp.to_torch(wp.zeros(2), requires_grad=True).grad is None
    assert not wp.to_torch(wp.zeros(2, dtype=int), requires_grad=True).requires_grad


def test_windows_close_when_tensors_go():
    a = wp.zeros(2)
    t = wp.to_torch(a)
    part = t[1:]
    del t
    assert a.buffer.windows == 1
    del part
    gc.collect()
    assert a.buffer.windows == 0


@pytest.mark.parametrize("shared", ["from_torch", "to_torch", "dlpack"])
def test_writes_through_a_tensor_are_found(shared):
    if shared == "from_torch":
        t = torch.tensor([1.0, 2.0, 3.0])
        x = wp.from_torch(t, requires_grad=True)
    else:
        x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
        t = wp.to_torch(x, requires_grad=False) if shared == "to_torch" else torch.from_dlpack(x)
    y = wp.zeros(3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 3, inputs=[x], outputs=[y])
    t.mul_(10)
    tape.backward(grads={y: wp.ones(3)})
    assert x.grad.numpy().tolist() == [2, 4, 6]
    assert [event.how for event in tape.outside] == ["numpy"]
    assert tape.preserved_bytes == 12


def test_coverage_says_what_was_written_behind_the_tape():
    """The diagnosis measures the gradient if nothing is preserved, and says what changed."""
    t = torch.tensor([1.0, 2.0, 3.0])
    x, y = wp.from_torch(t, requires_grad=True), wp.zeros(3, requires_grad=True)
    loss = wp.zeros(1, requires_grad=True)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(square, 3, inputs=[x], outputs=[y])
        wp.launch(total, 3, inputs=[y, loss])
    t.mul_(10)
    tape.backward(loss)
    assert x.grad.list() == [20, 40, 60]
    diagnosis = wp.diagnose(tape, loss=loss)
    assert diagnosis.verdict == "WRONG"
    note = (
        "written after the tape recorded, before backward: x (through NumPy, or another library that shares"
    )
    assert note in " ".join(str(diagnosis).split())


@wp.struct
class Pair:
    a: float
    b: float


@wp.kernel
def rosenbrock(xy: wp.array(dtype=wp.vec2), z: wp.array(dtype=float)):
    i = wp.tid()
    p = xy[i]
    a, b = 1.0 - p[0], p[1] - p[0] * p[0]
    z[i] = a * a + 100.0 * b * b


class ByAdjoint(torch.autograd.Function):
    """The documents' way: one kernel, whose adjoint is launched in `backward`."""

    @staticmethod
    def forward(ctx, xy):
        ctx.xy = wp.from_torch(xy, dtype=wp.vec2, requires_grad=True)
        ctx.z = wp.zeros(ctx.xy.shape, requires_grad=True)
        wp.launch(rosenbrock, ctx.xy.shape, inputs=[ctx.xy], outputs=[ctx.z])
        return wp.to_torch(ctx.z)

    @staticmethod
    def backward(ctx, adj_z):
        ctx.xy.grad.zero_()
        ctx.z.grad = wp.from_torch(adj_z.contiguous())
        wp.launch(
            rosenbrock,
            ctx.xy.shape,
            inputs=[ctx.xy],
            outputs=[ctx.z],
            adj_inputs=[ctx.xy.grad],
            adj_outputs=[ctx.z.grad],
            adjoint=True,
        )
        return wp.to_torch(ctx.xy.grad).clone()


class ByTape(torch.autograd.Function):
    """Any number of launches: a tape inside."""

    @staticmethod
    def forward(ctx, xy):
        ctx.xy = wp.from_torch(xy, dtype=wp.vec2, requires_grad=True)
        ctx.z = wp.zeros(ctx.xy.shape, requires_grad=True)
        with wp.Tape() as ctx.tape:
            wp.launch(rosenbrock, ctx.xy.shape, inputs=[ctx.xy], outputs=[ctx.z])
        return wp.to_torch(ctx.z)

    @staticmethod
    def backward(ctx, adj_z):
        ctx.tape.zero()
        ctx.tape.backward(grads={ctx.z: wp.from_torch(adj_z.contiguous())})
        return wp.to_torch(ctx.xy.grad).clone()


def _reference(xy):
    a, b = 1 - xy[:, 0], xy[:, 1] - xy[:, 0] ** 2
    return a * a + 100 * b * b


@pytest.mark.parametrize("function", [ByAdjoint, ByTape])
@pytest.mark.parametrize("program", ["leaf", "inner", "twice", "sum", "branches"])
def test_functions_of_autograd(function, program):
    """Also where PyTorch passes a broadcast gradient (`sum`), or the same one to two places (`branches`)."""

    def loss(f, xy):
        if program == "inner":
            xy = xy * 1.5
        z = f(xy)
        if program == "twice":
            z = z + f(xy) * 0.5
        if program == "branches":
            z = z + f(xy + 0.0) + f(xy)
        return z.sum() if program in ("sum", "twice") else (z * torch.arange(1.0, 4.0)).sum()

    start = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    ours = torch.tensor(start, requires_grad=True)
    theirs = torch.tensor(start, requires_grad=True)
    for _ in range(2):  # gradients accumulate
        loss(function.apply, ours).backward()
        loss(_reference, theirs).backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-4)


@pytest.mark.parametrize("function", [ByAdjoint, ByTape])
def test_functions_of_autograd_may_be_reversed_again(function):
    xy = torch.tensor([[1.0, 2.0], [0.5, 0.25]], requires_grad=True)
    (right,) = torch.autograd.grad(_reference(xy).sum(), xy)
    loss = function.apply(xy).sum()
    first, second = (torch.autograd.grad(loss, xy, retain_graph=True)[0] for _ in range(2))
    np.testing.assert_allclose(first, right, rtol=1e-5)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (
            lambda: wp.from_torch(torch.tensor(3.0)),
            wp.ArrayError,
            "from_torch: a tensor without dimensions is no array\n"
            "  = hint: pass tensor.reshape(1), which shares its memory",
        ),
        (
            lambda: wp.from_torch(torch.ones(4), dtype=wp.vec3),
            wp.ArrayError,
            "from_torch: shape (4,) with strides (4,) holds no vec3: its last dimensions must be (3,), side "
            "by "
            "side\n  = hint: pass a contiguous tensor of shape (…, 3)",
        ),
        (
            lambda: wp.from_torch(torch.ones(3, dtype=torch.complex64)),
            wp.ArrayError,
            "from_torch: elements of complex64 have no type in the kernel language\n"
            "  = hint: convert them first",
        ),
        (
            lambda: wp.from_torch(torch.ones(3, dtype=torch.float64), dtype=float),
            wp.ArrayError,
            "from_torch: elements of float64 are not those of float32\n"
            "  = hint: convert the tensor first, or pass another dtype",
        ),
        (
            lambda: wp.from_torch(np.ones(3)),
            wp.ArrayError,
            "from_torch: ndarray is not a tensor\n  = hint: pass a torch.Tensor",
        ),
        (
            lambda: wp.from_torch(torch.ones(3, device="meta")),
            wp.DeviceError,
            "from_torch: the tensor is on meta\n  = hint: pass tensor.cpu(), which is a copy",
        ),
        (
            lambda: wp.to_torch(wp.zeros(3)[::-1]),
            wp.ArrayError,
            "to_torch: tensors have no negative strides; the array has (-4,)\n"
            "  = hint: pass contiguous(), which is a copy",
        ),
        (
            lambda: wp.to_torch(wp.zeros(3, dtype=Pair)),
            wp.ArrayError,
            "to_torch: tensors have no elements of Pair\n  = hint: pass the arrays of its fields",
        ),
        (
            lambda: wp.to_torch(np.ones(3)),
            wp.ArrayError,
            "to_torch: array([1., 1., 1.]) is not an array\n  = hint: pass an array",
        ),
        (
            lambda: wp.dtype_from_torch(torch.complex64),
            wp.ArrayError,
            None,
        ),
    ],
)
def test_messages(action, error, message):
    with pytest.raises(error) as caught:
        action()
    if message is None:
        assert str(caught.value).startswith("torch.complex64 has no type in the kernel language (bool, int8")
    else:
        assert str(caught.value) == message


def test_names_of_types_and_devices():
    assert wp.dtype_from_torch(torch.int8) is wp.int8
    assert wp.dtype_to_torch(wp.float64) is torch.float64
    assert wp.dtype_to_torch(wp.vec3) is torch.float32
    assert wp.from_torch(torch.ones(3, dtype=torch.float16)).dtype is wp.float16
    assert wp.device_from_torch(torch.device("cpu")) == "cpu"
    assert wp.device_to_torch("cpu") == "cpu"
    with pytest.raises(wp.DeviceError, match="there is no device 'cuda:0'"):
        wp.device_from_torch("cuda:0")


@wp.kernel
def lengths(v: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.length_sq(v[i])


@pytest.mark.unoptimized
def test_tensors_as_arguments_of_launches():
    v = torch.tensor([[1.0, 2.0, 2.0], [0.0, 1.0, 0.0]], requires_grad=True)
    out, loss = torch.zeros(2), wp.zeros(2, requires_grad=True)
    wp.launch(lengths, 2, [v.detach(), out])
    assert out.tolist() == [9.0, 1.0]
    with wp.Tape() as tape:
        wp.launch(lengths, 2, [v, loss])
        wp.launch(lengths, 1, [v, loss])  # which overwrites the first
    tape.backward(grads={loss: wp.ones(2)})
    assert v.grad.tolist() == [[2.0, 4.0, 4.0], [0.0, 2.0, 0.0]]
    with pytest.raises(wp.LaunchError, match="got a tensor of torch.float64 with shape"):
        wp.launch(lengths, 2, [torch.zeros(2, 3, dtype=torch.float64), out])
