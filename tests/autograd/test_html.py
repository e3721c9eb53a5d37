"""Results as HTML: escaped, small, with nothing from elsewhere; heat maps that show what is wrong."""

import html.parser
import re
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._csp import source_hash
from tapedebug.autograd import GradcheckResult, gradcheck
from tapedebug.autograd.finite_diff.compared_entries import ComparedEntries
from tapedebug.autograd.results.heatmap import BROKEN, LEVELS, MOST_CELLS, UNKNOWN, Blocks, heat_map, png
from tapedebug.autograd.results.pair_result import Entry, Layout
from tests.autograd import kernels as k

QUIET: dict[str, Any] = {"raise_exception": False, "show_summary": False}
VOID = {"meta", "br", "image", "rect", "path"}
RNG = np.random.default_rng(0)


class Checker(html.parser.HTMLParser):
    """Elements are closed in order; keeps what is of interest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.seen if name == tag]


def wrong(n: int = 3) -> GradcheckResult:
    x = k.vector(np.linspace(0.75, 1.5, n))
    return gradcheck(k.with_adjoint_of(k.square, k.except_thread_0), n, [x], [wp.zeros_like(x)], **QUIET)


def test_a_failure_is_shown_with_its_message_its_line_and_three_maps() -> None:
    result = wrong()
    shown = Checker(result._repr_html_())
    pair = result.pairs[0]
    assert "✕ WRONG Gradient check for kernel square failed" in shown.text
    assert " ".join(pair.message.split()) in shown.text
    assert "y[i] = x[i] * x[i] | ^^^^" in shown.text
    assert len(shown.of("svg")) == len(shown.of("image")) == 3
    assert sum(attrs.get("class") == "td-worst" for attrs in shown.of("rect")) == 3
    assert "1 input-output pairs checked, 9 of 9 entries" in shown.text
    assert shown.of("script") == []
    assert not any(attrs.get("style") for _, attrs in shown.seen)  # a page's policy would not allow them


def test_agreement_says_so() -> None:
    x = k.vector([1.0, 2.0])
    shown = Checker(gradcheck(k.square, 2, [x], [wp.zeros_like(x)], **QUIET)._repr_html_())
    assert "✓ AGREE Gradient check for kernel square passed" in shown.text
    assert "✕" not in shown.text


def test_a_check_of_nothing_is_shown_too() -> None:
    x = k.vector([1.0], grad=False)
    shown = Checker(gradcheck(k.square, 1, [x], [x], **QUIET).to_html())
    assert "? UNDECIDABLE" in shown.text
    assert "not checked: x has requires_grad=False" in shown.text


def test_what_users_write_is_escaped() -> None:
    evil = '<img src=x onerror="alert(1)">&"\''
    result = wrong()
    pair = replace(result.pairs[0], message=evil, input=evil, output=evil, subject=evil, check=evil)
    coverage = replace(result.coverage, summary=evil, notes=(evil,))
    other = replace(result, subject=evil, pairs=(pair,), coverage=coverage, environment={evil: evil})
    for text in (other._repr_html_(), other.to_html()):
        shown = Checker(text)
        assert shown.of("img") == []
        assert evil in shown.text


def test_the_page_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "check.html"
    text = wrong().to_html(path)
    assert path.read_text("utf-8") == text
    shown = Checker(text)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    policies = [a["content"] for a in shown.of("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    allowed = f"style-src {source_hash(style)}; img-src data:"
    assert policies == [f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"]
    assert "@import" not in style and "url(" not in style
    links = [value for _, attrs in shown.seen for name, value in attrs.items() if name in ("src", "href")]
    assert links and all(str(link).startswith("data:image/png;base64,") for link in links)
    assert "def square" in shown.text  # the script that shows it alone


def test_it_stays_small() -> None:
    result = wrong(200)
    pair = result.pairs[0]
    assert pair.compared is not None
    ad, fd = RNG.normal(size=(2, len(pair.compared)))
    noisy = replace(pair.compared, ad=ad, fd=fd)
    many = tuple(
        replace(pair, launch=n, subject=f"launch {n} (square)", compared=noisy, message="m" * 20_000)
        for n in range(2000)
    )
    notes = tuple(f"note {n} " + "w" * 500 for n in range(1000))
    large = replace(result, pairs=many, coverage=replace(result.coverage, notes=notes))
    text = large._repr_html_()
    assert len(text.encode()) < 300_000
    assert "120 of 2000 pairs are listed." in text
    assert "1988 more pairs that do not agree: see the table." in text
    assert "and 960 more notes" in text


def test_failing_pairs_are_listed_where_not_all_are() -> None:
    result = wrong()
    good = replace(result.pairs[0], verdict="AGREE", message="")
    pairs = (*[replace(good, launch=n) for n in range(300)], result.pairs[0])
    text = replace(result, pairs=pairs)._repr_html_()
    assert text.count('<tr class="td-row-wrong">') == 1
    assert text.count('<tr class="td-row-agree">') == 119


# ------------------------------------------------------------------ heat maps


def compared(ad: np.ndarray, fd: np.ndarray, zeros: bool = False, known: Any = None) -> ComparedEntries:
    rows, columns = np.nonzero(np.ones(fd.shape) if known is None else known)
    return ComparedEntries(
        fd.shape, rows, columns, ad[rows, columns], fd[rows, columns], np.zeros(len(rows)), zeros=zeros
    )


def pixels(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Decode: colour indices, and the palette with alpha."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    parts, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert zlib.crc32(name + body) == struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0]
        parts[name] = body
        at += 12 + length
    width, height, depth, kind = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    assert (depth, kind) == (8, 3)
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, width + 1)
    palette = np.frombuffer(parts[b"PLTE"], np.uint8).reshape(-1, 3)
    alpha = np.frombuffer(parts[b"tRNS"], np.uint8)[:, None]
    return lines[:, 1:], np.concatenate([palette, alpha], axis=1)


def test_colours_say_sign_size_and_what_is_no_number() -> None:
    ad = np.array([[2.0, -1.0, 0.0], [np.nan, np.inf, 1e-9]])
    known = np.array([[1, 1, 1], [1, 1, 0]])
    blocks = Blocks.of(compared(ad, np.zeros((2, 3)), known=known))
    cells, palette = pixels(png(blocks.signed(blocks.ad)))
    assert cells.tolist() == [[LEVELS, LEVELS + LEVELS // 2, 0], [BROKEN, BROKEN, UNKNOWN]]
    blue, amber, _ = palette[LEVELS], palette[2 * LEVELS], palette[0]
    assert blue[2] > blue[1] > blue[0] and amber[0] > amber[1] > amber[2]  # as in the panel
    assert palette[0][3] == 0 and blue[3] == 255  # zero is the colour of the page
    assert len({tuple(palette[i]) for i in (LEVELS, 2 * LEVELS, 3 * LEVELS, UNKNOWN, BROKEN)}) == 5
    errors, _ = pixels(png(Blocks.of(compared(np.array([[2.0, 0.0]]), np.zeros((1, 2)))).errors()))
    assert errors.tolist() == [[3 * LEVELS, 0]]  # red, and no colour of a value


def test_entries_that_a_sparsity_rules_out_are_zero_not_unknown() -> None:
    blocks = Blocks.of(compared(np.eye(2), np.eye(2), zeros=True, known=np.eye(2)))
    assert blocks.signed(blocks.ad).tolist() == [[LEVELS, 0], [0, LEVELS]]


def test_a_single_wrong_entry_of_a_large_jacobian_is_seen() -> None:
    n = 1000
    fd = RNG.normal(size=(n, n))
    ad = fd.copy()
    ad[713, 29] += 1.0
    blocks = Blocks.of(compared(ad, fd))
    assert blocks.reduced and blocks.ad.shape == (MOST_CELLS, MOST_CELLS)
    cells = blocks.errors()
    assert np.argwhere(cells).tolist() == [[713 * MOST_CELLS // n, 29 * MOST_CELLS // n]]
    assert blocks.ad[713 * MOST_CELLS // n, 29 * MOST_CELLS // n] == ad[713, 29]


def test_lines_between_elements_and_components_and_the_mark() -> None:
    blocks = Blocks.of(compared(np.ones((6, 4)), np.ones((6, 4))))
    worst = Entry((1, 2), (3,), 1.0, 1.0, 0.0)
    text = heat_map(blocks.errors(), blocks, Layout((2, 3), (4,), 3, 1), "of d y / d x", worst)
    shown = Checker(text)
    paths = {str(a["class"]): str(a["d"]) for a in shown.of("path")}
    across = [str(a["d"]) for a in shown.of("path") if str(a["d"]).startswith("M0 ")]
    assert set(paths) == {"td-element", "td-component"}
    assert [path.count("M") for path in across] == [1, 4]  # two elements of three components
    cell = float(str(shown.of("image")[0]["height"])) / 6
    mark = next(a for a in shown.of("rect") if a["class"] == "td-worst")
    assert float(str(mark["y"])) == pytest.approx(5 * cell, abs=0.02)
    assert float(str(mark["x"])) == pytest.approx(3 * cell, abs=0.02)
