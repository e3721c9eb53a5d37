"""The page of a report: escaped JSON, the front end inline, and a summary for use without JavaScript."""

from __future__ import annotations

import base64
import gzip
import json
import os
import time
from collections.abc import Iterator
from html import escape
from typing import Any

from tapedebug.report._assets import Assets
from tapedebug.report._sentences import TITLES
from tapedebug.trace.level import LEVEL_SIGNS, gradient_words, level_of

Json = dict[str, Any]

MOST_PLAIN = 2_000_000
"""Largest number of characters of data that are embedded uncompressed."""
MOST_LISTED = 200
"""Largest number of findings, and of checks, in the summary without JavaScript."""
_SIGNS = {"error": "✕", "warning": "!", "info": "i"}

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<meta name="format-detection" content="telephone=no">
<meta name="description" content="{description}">
<meta name="generator" content="tapedebug {version}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main id="tapedebug-panel"></main>
<noscript><div class="tapedebug-summary">
{summary}
</div></noscript>
<script type="{kind}" id="tapedebug-trace">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def embed_json(value: object) -> str:
    """Return `value` as JSON that is safe inside any HTML element.

    Characters that could end the element, open a comment or break a line in JavaScript are escaped; JSON
    parsers read the escapes as the same characters.
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def embed_data(value: object) -> tuple[str, str]:
    """Return the type and the text of the element that carries `value`.

    Large data is packed (gzip, base64), which browsers can unpack without a library. Small data is embedded
    as plain JSON, for readers and other tools; the columns of traces are packed in any case.
    """
    text = embed_json(value)
    if len(text) <= MOST_PLAIN:
        return "application/json", text
    packed = gzip.compress(text.encode("ascii"), compresslevel=6, mtime=0)
    return "application/gzip+base64", base64.b64encode(packed).decode("ascii")


def build_page(payload: Json, assets: Assets, version: str) -> str:
    """Return the complete HTML file.

    Args:
        payload: The data for the script: `traces` (sealed), `notes`, `answers`, and `diff` if two tapes are
            compared.
        assets: The front end.
        version: The version of tapedebug.
    """
    written = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(_now()))
    kind, data = embed_data({**payload, "version": version, "written": written})
    title = _title(payload)
    return _PAGE.format(
        description=escape(f"Gradients of {title[:200]}, written {written}", quote=True),
        policy=escape(assets.policy, quote=True),
        version=escape(version, quote=True),
        title=escape(f"{title} · tapedebug"),
        style=assets.style,
        summary="\n".join(_summary(payload)),
        kind=kind,
        data=data,
        script=assets.script,
    )


def _now() -> float:
    """Return the time, or the one that is set for reproducible builds."""
    return float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())


def _title(payload: Json) -> str:
    traces = _heads(payload)
    name = str(traces[0]["name"])[:120]
    if "diff" in payload:
        return f"{name} → {str(traces[1]['name'])[:120]} · before and after"
    if len(traces) > 1:
        name += f" and {len(traces) - 1} more"
    return f"{name} · {_worst(traces)}"


def _tape_title(trace: Json) -> str:
    """Return the name and number of a tape; the number alone if it has no name."""
    name, numbered = str(trace["name"]), f"tape {trace['tape']['id']}"
    if name in ("", "tape"):
        return numbered
    return name if name.endswith(numbered) else f"{name} · {numbered}"


def _heads(payload: Json) -> list[Json]:
    return [trace["head"] for trace in payload["traces"]]


def _worst(traces: list[Json]) -> str:
    order = ("WRONG", "NONDETERMINISTIC", "KINK", "UNDECIDABLE", "NOT CHECKED", "AGREE")
    return min((str(trace["verdict"]) for trace in traces), key=order.index)


def _summary(payload: Json) -> Iterator[str]:
    if "diff" in payload:
        yield "<h1>Before and after</h1>"
        yield from _opening(payload["diff"]["sentences"])
        yield f"<pre>{escape(payload['diff']['text'])}</pre>"
    for trace, opening in zip(_heads(payload), payload["sentences"], strict=True):
        yield f"<h1>{escape(_tape_title(trace))}</h1>"
        yield from _opening(opening)
        coverage = trace["coverage"]
        yield f"<p><strong>{escape(_badge(trace))}.</strong> {escape(coverage['summary'])}</p>"
        notes = [*coverage["notes"], *trace.get("notes", ())]
        yield from (f"<p>{escape(note)}</p>" for note in notes)
        yield from _findings(trace["findings"])
        yield from _checks([check for check in trace["checks"] if check["verdict"] is not None])
        yield from _events(trace)
        if trace["tape"].get("engine"):
            yield f"<p>Engine: {escape(trace['tape']['engine'])}</p>"
        facts = ", ".join(f"{key} {value}" for key, value in trace["environment"].items())
        yield f"<p>{escape(facts)}</p>"
    yield from (f"<p>{escape(note)}</p>" for note in payload["notes"])
    yield "<p>The lanes, the source and the values need JavaScript; they are in this file.</p>"


def _badge(trace: Json) -> str:
    severities = [finding["severity"] for finding in trace["findings"]]
    verdict, partial = trace["verdict"], bool(trace["coverage"].get("partial"))
    sign = LEVEL_SIGNS[level_of(verdict, severities, partial=partial)]
    return f"{sign} {gradient_words(verdict, severities, partial=partial)}"


def _opening(opening: list[str]) -> Iterator[str]:
    for title, sentence in zip(TITLES, opening, strict=True):
        yield f"<p><strong>{title}:</strong> {escape(sentence)}</p>"


def _findings(findings: list[Json]) -> Iterator[str]:
    yield "<h2>Findings</h2>"
    if not findings:
        yield "<p>None.</p>"
        return
    yield "<ul>"
    for finding in findings[:MOST_LISTED]:
        arrays = f" · {', '.join(finding['arrays'])}" if finding["arrays"] else ""
        heading = f"{_SIGNS.get(finding['severity'], '')} {finding['rule']}{arrays}"
        yield f"<li><strong>{escape(heading)}</strong><br>{escape(finding['message'])}"
        for label, place in (("kernel", finding["location"]), ("called", finding["call_site"])):
            if place:
                where = f"{label}: {place['file']}:{place['line']}, in {place['function']}"
                yield f"<br><code>{escape(where)}</code>"
        if finding["fix"]:
            yield f"<br>→ {escape(finding['fix'])}"
        yield "</li>"
    yield "</ul>"
    if len(findings) > MOST_LISTED:
        yield f"<p>and {len(findings) - MOST_LISTED} more, not listed here</p>"


def _checks(checks: list[Json]) -> Iterator[str]:
    if not checks:
        return
    yield "<h2>Checks</h2><table>"
    yield _row("th", "launch", "output", "input", "verdict", "relative error")
    for check in checks[:MOST_LISTED]:
        launch = "whole tape" if check["launch"] is None else str(check["launch"])
        error = check["max_rel_error"]
        shown = "–" if error is None else f"{float(error):.2g}"
        yield _row("td", launch, check["output"], check["input"], check["verdict"], shown)
    yield "</table>"
    if len(checks) > MOST_LISTED:
        yield f"<p>and {len(checks) - MOST_LISTED} more, not listed here</p>"


def _events(trace: Json) -> Iterator[str]:
    if not trace["events"]:
        return
    yield "<h2>Around the tape</h2><ul>"
    for event in trace["events"][-MOST_LISTED:]:
        array, site = event["array"], event["call_site"]
        what = "the tape" if array is None else f"{event['of']} of {trace['arrays'][array]['label']}"
        where = f" at {site['file']}:{site['line']}" if site else ""
        yield f"<li>{escape(event['kind'] + ': ' + what + where)}</li>"
    yield "</ul>"


def _row(tag: str, *cells: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
