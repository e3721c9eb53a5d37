"""A shell of its own for each test, and a tape with a wrong gradient."""

import pytest
from traitlets.config import Config

import tapedebug as wp
from tests.wrong_tape import square, total, wrong_tape


@pytest.fixture
def shell(tmp_path, monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell.instance(config=config)
    shell.user_ns.update(wp=wp, square=square, total=total)
    shell.run_line_magic("load_ext", "tapedebug")
    yield shell
    InteractiveShell.clear_instance()


@pytest.fixture
def front_end(shell):
    """Let the shell look like one behind a Jupyter front end."""
    shell.kernel = object()
    shell.parent_header = {"header": {"msg_id": "1"}, "metadata": {"cellId": "cell-1"}}
    return shell


@pytest.fixture
def wrong():
    return wrong_tape()
