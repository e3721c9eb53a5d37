"""Traits of a panel besides its mask: selection, height, findings; and values that are refused."""

import gc
import weakref

import numpy as np
import pytest
import traitlets

import tapedebug as wp
from tapedebug.notebook import _open_panels, latest_panel
from tests.wrong_tape import square, total

WHOLE = [None, "x", "loss"]


@pytest.fixture(autouse=True)
def built():
    from tapedebug.notebook import load_widget

    load_widget()


@pytest.fixture
def panel(wrong):
    tape, x, loss = wrong
    wp.diagnose(tape, loss=loss, inputs=x, progress=False)
    panel = wp.TapeDebugger(wp.diagnose(tape, loss=loss, inputs=x, progress=False))
    yield panel
    panel.close()


def verdicts(panel):
    return {(c["launch"], c["input"], c["output"]): c["verdict"] for c in panel.checks}


def test_findings_are_there_to_read_and_not_to_set(panel):
    [finding] = [one for one in panel.findings if one["severity"] == "error"]
    assert finding["rule"] == "overwrite"
    assert panel.verdict == "WRONG"
    for name in ("findings", "verdict", "trace", "head", "columns"):
        with pytest.raises((traitlets.TraitError, AttributeError)):
            setattr(panel, name, [])


def test_only_what_the_panel_shows_is_synced(panel):
    assert "findings" not in panel.get_state()
    own = {name for name in panel.get_state() if not name.startswith("_")}
    assert own - {"trace", "head", "columns"} == {
        "mask", "checks", "selection", "running", "progress", "status", "can_run", "height", "verdict",
        "beat", "layout", "tabbable", "tooltip",
    }  # fmt: skip


def test_select_takes_what_one_has_in_hand(panel, wrong):
    _, x, _ = wrong
    panel.select(finding=panel.findings[0])
    assert panel.selection == {"finding": panel.findings[0]["id"]}
    panel.select(launch=np.int64(1), array=x)
    assert panel.selection == {"launch": 1, "array": "x"}
    panel.select(array="x", version=0)
    panel.select(pair=(1, "x", "y"))
    assert panel.selection == {"pair": [1, "x", "y"]}
    panel.select()
    assert panel.selection == {}


def test_what_the_front_end_says_is_taken(panel):
    panel.set_state(
        {"selection": {"launch": 1, "array": "x", "version": None, "finding": None, "pair": None}}
    )
    assert panel.selection["array"] == "x"


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"lunch": 1}, "a selection has no 'lunch'; it has launch, array, version, finding, pair"),
        ([1], "The 'selection' trait of a TapeDebugger instance expected a dict, not the list [1]."),
        ({"launch": 4}, "there is no launch 4; this tape has 4 launches, counted from 0"),
        ({"launch": True}, "there is no launch True; this tape has 4 launches, counted from 0"),
        ({"launch": "square"}, "there is no launch 'square'; this tape has 4 launches, counted from 0"),
        ({"array": "speed"}, "there is no array 'speed'; this tape has x, y, z, loss"),
        ({"array": 17}, "there is no array 17; this tape has "),
        ({"version": 1}, "version 1 of which array? Select an array with it"),
        ({"array": "loss", "version": 7}, "there is no version 7 of loss; it has versions 0 to 1"),
        ({"finding": 99}, "there is no finding 99; this tape has findings 0"),
        ({"pair": [1, "x", "speed"]}, "pair [1, 'x', 'speed']: launch 1 (square) has no array 'speed'; it "),
        ({"pair": "x"}, "a pair is [launch, input, output], with None for the whole tape; not 'x'"),
    ],
)
def test_a_selection_that_does_not_fit_is_refused_in_words(panel, selection, message):
    panel.selection = {"launch": 0}
    with pytest.raises(traitlets.TraitError) as caught:
        panel.selection = selection
    names = [info["label"] for info in panel.trace["arrays"]]
    said = str(caught.value)
    if "speed'; this tape has" in message:
        message = f"there is no array 'speed'; this tape has {', '.join(names)}"
    assert said.startswith(message), said
    assert panel.selection == {"launch": 0}


def test_an_array_that_is_not_on_the_tape(panel):
    with pytest.raises(
        traitlets.TraitError, match=r"array\(shape=\(2,\), dtype=float32\) is not on this tape"
    ):
        panel.select(array=wp.zeros(2, dtype=float))


def test_of_many_names_the_nearest_are_shown():
    from tapedebug.notebook.selection import _named

    names = [f"x{i}" for i in range(40)] + ["velocity"]
    assert _named(names, "velocty").startswith("velocity, ")
    assert _named(names, "velocty").endswith(" and 29 more")


def test_the_height_is_a_number_of_pixels(wrong):
    panel = wp.TapeDebugger(wrong[0], height=640)
    assert panel.height == 640
    for nonsense in ("tall", 10, -1, float("inf"), float("nan"), True):
        with pytest.raises(traitlets.TraitError) as caught:
            panel.height = nonsense
        assert str(caught.value) == (
            f"height is a number of CSS pixels, 200 or more, or None; not {nonsense!r}"
        )
    panel.height = None
    panel.close()
    with pytest.raises(traitlets.TraitError):
        wp.TapeDebugger(wrong[0], height="600px")


def test_a_link_between_panel_and_widget(panel):
    import ipywidgets

    slider = ipywidgets.IntSlider(max=3)
    traitlets.dlink((slider, "value"), (panel, "selection"), lambda launch: {"launch": launch})
    slider.value = 2
    assert panel.selection == {"launch": 2}
    label = ipywidgets.Label()
    traitlets.dlink((panel, "verdict"), (label, "value"))
    assert label.value == "WRONG"


def test_two_panels_of_a_tape_share_results_and_nothing_else(wrong):
    tape, x, loss = wrong  # noqa: RUF059
    one, other = wp.TapeDebugger(tape), wp.TapeDebugger(tape)
    assert one.model_id != other.model_id
    one.select(launch=1)
    one.run([(1, "x", "y")])
    assert other.selection == {}
    assert other.mask != one.mask
    assert verdicts(other)[1, "x", "y"] == "AGREE"
    assert other.status == ""
    other.run([WHOLE])
    assert verdicts(one)[tuple(WHOLE)] == "WRONG"
    assert (one.verdict, other.verdict) == ("WRONG", "WRONG")
    third = wp.TapeDebugger(tape)
    assert verdicts(third) == verdicts(one)
    for panel in (one, other, third):
        panel.close()


def test_results_are_shared_by_array_where_labels_differ(shell):
    shell.run_cell(
        "a = wp.array([1.0, 2.0], dtype=float, requires_grad=True)\n"
        "b = wp.zeros(1, dtype=float, requires_grad=True)\n"
        "with wp.Tape() as tape:\n"
        "    wp.launch(total, dim=2, inputs=[a], outputs=[b])\n"
        "tape.backward(b)\n"
        "one = wp.TapeDebugger(tape)\n"
    ).raise_error()
    shell.run_cell("start, end = a, b\ndel a, b\nother = wp.TapeDebugger(tape)\none.run()").raise_error()
    one, other = shell.user_ns["one"], shell.user_ns["other"]
    [[_, source, target]] = other.mask
    assert verdicts(other)[None, source, target] == "AGREE"
    assert len(verdicts(other)) == 1
    one.close()
    other.close()


def test_refresh_shows_what_was_recorded_since(wrong):
    tape, x, loss = wrong  # noqa: RUF059
    panel = wp.TapeDebugger(tape)
    panel.run([WHOLE, (1, "x", "y")])
    panel.select(launch=1, array="x")
    more = wp.zeros(3, dtype=float, requires_grad=True)
    with tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[more])
    with pytest.raises(wp.TapedebugError, match="it had 4 launches and has 5 now"):
        panel.run()
    panel.refresh()
    assert panel.trace["tape"]["launches"] == 5
    assert panel.selection == {"launch": 1, "array": "x"}
    assert panel.mask == [WHOLE, [1, "x", "y"]]
    assert verdicts(panel)[1, "x", "y"] == "AGREE"
    assert verdicts(panel)[tuple(WHOLE)] is None, "what was found of the whole tape is of a shorter one"
    panel.select(launch=4)
    assert [check["verdict"] for check in panel.run([(4, "x", "y")])] == ["AGREE"]
    panel.close()


def test_refresh_forgets_what_was_found_of_launches_that_are_gone(wrong):
    tape, x, loss = wrong
    panel = wp.TapeDebugger(tape)
    panel.run([(1, "x", "y")])
    panel.select(launch=3)
    tape.reset()
    y = wp.zeros(3, dtype=float, requires_grad=True)
    with tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    panel.refresh()
    assert panel.selection == {}
    assert set(verdicts(panel).values()) == {None}
    assert panel.mask
    panel.close()


def test_refresh_shows_the_findings_of_a_later_diagnosis(wrong):
    tape, x, loss = wrong
    panel = wp.TapeDebugger(tape)
    assert panel.findings == []
    wp.TapeDebugger(wp.diagnose(tape, loss=loss, inputs=x, progress=False)).close()
    heard = []
    panel.observe(lambda change: heard.append(change.new), "findings")
    panel.refresh()
    assert [finding["rule"] for finding in panel.findings][:1] == ["overwrite"]
    assert heard == [panel.findings]
    panel.close()


def test_a_closed_panel_says_so_and_keeps_nothing_alive(front_end):
    x = wp.ones(3, dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
    panel = _open_panels.open_panel(tape)
    panel.run([(0, "x", "y")])
    alive = weakref.ref(tape)
    del tape
    gc.collect()
    assert alive() is not None
    panel.close()
    gc.collect()
    assert alive() is None
    assert latest_panel() is None
    for use in (panel.run, panel.refresh):
        with pytest.raises(wp.TapedebugError) as caught:
            use()
        assert str(caught.value) == (
            "This panel was closed.\n  = hint: Open another: TapeDebugger(tape), or show the tape."
        )
    assert panel.trace["tape"]["launches"] == 1  # what it showed can still be read


def test_the_front_end_is_told_of_another_reverse_pass(front_end, wrong, monkeypatch):
    tape, _, loss = wrong
    panel = wp.TapeDebugger(tape)
    sent = []
    monkeypatch.setattr(panel, "send", sent.append)
    before = len(tape.backward_calls)
    front_end.user_ns.update(tape=tape, loss=loss)
    front_end.run_cell("1 + 1")
    assert sent == []
    front_end.run_cell("tape.zero(); tape.backward(loss)")
    front_end.run_cell("1 + 1")
    assert sent == [{"type": "passes", "passes": before + 1}]
    panel.refresh()
    front_end.run_cell("1 + 1")
    assert len(sent) == 1
    panel.close()
    front_end.run_cell("tape.zero(); tape.backward(loss)")
    assert len(sent) == 1


def test_selecting_is_quick_on_a_long_tape(wrong):
    tape, _, _ = wrong
    panel = wp.TapeDebugger(tape)
    panel.selection = {"array": "work", "version": 1}
    source = panel._runner.subject.source
    source.versions = None  # nobody goes through them a second time
    panel.selection = {"array": "work", "version": 0}
    for version in (9, -1):
        with pytest.raises(traitlets.TraitError, match=f"no version {version} of work; it has versions 0 to"):
            panel.selection = {"array": "work", "version": version}
    panel.close()


def test_closing_twice_is_closing(wrong):
    panel = wp.TapeDebugger(wrong[0])
    panel.close()
    panel.close()
