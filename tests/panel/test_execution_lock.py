"""Cells and checks take turns."""

import signal
import threading
import time

import pytest

from tapedebug.panel.execution_lock import ExecutionLock


def in_thread(function):
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


def test_a_check_waits_for_the_running_cell():
    gate, order = ExecutionLock(), []

    def check():
        with gate.for_check(lambda: None):
            order.append("check")

    gate.cell_starts()
    thread = in_thread(check)
    time.sleep(0.05)
    order.append("cell")
    gate.cell_ends()
    thread.join(5)
    assert order == ["cell", "check"]


def test_a_cell_waits_for_the_running_check():
    gate, order, started = ExecutionLock(), [], threading.Event()

    def check():
        with gate.for_check(lambda: None):
            started.set()
            time.sleep(0.05)
            order.append("check")

    thread = in_thread(check)
    assert started.wait(5)
    gate.cell_starts()
    order.append("cell")
    gate.cell_ends()
    thread.join(5)
    assert order == ["check", "cell"]


def test_interrupting_a_waiting_cell_cancels_the_check():
    gate, cancelled, started = ExecutionLock(), threading.Event(), threading.Event()

    def check():
        with gate.for_check(cancelled.set):
            started.set()
            assert cancelled.wait(10)

    thread = in_thread(check)
    assert started.wait(5)
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT)).start()
    gate.cell_starts()
    assert cancelled.is_set()
    gate.cell_ends()
    thread.join(5)
    assert not gate.busy


def test_a_check_that_is_cancelled_while_it_waits_ends_without_its_turn():
    gate, cancelled, message = ExecutionLock(), threading.Event(), []

    def check():
        with gate.for_check(lambda: None, cancelled=cancelled.is_set) as acquired:
            message.append(acquired)

    gate.cell_starts()
    thread = in_thread(check)
    cancelled.set()
    thread.join(5)
    assert message == [False]
    gate.cell_ends()
    assert not gate.busy
    check()  # with the lock free there is nothing to wait for: the check itself says that it was cancelled
    assert message == [False, True]


def test_nested_and_unannounced_ends_leave_the_gate_sound():
    gate = ExecutionLock()
    gate.cell_ends()  # IPython ends empty cells that never started
    gate.cell_starts()
    gate.cell_starts()
    gate.cell_ends()
    assert gate.busy
    gate.cell_ends()
    assert not gate.busy


@pytest.mark.parametrize("running", [False, True])
def test_between_cells_never_waits(running):
    gate = ExecutionLock()
    if running:
        gate.cell_starts()
    with gate.between_cells() as quiet:
        assert quiet is not running
    assert gate.busy is running
