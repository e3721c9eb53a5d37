"""Results of checks as HTML, in a notebook or as a page: no script, no external resources."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from tapedebug._csp import source_hash
from tapedebug._errors import GradcheckError
from tapedebug.autograd.finite_diff.verdict import VERDICTS, Verdict
from tapedebug.autograd.results.heatmap import Blocks, heat_map
from tapedebug.autograd.results.html_style import PAGE_STYLE, STYLE
from tapedebug.autograd.results.pair_result import PairResult
from tapedebug.autograd.results.table import HEADER, MEANINGS

if TYPE_CHECKING:
    from tapedebug.autograd.results.gradcheck_result import GradcheckResult

MOST_ROWS = 120
SHOWN_SETTINGS = ("eps", "atol", "rtol")
MOST_TOLD = 12  # failing pairs whose messages are shown
MOST_MAPS = 6  # of these, with heat maps
MOST_NOTES = 40
BUDGET = 220_000  # characters after which no more heat maps are drawn
LONGEST = 4_000  # characters of one message or note

SIGNS: dict[Verdict, str] = {
    "AGREE": "✓",
    "KINK": "∧",
    "UNDECIDABLE": "?",
    "NONDETERMINISTIC": "≁",
    "WRONG": "✕",
}


def fragment(result: GradcheckResult) -> str:
    """Return the HTML that a notebook shows of a result."""
    return f"<style>{STYLE}</style>\n{_section(result, scripts=False)}"


def page(result: GradcheckResult) -> str:
    """Return a complete HTML page of a result."""
    style = STYLE + PAGE_STYLE
    allowed = f"style-src {source_hash(style)}; img-src data:"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy, quote=True)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(f'{result.subject[:120]} · {result.verdict} · gradient check')}</title>\n"
        f"<style>{style}</style>\n</head>\n<body>\n{_section(result, scripts=True)}\n</body>\n</html>\n"
    )


def _section(result: GradcheckResult, *, scripts: bool) -> str:
    parts = ['<div class="td-check">', *_head(result)]
    failing = sorted(
        (pair for pair in result.pairs if pair.verdict != "AGREE"),
        key=lambda pair: -VERDICTS.index(pair.verdict),
    )
    size = 0
    for number, pair in enumerate(failing[:MOST_TOLD]):
        article = _article(pair, maps=number < MOST_MAPS and size < BUDGET)
        size += len(article)
        parts.append(article)
    if len(failing) > MOST_TOLD:
        parts.append(
            f'<p class="td-more">{len(failing) - MOST_TOLD} more pairs that do not agree: see the table.</p>'
        )
    parts += _table(result, failing)
    if not failing and result.pairs:
        parts += _agreeing(result)
    parts += _coverage(result)
    if scripts and failing:
        parts += _script(result)
    return "\n".join([*parts, "</div>"])


def badge(verdict: Verdict) -> str:
    """Return a verdict as a badge with a sign and a word, readable without colour."""
    sign = f'<b aria-hidden="true">{SIGNS[verdict]}</b>'
    return f'<span class="td-badge td-{verdict.lower()}">{sign} {verdict}</span>'


def _head(result: GradcheckResult) -> Iterator[str]:
    said = "passed" if result else "failed"
    yield (
        f'<div class="td-head">{badge(result.verdict)} '
        f"<strong>Gradient check for {escape(_shortened(result.subject))} {said}</strong></div>"
    )
    yield f'<p class="td-summary">{escape(_shortened(result.coverage.summary))}</p>'


def _article(pair: PairResult, *, maps: bool) -> str:
    where = pair.subject + ("" if pair.check == "adjoint" else f", {pair.check}")
    parts = [
        '<div class="td-pair">',
        f'<div class="td-title">{badge(pair.verdict)} <b>{_derivative(pair)}</b> '
        f"<span>{escape(_shortened(where))}</span></div>",
        f'<p class="td-message">{escape(_shortened(pair.message))}</p>',
    ]
    if pair.written is not None:
        parts.append(f'<pre class="td-source">{escape(_shortened(chr(10).join(pair.written.lines())))}</pre>')
    if maps:
        parts += _maps(pair)
    return "\n".join([*parts, "</div>"])


def _derivative(pair: PairResult) -> str:
    return escape(f"d {_shortened(pair.output, 200)} / d {_shortened(pair.input, 200)}")


def _maps(pair: PairResult) -> Iterator[str]:
    compared, layout = pair.compared, pair.layout
    if compared is None or layout is None or not len(compared):
        return
    blocks = Blocks.of(compared)
    name = f"d {pair.output} / d {pair.input}"
    yield '<div class="td-maps">'
    for title, cells in (
        ("AD", blocks.signed(blocks.ad)),
        ("FD", blocks.signed(blocks.fd)),
        ("|AD − FD|", blocks.errors()),
    ):
        picture = heat_map(cells, blocks, layout, f"{title} of {name}", pair.worst)
        yield f"<figure><figcaption>{title}</figcaption>{picture}</figure>"
    yield '<div class="td-legend">'
    yield f"<p>rows: {escape(_span(pair, 'output'))}<br>columns: {escape(_span(pair, 'input'))}</p>"
    if pair.worst is not None:
        worst = pair.worst
        named = escape(f"d {worst.output} / d {worst.input}")
        numbers = f"AD {worst.ad:.6g}<br>FD {worst.fd:.6g} ± {worst.bar:.1g}"
        yield f'<p><span class="td-key td-key-worst"></span> {named}<br>{numbers}</p>'
    yield (
        f'<p><span class="td-key td-key-plus"></span> to {blocks.largest():.3g} '
        f'<span class="td-key td-key-minus"></span> to −{blocks.largest():.3g}<br>'
        f"errors: logarithm, to {blocks.largest_error():.3g}</p>"
    )
    keys = []
    if not blocks.known.all():
        keys.append('<span class="td-key td-key-unknown"></span> not evaluated')
    if blocks.broken:
        keys.append('<span class="td-key td-key-broken"></span> not finite')
    if keys:
        yield f"<p>{' '.join(keys)}</p>"
    if blocks.reduced:
        yield "<p>each cell: the entry of a block with the largest error</p>"
    yield "</div></div>"


def _span(pair: PairResult, side: str) -> str:
    """`y, 10 elements × 3 components`."""
    assert pair.layout is not None
    shape: tuple[int, ...] = getattr(pair.layout, f"{side}_shape")
    width: int = getattr(pair.layout, f"{side}_components")
    count = int(np.prod(shape, dtype=np.int64))
    text = f"{getattr(pair, side)}, {count // width} element{'s' * (count != width)}"
    return f"{text} × {width} components" if width > 1 else text


def _heading(name: str) -> str:
    title = f' title="{escape(MEANINGS[name])}"' if name in MEANINGS else ""
    return f"<th{title}>{escape(name)}</th>"


def _table(result: GradcheckResult, failing: list[PairResult]) -> Iterator[str]:
    if not result.pairs:
        return
    launches = any(pair.launch is not None for pair in result.pairs)
    checks = any(pair.check != "adjoint" for pair in result.pairs)
    head = ["Verdict"] + ["Launch"] * launches + ["Check"] * checks + [*HEADER[:-1]]
    shown = result.pairs
    if len(shown) > MOST_ROWS:
        agreeing = [pair for pair in result.pairs if pair.verdict == "AGREE"]
        chosen = {id(pair) for pair in [*failing, *agreeing][:MOST_ROWS]}
        shown = type(shown)(pair for pair in shown if id(pair) in chosen)
    yield '<div class="td-scroll"><table>'
    yield f"<thead><tr>{''.join(map(_heading, head))}</tr></thead><tbody>"
    for pair in shown:
        cells = ([pair.subject] if launches else []) + ([pair.check] if checks else []) + [*pair.row()[:-1]]
        columns = "".join(f"<td>{escape(_shortened(cell, 200))}</td>" for cell in cells)
        yield f'<tr class="td-row-{pair.verdict.lower()}"><td>{badge(pair.verdict)}</td>{columns}</tr>'
    yield "</tbody></table></div>"
    if len(shown) < len(result.pairs):
        yield f'<p class="td-more">{len(shown)} of {len(result.pairs)} pairs are listed.</p>'


def _agreeing(result: GradcheckResult) -> Iterator[str]:
    """Return the heat maps of the first pair in a collapsed section."""
    pair = next((pair for pair in result.pairs if pair.compared is not None and len(pair.compared)), None)
    if pair is None:
        return
    yield f"<details><summary>{_derivative(pair)}</summary>"
    yield from _maps(pair)
    yield "</details>"


def _coverage(result: GradcheckResult) -> Iterator[str]:
    notes = [*result.coverage.notes[:MOST_NOTES]]
    left = len(result.coverage.notes) - len(notes)
    notes += [f"and {left} more notes"] if left else []
    dot = result.dot_product
    notes += [str(dot)] if dot is not None and dot.agrees else []
    if notes:
        listed = "".join(f"<li>{escape(_shortened(note))}</li>" for note in notes)
        yield f'<div class="td-notes">Coverage<ul>{listed}</ul></div>'
    facts = [f"{name} {value}" for name, value in result.environment.items()]
    settings = [f"{name}={result.settings[name]}" for name in result.settings if name in SHOWN_SETTINGS]
    yield f'<p class="td-facts">{escape(" · ".join([*settings, *facts]))}</p>'


def _script(result: GradcheckResult) -> Iterator[str]:
    try:
        text = result.reproduce()
    except GradcheckError as error:
        text = error.message
    if len(text) < 10 * LONGEST:
        yield "<details><summary>A script that shows the worst failure alone</summary>"
        yield f'<pre class="td-source">{escape(text)}</pre></details>'


def _shortened(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
