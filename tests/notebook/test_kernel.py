"""A real ipykernel: cells with the magic, the comm, and cells and checks that wait for each other."""

import os
import queue
import time
from pathlib import Path

import pytest

from tests.trace.unpacked import unsealed

KERNELS = """\
import time
import tapedebug as wp
%load_ext tapedebug

@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]
"""
RECORD = """\
%%tape --name tape
x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
y = wp.zeros(2, dtype=float, requires_grad=True)
wp.launch(square, dim=2, inputs=[x], outputs=[y])
"""


class Client:
    """A front end that keeps what it hears."""

    def __init__(self, kernel):
        self.kernel = kernel

    def run(self, code):
        """Run a cell; return the reply and the outputs."""
        heard = []
        reply = self.kernel.execute_interactive(code, output_hook=heard.append, timeout=60)
        return reply["content"], heard

    def send(self, kind, content):
        self.kernel.shell_channel.send(self.kernel.session.msg(kind, content))

    def hear(self, comm):
        """Return the next message of a comm."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                message = self.kernel.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            if message["msg_type"] in ("comm_msg", "comm_close") and message["content"]["comm_id"] == comm:
                return message["content"]["data"] if message["msg_type"] == "comm_msg" else "closed"
        raise AssertionError("the kernel did not answer within 30 s")

    def run_cell(self, cell, code):
        """Run a cell as JupyterLab does, which tells its id; return what it printed."""
        message = self.kernel.session.msg("execute_request", {"code": code, "store_history": True})
        message["metadata"]["cellId"] = cell
        self.kernel.shell_channel.send(message)
        heard = []
        while True:
            messages = self.kernel.get_iopub_msg(timeout=60)
            if messages["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            heard.append(messages)
            if messages["msg_type"] == "status" and messages["content"]["execution_state"] == "idle":
                return printed(heard)


def printed(heard):
    return "".join(m["content"]["text"] for m in heard if m["msg_type"] == "stream")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    from jupyter_client.manager import start_new_kernel

    home = tmp_path_factory.mktemp("home")
    env = {**os.environ, "IPYTHONDIR": str(home), "PYTHONPATH": str(Path(__file__).parents[2])}
    manager, kernel = start_new_kernel(kernel_name="python3", env=env, cwd=str(home))
    client = Client(kernel)
    reply, _ = client.run(KERNELS)
    assert reply["status"] == "ok"
    yield client
    kernel.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_recorded_cell_shows_all_forms_of_its_tape(client):
    reply, heard = client.run(RECORD)
    assert reply["status"] == "ok"
    [shown] = [m["content"] for m in heard if m["msg_type"] == "display_data"]
    assert set(shown["data"]) == {
        "text/plain",
        "text/html",
        "application/vnd.tapedebug.trace+json",
        "application/vnd.jupyter.widget-view+json",
    }
    trace = unsealed(shown["data"]["application/vnd.tapedebug.trace+json"])
    assert trace["name"] == "tape"
    site = trace["launches"][0]["call_site"]
    number = reply["execution_count"]
    assert (site["file"], site["line"]) == (f"In [{number}]", 4)
    assert trace["kernels"][0]["file"] == f"In [{number - 1}]"


def test_a_cell_that_fails_is_a_failed_cell(client):
    reply, heard = client.run("%%tape --no-panel\nx = wp.ones(2, dtype=float)\nmissing + 1")
    assert (reply["status"], reply["ename"]) == ("error", "NameError")
    [error] = [m["content"] for m in heard if m["msg_type"] == "error"]
    text = "\n".join(error["traceback"])
    assert "missing" in text
    assert "magics.py" not in text  # our own frames are hidden


def test_the_side_bar_connects_and_hears_of_the_tapes(client):
    client.run(RECORD)
    client.send("comm_open", {"comm_id": "c1", "target_name": "tapedebug", "data": {}})
    assert client.hear("c1")["type"] == "hello"
    client.send("comm_msg", {"comm_id": "c1", "data": {"type": "list", "request": 1}})
    answer = client.hear("c1")
    assert (answer["type"], answer["request"]) == ("tapes", 1)
    assert [row["name"] for row in answer["tapes"]][:1] == ["tape"]
    client.send("comm_close", {"comm_id": "c1", "data": {}})


def test_a_cell_waits_for_a_check_that_was_started_from_the_panel(client, tmp_path):
    """The cell would otherwise write into the arrays that the check reads."""
    begun = tmp_path / "begun"
    client.run(RECORD)
    reply, heard = client.run(
        "from tapedebug.notebook import latest_panel\n"
        "from tapedebug.panel import check_runner\n"
        "def slow(tape, mask, **options):\n"
        f"    open({str(begun)!r}, 'w').close()\n"
        "    time.sleep(2)\n"
        "    return []\n"
        "check_runner.check_pairs = slow\n"
        "panel = latest_panel()\n"
        "panel.mask = [(0, 'x', 'y')]\n"
        "panel._handle_custom_msg({'type': 'run'}, [])\n"
        "print(panel.status)"
    )
    assert reply["status"] == "ok"
    assert printed(heard) == "Waiting for the running cell …\n"
    until = time.monotonic() + 60
    while not begun.exists() and time.monotonic() < until:
        time.sleep(0.02)
    started = time.monotonic()
    reply, heard = client.run("print(panel.running)")
    assert printed(heard) == "False\n"
    assert time.monotonic() - started > 0.4


TALK = """\
@wp.kernel
def talk(x: wp.array(dtype=float)):
    i = wp.tid()
    print("thread", i, x[i])
    assert x[i] < 2.0

wp.launch(talk, dim=2, inputs=[wp.array([1.0, 2.0], dtype=float)])
"""


def test_what_kernels_print_and_assert_appears_below_the_cell(client):
    reply, heard = client.run(TALK)
    assert printed(heard) == "thread 0 1.0\nthread 1 2.0\n"
    assert reply["ename"] == "KernelAssertionError"
    assert reply["evalue"].startswith("kernel `talk`: assertion failed in thread 1\n  --> In [")
    assert "   |     assert x[i] < 2.0\n   |            ^^^^^^^^^^\n  = note: x[i] is 2.0" in reply["evalue"]


ARRAYS = """\
x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
y = wp.zeros(2, dtype=float, requires_grad=True)
"""
LAUNCH = "wp.launch(square, dim=2, inputs=[x], outputs=[y])\n"
COUNT = """\
from ipywidgets.widgets.widget import _instances
from tapedebug.runtime import live_tapes
print(len(live_tapes()), len(_instances))
"""


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("cells", "tapes", "panels"),
    [
        (["%%tape\n" + ARRAYS + LAUNCH], 1, 1),
        (["%%tape --name tape\n" + ARRAYS + LAUNCH, "tape"], 1, 2),
        ([ARRAYS + "with wp.Tape() as tape:\n    " + LAUNCH + "tape"], 1, 1),
        (["%%tape --no-panel --name t\n" + ARRAYS + LAUNCH, "wp.diagnose(t, progress=False)"], 1, 1),
        (["%%gradcheck\n" + ARRAYS + LAUNCH], 1, 0),
        (["%%jacobian\n" + ARRAYS + LAUNCH], 1, 0),
        (
            [
                "%%tape --no-panel --name before\n" + ARRAYS + LAUNCH,
                "%%tape --no-panel --name after\n" + ARRAYS + LAUNCH,
                "%tape_diff before after",
            ],
            2,
            0,
        ),
    ],
    ids=["tape", "tape shown again", "last line", "diagnose", "gradcheck", "jacobian", "tape_diff"],
)
@pytest.mark.parametrize("messages", [True, False], ids=["cell ids", "no cell ids"])
def test_cells_that_run_again_keep_one_tape_and_one_panel(client, cells, tapes, panels, messages):
    """Also in `Out`, and without waiting for a garbage collection."""
    run = client.run_cell if messages else lambda _, code: printed(client.run(code)[1])
    run("before", "%reset -f\n" + KERNELS)
    left, widgets = map(int, run("count", COUNT).split())
    for _ in range(6):
        for number, code in enumerate(cells):
            run(f"{cells[0]}-{number}", code)
    # each panel has a layout, a widget as well; what an earlier test has left may go meanwhile
    found, shown = map(int, run("count", COUNT).split())
    assert found <= left + tapes
    assert shown <= widgets + 2 * panels


def test_out_holds_the_tape_that_a_cell_has_shown_last(client):
    client.run("%reset -f\n" + KERNELS)
    cell = ARRAYS + "with wp.Tape() as tape:\n    " + LAUNCH + "tape"
    client.run_cell("first", cell)
    client.run("first = tape")
    for _ in range(3):
        client.run_cell("second", cell)
    messages = client.run_cell("out", "print([value is tape for value in Out.values()], _ is tape, repr(__))")
    assert messages == "[False, True] True ''\n"
    messages = client.run_cell("out", "print([value for value in Out.values()][0] is first)")
    assert messages == "True\n"
