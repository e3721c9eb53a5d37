"""Questions of a panel: who answers, and what is said where nobody does."""

import pytest

from tapedebug.notebook import _comm
from tapedebug.panel import queries
from tapedebug.panel.panel_source import subject_of
from tests.notebook.test_comm import Channel


@pytest.fixture
def counting(monkeypatch):
    def count(subject, question):
        return queries.Answer({"launches": subject.source.tape.launches * question["times"]}, [b"\x01\x02"])

    monkeypatch.setitem(queries.KINDS, "count", count)


def test_an_answer_has_data_and_buffers(wrong, counting):
    tape, _, _ = wrong
    sent = []
    queries.answer_later(
        subject_of(tape), {"type": "count", "times": 2}, 7, lambda *message: sent.append(message)
    ).join()
    assert sent == [({"type": "answer", "request": 7, "data": {"launches": 8}}, [b"\x01\x02"])]


@pytest.mark.parametrize("question", [{"type": "fortune"}, {}, None, [1]])
def test_what_nobody_can_answer_is_refused_in_words(wrong, question):
    tape, _, _ = wrong
    sent = []
    queries.answer_later(subject_of(tape), question, 1, lambda *message: sent.append(message)).join()
    kind = question.get("type") if isinstance(question, dict) else None
    text = f"The kernel's tapedebug does not know the question {kind!r}."
    assert sent == [({"type": "refused", "request": 1, "message": text}, [])]


def test_the_comm_answers_about_a_tape(wrong, counting, monkeypatch):
    tape, _, _ = wrong
    channel = Channel()
    sent = []
    channel.send = lambda data, buffers=(): sent.append((data, list(buffers)))
    _comm.opened(channel)
    started = []
    later = queries.answer_later
    monkeypatch.setattr(_comm, "answer_later", lambda *args: started.append(later(*args)))
    question = {"type": "count", "times": 3}
    channel.hear({"content": {"data": {"type": "ask", "tape": tape.id, "request": 5, "question": question}}})
    started[0].join()
    assert sent[-1] == ({"type": "answer", "request": 5, "data": {"launches": 12}}, [b"\x01\x02"])
    assert sent[0][0]["type"] == "hello"
