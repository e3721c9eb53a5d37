"""Marks beside the lines of cells, which belong to the text that was executed."""

import re

import pytest

import tapedebug as wp
from tapedebug.notebook._cell_marks import cell_marks
from tapedebug.notebook._cell_sources import CellSource, CellSources, cells

KERNELS = """\

@wp.kernel
def forces(x: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    force[i] = x[i] * x[i]

@wp.kernel
def integrate(x: wp.array(dtype=float), force: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i] + 0.1 * force[i] * force[i]

@wp.kernel
def summed(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])
"""
RECORD = """\
a, force, b, c = (wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True) for _ in range(4))
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape(on_overwrite="{mode}") as tape:
    wp.launch(forces, dim=3, inputs=[a], outputs=[force])
    wp.launch(integrate, dim=3, inputs=[a, force], outputs=[b])
    {overwrite}
    wp.launch(integrate, dim=3, inputs=[b, force], outputs=[c])
    wp.launch(summed, dim=3, inputs=[c], outputs=[loss])
tape.backward(loss)
"""
AGAIN = "wp.launch(forces, dim=3, inputs=[b], outputs=[force])"


@pytest.fixture
def run(front_end):
    """Run a cell with an id, as JupyterLab does."""

    def run(code, cell_id):
        result = front_end.run_cell(code, store_history=True, cell_id=cell_id)
        assert result.success
        return result.execution_count

    return run


def record(run, front_end, mode="ignore", overwrite=AGAIN):
    count = run(KERNELS, "kernels")
    run(RECORD.format(mode=mode, overwrite=overwrite), "record")
    return front_end.user_ns["tape"], count


def by_line(entry):
    return {at["line"]: [plain(mark["text"]) for mark in at["marks"]] for at in entry["lines"]}


def plain(text):
    """Text with the arrays' names as in a kernel of its own; here the tests' shell is a variable, too."""
    return re.sub(r"front_end\._user_ns\['(\w+)'\]", r"\1", text)


def of(found, cell):
    return next((entry for entry in found if entry["cell"] == cell), None)


def test_reads_writes_and_the_overwriting_line_are_marked_at_their_lines(run, front_end):
    tape, count = record(run, front_end)
    entry = of(cell_marks([tape]), "kernels")
    assert (entry["count"], entry["source"], entry["tape"]) == (count, KERNELS, tape.id)
    assert by_line(entry) == {
        5: ["reads x", "writes force ✕ overwrites what integrate (launch 1) needs"],
        10: ["reads x", "reads force ✕ forces (launch 2) overwrites it", "writes out"],
        14: ["reads y", "writes loss"],
    }
    marks = {mark["kind"]: mark for at in entry["lines"] for mark in at["marks"]}
    assert (marks["overwrite"]["launch"], marks["lost-read"]["launch"]) == (2, 1)
    assert marks["overwrite"]["severity"] == marks["lost-read"]["severity"] == "error"
    assert marks["read"]["severity"] is None


def test_a_diagnosis_puts_its_finding_and_its_fix_there(run, front_end):
    tape, _ = record(run, front_end)
    from tapedebug.panel.panel_source import remember

    remember(tape, wp.diagnose(tape, loss=front_end.user_ns["loss"], progress=False))
    marks = [mark for at in of(cell_marks([tape]), "kernels")["lines"] for mark in at["marks"]]
    [mark] = [mark for mark in marks if mark["kind"] == "overwrite"]
    assert mark["finding"] == 0
    assert "overwrites values of force" in plain(mark["title"])
    assert "→ give forces an array of its own" in mark["title"]


def test_a_tape_that_was_recorded_again_has_new_marks(run, front_end):
    tape, _ = record(run, front_end)
    assert "✕" in str(by_line(of(cell_marks([tape]), "kernels")))
    run(
        "tape.reset()\nwith tape:\n    for _ in range(5):\n"
        "        wp.launch(summed, dim=3, inputs=[a], outputs=[loss])\ntape.backward(loss)",
        "again",
    )
    assert len(tape.records) == 5
    assert not any(
        "✕" in text for texts in by_line(of(cell_marks([tape]), "kernels")).values() for text in texts
    )


def test_functions_that_kernels_call_are_marked_where_they_stand(run, front_end):
    run(
        "@wp.func\ndef energy(x: wp.array(dtype=float), i: int):\n    return x[i] * x[i]",
        "function",
    )
    run(
        "@wp.kernel\ndef energies(x: wp.array(dtype=float), e: wp.array(dtype=float)):\n"
        "    i = wp.tid()\n    e[i] = energy(x, i)\n\n"
        "@wp.kernel\ndef doubled(x: wp.array(dtype=float), e: wp.array(dtype=float)):\n"
        "    i = wp.tid()\n    e[i] = 2.0 * energy(x, i)",
        "kernels",
    )
    run(
        "x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)\ne = wp.zeros_like(x)\n"
        "with wp.Tape() as tape:\n    wp.launch(energies, dim=2, inputs=[x], outputs=[e])\n"
        "    wp.launch(doubled, dim=2, inputs=[x], outputs=[e])",
        "record",
    )
    marks = cell_marks([front_end.user_ns["tape"]])
    assert by_line(of(marks, "function")) == {3: ["reads x"]}
    assert by_line(of(marks, "kernels")) == {4: ["writes e"], 9: ["writes e"]}


def test_a_kept_copy_is_no_alarm(run, front_end):
    tape, _ = record(run, front_end, mode="preserve")
    marks = [m for at in of(cell_marks([tape]), "kernels")["lines"] for m in at["marks"]]
    assert [m["severity"] for m in marks] == [None] * len(marks)
    assert "writes force, overwrites what integrate (launch 1) needs; the tape kept a copy" in [
        m["text"] for m in marks
    ]


def test_a_copy_has_no_kernel_and_is_marked_where_it_is_called(run, front_end):
    tape, _ = record(run, front_end, overwrite="wp.copy(force, b)")
    entry = of(cell_marks([tape]), "record")
    assert by_line(entry) == {6: ["writes force ✕ overwrites what integrate (launch 1) needs"]}


def test_a_cell_under_a_magic_has_the_lines_that_people_see(run, front_end):
    run(f"\n\n%%tape --no-panel --name t\n{KERNELS}\nx = wp.ones(3, dtype=float, requires_grad=True)\n"
        "y = wp.zeros(3, dtype=float)\nwp.launch(forces, dim=3, inputs=[x], outputs=[y])", "one")  # fmt: skip
    entry = of(cell_marks([front_end.user_ns["t"]]), "one")
    [line] = by_line(entry)
    assert entry["source"].splitlines()[line - 1] == "    force[i] = x[i] * x[i]"


def test_the_newest_tape_speaks_for_a_cell(run, front_end):
    old, _ = record(run, front_end)
    run("y = wp.zeros(3, dtype=float)\nwith wp.Tape() as newer:\n"
        "    wp.launch(forces, dim=3, inputs=[a], outputs=[y])", "more")  # fmt: skip
    newer = front_end.user_ns["newer"]
    assert by_line(of(cell_marks([old, newer]), "kernels")) == {5: ["reads x", "writes force"]}


def test_a_cell_that_was_executed_with_another_text_is_told_with_the_old_one(run, front_end):
    tape, count = record(run, front_end)
    run(KERNELS.replace("0.1", "0.2"), "kernels")
    entry = of(cell_marks([tape]), "kernels")
    assert (entry["count"], entry["source"]) == (count, KERNELS)  # which the front end compares


def test_code_in_no_history_takes_no_number_from_a_cell(run, front_end):
    front_end.run_cell(KERNELS, store_history=False)
    run(RECORD.format(mode="ignore", overwrite=AGAIN), "record")
    assert of(cell_marks([front_end.user_ns["tape"]]), "record") is None


def test_a_cell_from_before_the_extension_is_known_by_its_number(front_end):
    front_end.run_cell("1 + 1", store_history=True)
    found = CellSources().find(f"In [{front_end.execution_count - 1}]")
    assert (found.source, found.id) == ("1 + 1", None)
    assert CellSources().find("/tmp/net.py") is None
    assert CellSources().find("In [99999]") is None


def test_lines_are_counted_as_people_see_them():
    assert CellSource(1, "\n\nx\ny", None).line_of(1) == 3
    assert CellSource(1, "%%tape\n\nx", None).line_of(2) == 3
    assert CellSource(1, "x\n\ny", None).holds(1, ["x", "", "y"])
    assert not CellSource(1, "x", None).holds(1, ["z"])
    assert not CellSource(1, "x", None).holds(1, [])


def test_files_and_long_tapes_that_nobody_diagnosed_have_none(wrong, monkeypatch):
    tape, _, _ = wrong
    assert cell_marks([tape]) == []
    monkeypatch.setattr("tapedebug.notebook._cell_marks.MOST_LAUNCHES", 0)
    monkeypatch.setattr("tapedebug.notebook._cell_marks.record_with_arrays", None)
    assert cell_marks([tape]) == []


def test_what_is_remembered_has_an_end(monkeypatch, run):
    monkeypatch.setattr("tapedebug.notebook._cell_sources.MOST_CELLS", 2)
    for number in range(4):
        run(f"{number}", f"c{number}")
    assert len(cells._cells) == 2
