"""A shell of its own for each test, and a tape with a wrong gradient."""

import pytest
from traitlets.config import Config

import tapedebug as wp


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, y[i])


@pytest.fixture
def shell(tmp_path, monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell.instance(config=config)
    shell.user_ns.update(wp=wp, square=square, total=total)
    shell.run_line_magic("load_ext", "tapedebug")
    yield shell
    InteractiveShell.clear_instance()


@pytest.fixture
def front_end(shell):
    """Let the shell look like one behind a Jupyter front end."""
    shell.kernel = object()
    shell.parent_header = {"header": {"msg_id": "1"}, "metadata": {"cellId": "cell-1"}}
    return shell


@pytest.fixture
def wrong():
    """Record x² with x overwritten before the reverse pass has read it: the tape, x and the loss."""
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    z = wp.array([4.0, 5.0, 6.0], dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(on_overwrite="ignore") as tape:
        work = wp.clone(x)
        wp.launch(square, dim=3, inputs=[work], outputs=[y])
        wp.copy(work, z)
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    tape.backward(loss)
    return tape, x, loss
