"""Arrays, Jacobians and results of checks at the end of a cell: HTML in a notebook, text in a terminal."""

import gc

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import end_to_end, gradcheck, hvp_check, jacobian
from tests.notebook.test_html import read
from tests.wrong_tape import square, total

EVIL = "</style><img src=x onerror=alert(1)>"


@wp.struct
class Body:
    mass: float
    at: wp.vec3


def shown(front_end, thing):
    data, _ = front_end.display_formatter.format(thing)
    assert data["text/plain"].split() == repr(thing).split()  # IPython breaks lines of dictionaries
    return data["text/html"]


def launched():
    x = wp.array([1.0, -2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    return x, y


def test_an_array_says_what_it_is_and_holds(front_end):
    x = wp.array([1.0, -2.0, 3.0, np.nan], dtype=float, requires_grad=True)
    html = shown(front_end, x)
    text = read(html).text
    assert "array float32 · shape (4,) · 16 B · requires_grad" in text
    assert "✕ 1 NaN" in text
    assert "[ 1. -2.  3. nan]" in text
    assert "histogram from -2 to 3" in text
    assert "nothing has written its gradient yet" in text
    assert {"script", "img", "link"}.isdisjoint(read(html).tags)
    assert "http" not in html
    for theme in ("prefers-color-scheme: dark", "data-jp-theme-light", "--jp-ui-font-color0"):
        assert theme in html


def test_a_gradient_is_shown_where_there_is_one(front_end):
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    shown(front_end, x)
    assert x.buffer.adjoint is None, "looking at an array makes no gradient memory"
    x.grad.fill_(0.25)
    text = read(shown(front_end, x)).text
    assert "gradient0.250.250.25" in text
    assert "nothing has written" not in text


def test_looking_at_an_array_is_no_use_of_it(front_end):
    """A gradient that is read before the reverse pass is a finding; one that is displayed is not."""
    x, y = launched()
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    x.grad.fill_(0.0)
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    for thing in (x, y, loss):
        shown(front_end, thing)
    tape.backward(loss)
    assert wp.diagnose(tape, loss=loss, progress=False).findings == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: wp.zeros(0, dtype=float), "empty"),
        (lambda: wp.zeros((2, 3), dtype=wp.vec3), "shape (2, 3) · 72 B · no gradient"),
        (lambda: wp.zeros(3, dtype=wp.bool), "shape (3,) · 3 B"),
        (lambda: wp.zeros(3, dtype=wp.float16), "float16"),
        (lambda: wp.full(3, np.inf, dtype=float), "✕ 3 Inf"),
        (lambda: wp.array([Body(), Body()], dtype=Body), "an array of structs"),
        (lambda: wp.ones(8, dtype=float)[::2], "shape (4,)"),
        (lambda: wp.indexedarray(wp.ones(8, dtype=float), [wp.array([1, 3], dtype=int)]), "indexedarray"),
        (lambda: wp.zeros(100_000, dtype=float), "400 kB"),
    ],
)
def test_arrays_of_every_kind(front_end, make, words):
    thing = make()
    html = shown(front_end, thing)
    assert words in read(html).text
    assert len(html) < 8000


def test_a_huge_array_is_not_read(front_end, monkeypatch):
    from tapedebug.notebook import _array_html

    monkeypatch.setattr(_array_html, "MOST_SUMMARISED", 8)
    assert "too large to summarise at a glance" in read(shown(front_end, wp.zeros(9, dtype=float))).text


def test_displaying_keeps_nothing_alive(front_end):
    import weakref

    x = wp.zeros(3, dtype=float)
    shown(front_end, x)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


def test_a_terminal_gets_text_alone(shell):
    x, y = launched()
    for thing in (x, jacobian(square, dim=3, inputs=[x], outputs=[y])):
        assert thing._repr_mimebundle_() == ({"text/plain": repr(thing)}, {})


def test_jacobians_are_pictures(front_end):
    x, y = launched()
    found = jacobian(square, dim=3, inputs=[x], outputs=[y])
    html = shown(front_end, found)
    text = read(html).text
    assert "d y / d x" in text
    assert "[0, 0] · 3 × 3 scalars" in text
    assert "3 of 9 entries are not zero" in text
    assert "largest 6 at [2, 2]" in text
    assert html.count("<svg") == 1
    assert {"script", "img"}.isdisjoint(read(html).tags)


def test_sparse_jacobians_and_partial_ones(front_end):
    x, y = launched()
    sparse = jacobian(square, dim=3, inputs=[x], outputs=[y], sparse=True)
    assert "3 of 9 entries are not zero" in read(shown(front_end, sparse)).text
    part = jacobian(square, dim=3, inputs=[x], outputs=[y], max_outputs_per_var=2, sample="first")
    assert "3 are NaN: not evaluated" in read(shown(front_end, part)).text


def test_names_of_arrays_stay_text(front_end):
    x, y = launched()
    found = jacobian(square, dim=3, inputs=[x], outputs=[y])
    found._names = [(EVIL, EVIL)]
    html = shown(front_end, found)
    assert EVIL in read(html).text
    assert "img" not in read(html).tags


def test_a_jacobian_that_is_too_large_says_so(front_end, monkeypatch):
    from tapedebug.notebook import _results_html

    x, y = launched()
    monkeypatch.setattr(_results_html, "MOST_ENTRIES", 4)
    found = jacobian(square, dim=3, inputs=[x], outputs=[y])
    assert "3 × 3: too large for a picture" in read(shown(front_end, found)).text


def test_results_of_checks(front_end, wrong):
    tape, x, loss = wrong
    result = gradcheck(square, dim=3, inputs=[x], outputs=[wp.zeros(3, dtype=float, requires_grad=True)],
                       show_summary=False)  # fmt: skip
    assert "Gradient check for kernel square passed" in read(shown(front_end, result)).text
    whole = end_to_end(tape, loss, [x])
    text = read(shown(front_end, whole)).text
    assert "✕ WRONG Gradient of the whole tape" in text
    assert whole.inputs[0].message[:40] in text


def test_second_derivatives(front_end):
    x, y = launched()
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    text = read(shown(front_end, hvp_check(tape, loss=loss, inputs=[x]))).text
    assert "✓ AGREE Second derivatives" in text
    assert "⟨u, H v⟩" in text


CELL = """x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
{}gradcheck(square, 3, [x], [wp.zeros_like(x)])"""


@pytest.fixture
def published(front_end):
    """Return the outputs of cells that the front end is sent, in order."""
    front_end.user_ns.update(gradcheck=gradcheck)
    publisher = front_end.display_pub
    sent = []
    publisher.publish = lambda data, **more: sent.append(data)
    hook = front_end.displayhook
    hook.write_format_data = lambda data, metadata=None: sent.append(data) if data else None
    return sent


@pytest.mark.parametrize("assigned", [False, True])
def test_a_check_is_shown_once(front_end, published, capsys, assigned):
    front_end.run_cell(CELL.format("found = " if assigned else ""), store_history=True).raise_error()
    [data] = published
    assert "Gradient check for kernel square passed" in read(data["text/html"]).text
    assert "Gradient check" not in capsys.readouterr().out
    front_end.run_cell("found" if assigned else "_", store_history=True).raise_error()
    assert len(published) == 2, "in another cell it is shown again"


def test_two_checks_in_a_cell_are_both_shown(front_end, published):
    front_end.run_cell(CELL.format("") + "\n" + CELL.format(""), store_history=True).raise_error()
    assert len(published) == 2


def test_a_check_without_a_summary_is_shown_as_the_value_of_its_cell(front_end, published):
    front_end.run_cell(CELL.format("")[:-1] + ", show_summary=False)", store_history=True).raise_error()
    assert len(published) == 1


def test_a_check_prints_its_table_in_a_terminal(shell, capsys):
    shell.user_ns.update(gradcheck=gradcheck)
    shell.run_cell(CELL.format(""), store_history=True).raise_error()
    out = capsys.readouterr().out
    assert out.count("Input | Output") == 1
    assert "<GradcheckResult of kernel square: AGREE" in out
