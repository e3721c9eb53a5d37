"""Adjoints that a native function consumes: recognised only if it is certain."""

from __future__ import annotations

import pytest

from tapedebug.compiler.native.consume import consumed, write_only
from tapedebug.compiler.native.unit import Signature, Snippets
from tapedebug.lang import types as t

FLOATS, VECTORS = t.ArrayType(t.float32), t.ArrayType(t.vec3)
SIGNATURE = Signature(
    "f",
    (
        ("x", FLOATS),
        ("out", FLOATS),
        ("p", VECTORS),
        ("n", t.ArrayType(t.int32)),
        ("i", t.int32),
        ("j", t.int32),
        ("a", t.float32),
    ),
)
PASSED_ON = "adj_x[i] += adj_out[i] * a;"

CERTAIN = {
    "out[i] = x[i];": {"out": ["[i]"]},
    "float y = x[i]; if (y < 0.0f) { y = 0.0f; }\n out[ i ] = y;": {"out": ["[i]"]},
    "// out is what comes out\n out[i] = x[i]; /* out[j] = 1; */": {"out": ["[i]"]},
    "for (int k = 0; k < 3; k++) a += x[k]; out[i] = a;": {"out": ["[i]"]},
    "out[i] = x[i]; n[j] = 1;": {"out": ["[i]"]},
}
UNCERTAIN = [
    "if (i > 0) out[i] = x[i];",
    "if (i > 0) { out[i] = x[i]; }",
    "if (i > 0) j = 1; else out[i] = x[i];",
    "for (int k = 0; k < 3; k++) out[i] = x[k];",
    "for (int k = 0; out[i] = 1.0f, k < 3; k++) ;",
    "for (int k = 0; k < 3; out[i] = 1.0f) ;",
    "if (i > 4) return; out[i] = x[i];",
    "out[i] += x[i];",
    "out[i] = x[i] + out[i];",
    "out[i] = x[i]; a = out[j];",
    "float *y = out; y[i] = x[i];",
    "*(out + i) = x[i];",
    "i += 1; out[i] = x[i];",
    "i++; out[i] = x[i];",
    "int *k = &i; *k = 2; out[i] = x[i];",
    "int k = 2; out[k] = x[i];",
    "out[n[i]] = x[i];",
    "float y = out[i] = x[i];",
    "out[i] == x[i];",
    "#if 0\nj = 1; out[i] = x[i];\n#endif\n",
    "switch (i) { case 1: out[i] = x[i]; }",
]


@pytest.mark.parametrize("snippet", CERTAIN)
def test_plain_assignments_are_recognised(snippet: str) -> None:
    assert consumed(SIGNATURE, Snippets(snippet, PASSED_ON)) == CERTAIN[snippet]


@pytest.mark.parametrize("snippet", UNCERTAIN)
def test_nothing_else_is(snippet: str) -> None:
    assert consumed(SIGNATURE, Snippets(snippet, PASSED_ON)) == {}


@pytest.mark.parametrize(
    "adjoint",
    [
        "adj_x[i] += adj_out[j];",
        "adj_x[i] += adj_out[i]; adj_out[i] = 0.0f;",
        "adj_x[i] += adj_out[i]; adj_out[i] = adj_out[i] * 2.0f;",
        "float *g = adj_out; adj_x[i] += g[i];",
        "adj_x[i] += adj_out[i] + adj_out[i - 1];",
    ],
)
def test_adjoint_snippets_that_look_elsewhere_take_care_themselves(adjoint: str) -> None:
    assert consumed(SIGNATURE, Snippets("out[i] = x[i];", adjoint)) == {}


def test_several_elements_and_parts_of_them() -> None:
    snippet = "out[2 * i] = x[i]; out[2 * i + 1] = a; p[j].x = x[i]; p[j].c[1] = x[i];"
    adjoint = "adj_x[i] += adj_out[2*i] + adj_p[j].x; adj_a += adj_out[2 * i + 1];"
    both = Snippets(snippet, adjoint.replace("2*i", "2 * i"))
    assert consumed(SIGNATURE, both) == {
        "out": ["[2 * i]", "[2 * i + 1]"],
        "p": ["[j].x", "[j].c[1]"],
    }


def test_one_element_of_all_threads_belongs_to_the_last() -> None:
    assert consumed(SIGNATURE, Snippets("out[0] = x[i];", "adj_x[i] += adj_out[0];")) == {"out": ["[0]"]}


def test_without_a_gradient_there_is_nothing_to_use_up() -> None:
    assert consumed(SIGNATURE, Snippets("out[i] = x[i];")) == {}
    assert consumed(SIGNATURE, Snippets("out[i] = x[i];", "")) == {}


@pytest.mark.parametrize(
    ("snippet", "only"),
    [
        ("out[i] = x[i];", True),
        ("if (i > 0) out[n[i]] = x[i]; else { out[j] = 1.0f; }", True),
        ("float y = out[i] = x[i];", True),
        ("out[i] += x[i];", False),
        ("out[i] = out[j];", False),
        ("if (out[i] == x[i]) return;", False),
        ("memset(out, 0, 4);", False),
        ("#define O out\n O[i] = 1;", False),
    ],
)
def test_what_is_only_assigned_to_is_not_read(snippet: str, only: bool) -> None:
    assert write_only("out", snippet) is only
