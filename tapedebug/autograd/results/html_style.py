"""The CSS of HTML results: JupyterLab's colours if available, else built-in light and dark colours."""

DARK = """
  --td-bg: var(--jp-layout-color1, #15181e); --td-bg-2: var(--jp-layout-color2, #1f242c);
  --td-fg: var(--jp-ui-font-color0, #e8eaee); --td-fg-2: var(--jp-ui-font-color2, #9aa3b0);
  --td-border: var(--jp-border-color2, #2c323b);
  --td-red: #ff7d80; --td-amber: #f0b056; --td-green: #55c887; --td-violet: #b58be0;
"""

STYLE = (
    """
.td-check {
  --td-bg: var(--jp-layout-color1, #ffffff); --td-bg-2: var(--jp-layout-color2, #f3f5f7);
  --td-fg: var(--jp-ui-font-color0, #1b2027); --td-fg-2: var(--jp-ui-font-color2, #58616d);
  --td-border: var(--jp-border-color2, #d4d9e0);
  --td-red: #b71c24; --td-amber: #8a5000; --td-green: #176b38; --td-violet: #7443a8;
  background: var(--td-bg); color: var(--td-fg); padding: 4px 2px; max-width: 1100px;
  font: 13px/1.45 var(--jp-ui-font-family, system-ui, -apple-system, "Segoe UI", sans-serif);
}
@media (prefers-color-scheme: dark) { :root:not(:has([data-jp-theme-light])) .td-check {"""
    + DARK
    + """} }
[data-jp-theme-light="false"] .td-check, .vscode-dark .td-check, [data-theme="dark"] .td-check {"""
    + DARK
    + """}
.td-check p, .td-check pre, .td-check figure { margin: 0; }
.td-check .td-head { font-size: 15px; }
.td-check .td-summary, .td-check .td-more, .td-check .td-facts { color: var(--td-fg-2); margin: 4px 0; }
.td-check .td-facts { font-size: 11px; }
.td-check .td-badge {
  display: inline-block; white-space: nowrap; padding: 0 7px;
  border: 1px solid currentColor; border-radius: 9px;
  font-size: 11px; line-height: 17px; font-weight: 600; letter-spacing: .02em;
}
.td-check .td-agree { color: var(--td-green); }
.td-check .td-wrong { color: var(--td-red); border-width: 2px; line-height: 15px; }
.td-check .td-kink, .td-check .td-undecidable { color: var(--td-amber); border-style: dashed; }
.td-check .td-nondeterministic { color: var(--td-violet); border-style: dotted; }
.td-check .td-pair { border-left: 3px solid var(--td-border); padding: 2px 0 4px 10px; margin: 10px 0; }
.td-check .td-title span:last-child { color: var(--td-fg-2); }
.td-check .td-message { margin: 4px 0; overflow-wrap: anywhere; }
.td-check .td-source {
  background: var(--td-bg-2); color: var(--td-fg); padding: 6px 8px; margin: 4px 0; overflow-x: auto;
  font: 12px/1.4 var(--jp-code-font-family, ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace);
}
.td-check .td-maps { display: flex; flex-wrap: wrap; gap: 14px; margin: 8px 0 2px; align-items: flex-start; }
.td-check figcaption { color: var(--td-fg-2); font-size: 12px; margin-bottom: 2px; font-style: normal; }
.td-check .td-map { display: block; overflow: visible; max-width: none; }
.td-check .td-cells { image-rendering: pixelated; }
.td-check .td-frame { fill: none; stroke: var(--td-fg-2); stroke-width: 1; }
.td-check .td-element { fill: none; stroke: var(--td-fg-2); stroke-width: 1; opacity: .7; }
.td-check .td-component { fill: none; stroke: var(--td-fg-2); stroke-width: .5; opacity: .35; }
.td-check .td-worst { fill: none; stroke: var(--td-fg); stroke-width: 2; }
.td-check .td-legend { font-size: 12px; color: var(--td-fg-2); padding-top: 19px; max-width: 260px; }
.td-check .td-legend p { margin-bottom: 6px; overflow-wrap: anywhere; }
.td-check .td-key { display: inline-block; width: 10px; height: 10px; vertical-align: -1px; }
.td-check .td-key-worst { border: 2px solid var(--td-fg); width: 7px; height: 7px; }
.td-check .td-key-plus { background: #3f7fe8; }
.td-check .td-key-minus { background: #ce841c; }
.td-check .td-key-unknown { background: #808080; opacity: .43; }
.td-check .td-key-broken { background: #9a5ed6; }
.td-check .td-scroll { overflow-x: auto; margin: 8px 0; }
.td-check table { border-collapse: collapse; font-size: 12px; margin: 0; color: var(--td-fg); border: none; }
.td-check th, .td-check td {
  text-align: left; padding: 3px 12px 3px 4px; border: none; border-bottom: 1px solid var(--td-border);
  white-space: nowrap; background: none; font-variant-numeric: tabular-nums; max-width: none;
}
.td-check th { color: var(--td-fg-2); font-weight: 600; }
.td-check .td-notes { color: var(--td-fg-2); margin: 6px 0; }
.td-check .td-notes ul { margin: 2px 0; padding-left: 20px; }
.td-check .td-notes li { overflow-wrap: anywhere; }
.td-check details { margin: 6px 0; }
.td-check summary { cursor: pointer; color: var(--td-fg-2); }
"""
)

PAGE_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0; padding: 20px; background: #ffffff; }
body .td-check { margin: 0 auto; }
@media (prefers-color-scheme: dark) { body { background: #15181e; } }
@media print { .td-check .td-scroll { overflow: visible; } }
"""
