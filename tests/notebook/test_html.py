"""The static form: findings and lines, escaped, without script."""

from html.parser import HTMLParser

from tapedebug.notebook._html import MOST_FINDINGS, trace_html
from tests.notebook.net_trace import net_trace


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def read(html):
    reader = Reader()
    reader.feed(html)
    return reader


def test_it_says_what_is_wrong_and_where():
    trace = net_trace()
    shown = read(trace_html(trace))
    finding = trace["findings"][0]
    assert "gradient WRONG" in shown.text
    assert f"✕ overwrite · {', '.join(finding['arrays'])}" in shown.text
    assert finding["message"] in shown.text
    site = finding["call_site"]
    assert f"launched at {site['file']}:{site['line']}" in shown.text
    assert finding["fix"] in shown.text


def test_names_stay_text():
    trace = net_trace()
    evil = "</script><img src=x onerror=alert(1)>"
    trace["name"] = evil
    finding = trace["findings"][0]
    finding["arrays"], finding["message"], finding["severity"] = [evil], evil, "<b>"
    shown = read(trace_html(trace, note=evil))
    assert {"script", "img", "b"}.isdisjoint(shown.tags)
    assert shown.text.count(evil) == 4


def test_long_lists_are_cut_and_say_so():
    trace = net_trace()
    trace["findings"] = [trace["findings"][0]] * (MOST_FINDINGS + 3)
    shown = read(trace_html(trace))
    assert shown.tags.count("li") == MOST_FINDINGS
    assert "3 more not shown." in shown.text


def test_nothing_found():
    trace = net_trace()
    trace["findings"] = []
    assert "No findings." in read(trace_html(trace)).text
