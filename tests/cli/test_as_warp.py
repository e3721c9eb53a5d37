"""`tapedebug run --as-warp`: programs that say `import warp as wp`, whether or not Warp is installed."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from types import ModuleType

import pytest

import tapedebug
from tapedebug._script import run_script
from tapedebug.aswarp import WarpImportError, as_warp
from tests.cli.test_run import command

KERNELS = """
import warp as wp

@wp.kernel
def cool(t: wp.array(dtype=float), k: wp.array(dtype=float), t_next: wp.array(dtype=float)):
    i = wp.tid()
    t_next[i] = t[i] - k[i] * t[i] * t[i]

@wp.kernel
def total(t: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, t[wp.tid()])
"""

PROGRAM = """
import numpy as np
import warp as wp
import warp.optim
from warp.optim import Adam
from kernels import cool, total

wp.init()
wp.config.quiet = True
wp.config.verify_cuda = False
wp.config.log_level = wp.LOG_WARNING
wp.set_device("cpu")

with wp.ScopedDevice("cpu") as device:
    assert not device.is_cuda
    t = wp.array(np.linspace(0.2, 0.8, 4), dtype=wp.float32, requires_grad=True)
    other = wp.zeros_like(t)
    k = wp.full(4, 0.5, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape, wp.ScopedTimer("steps", active=False):
        for _ in range(3):
            wp.launch(cool, dim=4, inputs=[t, k], outputs=[other])
            t, other = other, t
        wp.launch(total, dim=4, inputs=[t], outputs=[loss])
    tape.backward(loss)
    assert isinstance(wp.optim.Adam([k]), Adam)
print(wp.__version__ == wp.config.version, k.grad.numpy())
"""


def as_program(tmp_path: Path, body: str, *options: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "script.py").write_text(textwrap.dedent(body), encoding="utf-8")
    return command(tmp_path, "run", "--as-warp", *options, "script.py")


def line_of(text: str, source: str) -> int:
    return next(number for number, line in enumerate(source.splitlines(), start=1) if text in line)


def test_a_program_for_warp_runs_unedited_and_is_told_what_warp_would_have_consumed(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS, encoding="utf-8")
    done = as_program(tmp_path, PROGRAM, "--json", "out.json")
    assert done.returncode == 1, done.stderr
    write, launch = line_of("t_next[i] =", KERNELS), line_of("wp.launch(cool", PROGRAM)
    # warp-lang 1.19 prints [-0.06480323 -0.15237749 -0.21447478 -0.24890527]
    assert done.stdout.splitlines()[0] == "True [-0.08135068 -0.22668287 -0.3674819  -0.49082366]"
    assert done.stdout.partition("\n")[2] == (
        f"""
script.py · tape 1 · 4 launches · on_overwrite='preserve' · gradient AGREE, 1 error
  coverage: 4 of 4 launches checked end to end; agrees to 8e-8

  ✕ error · overwrite · other, t
    Launch 1 (cool) overwrites values of other (at kernels.py:{write}) that the adjoint of launch 0 (cool)
    needs (read at kernels.py:{write}): 4 of 4 elements changed value, by up to 0.435. Here the tape kept
    a copy of other, so the gradient is right. Warp keeps none: its gradient of other is off by
    46 %, that of k by 45 % (0.283 in place of 0.0661 for other[3]). 1 more like it (×2).
    kernel at kernels.py:{write}, in cool
        t_next[i] = t[i] - k[i] * t[i] * t[i]
    launched at script.py:{launch}, in <module>
        wp.launch(cool, dim=4, inputs=[t, k], outputs=[other])
    fix: give cool an array of its own for t_next in each round instead of using the same ones again

tapedebug: 1 tape diagnosed: 1 error, 0 warnings, 0 infos
wrote {tmp_path / "out.json"}
"""
    )
    data = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert (data["schema"], data["verdict"]) == (1, "AGREE")
    (finding,) = data["findings"]
    assert finding["location"]["file"] == str(tmp_path / "kernels.py")


def test_ignore_reproduces_the_trajectory_of_warp(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS, encoding="utf-8")
    done = as_program(tmp_path, PROGRAM, "--on-overwrite", "ignore")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "True [-0.06480323 -0.15237749 -0.21447478 -0.24890527]"
    assert " · gradient WRONG\n" in done.stdout
    assert "That puts the\n    gradient of other off by 46 %, that of k by 45 %." in done.stdout


def test_a_module_that_is_not_here_ends_the_program_at_its_line(tmp_path: Path) -> None:
    done = as_program(tmp_path, "import warp as wp\nimport warp.sim\n", "--json", "out.json")
    assert done.returncode == 2
    script = tmp_path / "script.py"
    assert done.stderr == (
        f'Traceback (most recent call last):\n  File "{script}", line 2, in <module>\n    import warp.sim\n'
        "tapedebug.aswarp._errors.WarpImportError: `warp.sim` is not in tapedebug: Warp itself has moved it "
        "to the package Newton\n"
        f"  --> {script}:2, in <module>\n"
        "   | import warp.sim\n   | ^^^^^^^^^^^^^^^\n"
        "  = note: this program runs on tapedebug in place of Warp (--as-warp)\n"
        "  = hint: NVIDIA Warp itself can run the program and be watched: `tapedebug run script.py`; or "
        "import warp.sim only where it is used (`try: … except ImportError: …`)\n"
    )
    assert done.stdout.startswith("\nno tape was recorded: nothing to check\n")
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["tapes"] == []


@pytest.mark.parametrize(
    ("line", "messages"),
    [
        ("from warp import Mesh", "WarpImportError: warp.Mesh exists in NVIDIA Warp only: meshes"),
        ("wp.Mesh(1)", "WarpNameError: warp.Mesh exists in NVIDIA Warp only: meshes, BVHs"),
        ("wp.luanch", "WarpNameError: warp has no name 'luanch'; did you mean 'launch'?"),
        ("import warp.fem as fem", "WarpImportError: `warp.fem` is not in tapedebug: finite elements"),
        ("import warp._src.build", "WarpImportError: `warp._src.build` is not in tapedebug: these are the"),
        ("from warp._src.context import runtime", "WarpImportError: warp._src.context has no name 'runtime'"),
        (
            "from warp.render import UsdRenderer",
            "WarpImportError: warp.render.UsdRenderer is not in tapedebug",
        ),
        (
            "import warp.render; wp.render.UsdRenderer('f')",
            "WarpNameError: warp.render.UsdRenderer is not in",
        ),
        ("wp.capture_save", "WarpNameError: warp.capture_save exists in NVIDIA Warp only: recording"),
        ("wp.get_stream()", "DeviceError: Stream needs a CUDA device; this engine runs on the CPU"),
        ("wp.set_device('cuda:0')", "DeviceError: there is no device 'cuda:0': this version runs on"),
    ],
)
def test_a_name_that_is_not_here_is_told_with_its_line(tmp_path: Path, line: str, messages: str) -> None:
    done = as_program(tmp_path, f"import warp as wp\n{line}\n")
    assert done.returncode == 2
    assert messages in done.stderr
    assert 'script.py", line 2, in <module>' in done.stderr
    assert "/tapedebug/" not in done.stderr


KERNEL = """
import warp as wp

@wp.kernel
def near(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    {line}

wp.launch(near, dim=1, inputs=[wp.zeros(1, dtype=float), wp.zeros(1, dtype=float)])
"""
ON_WARP = "hint: NVIDIA Warp itself can run the program and be watched: `tapedebug run script.py`"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("t = wp.tile_load(x, shape=1)", ON_WARP),
        ("q = wp.mesh_query_point(wp.uint64(0), wp.vec3(), 1.0)", ON_WARP),
        ("y[i] = wp.synus(x[i])", "hint: `tapedebug run script.py` runs the program on NVIDIA Warp itself"),
    ],
)
def test_a_kernel_that_this_engine_does_not_have_can_run_on_warp(
    tmp_path: Path, line: str, hint: str
) -> None:
    done = as_program(tmp_path, KERNEL.format(line=line))
    assert done.returncode == 2
    assert done.stderr.count("tapedebug run script.py") == 1
    assert hint in done.stderr


def test_a_block_in_a_notebook_or_test_names_the_block_that_watches() -> None:
    with as_warp(), pytest.raises(WarpImportError) as caught:
        importlib.import_module("warp.sim")
    assert "be watched: `with tapedebug.watch_warp():`; or import warp.sim only where" in str(caught.value)


def test_a_program_may_ask_before_it_uses(tmp_path: Path) -> None:
    body = """
    import warp as wp
    import warp.render
    try:
        import warp.sim
    except ImportError:
        print("no simulation", hasattr(wp.render, "UsdRenderer"))
    try:
        from warp import Mesh
    except ImportError as error:
        print("no", error.name)
    print(hasattr(wp, "Mesh"), getattr(wp, "HashGrid", None), wp.is_cuda_available())
    from warp import *
    print(vec3 is wp.vec3)
    """
    done = as_program(tmp_path, body)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:4] == ["no simulation False", "no warp", "False None False", "True"]


def test_a_program_that_names_cuda_runs_on_the_cpu_where_that_is_asked_for(tmp_path: Path) -> None:
    body = """
    import warp as wp
    wp.set_device("cuda:0")
    with wp.ScopedDevice("cuda"):
        x = wp.zeros(3, dtype=float, device="cuda:1")
    print(x.device, wp.is_cuda_available())
    """
    done = as_program(tmp_path, body, "--cuda-on-cpu")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "cpu False")
    assert as_program(tmp_path, body).returncode == 2


def test_the_files_of_the_examples_are_those_of_the_warp_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "warp").mkdir()
    (tmp_path / "warp" / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with as_warp():
        module = importlib.import_module("warp.examples")
        assert module.get_asset_directory() == str(tmp_path / "warp" / "examples" / "assets")
        monkeypatch.setattr(sys, "path", [])
        with pytest.raises(WarpImportError, match="the examples of Warp are not on this machine"):
            module.get_source_directory()


# ------------------------------------------------------------------ in one process


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """Another package `warp`, imported already, and a package that was imported with it."""
    (tmp_path / "warp").mkdir()
    (tmp_path / "warp" / "__init__.py").write_text("name = 'installed'\n", encoding="utf-8")
    (tmp_path / "garden.py").write_text("import warp as wp\nname = wp.__name__\n", encoding="utf-8")
    for name in [name for name in sys.modules if name.partition(".")[0] == "warp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    import garden  # type: ignore[import-not-found]

    yield garden.wp
    for name in ("warp", "garden"):
        sys.modules.pop(name, None)


def test_nothing_stays_behind(installed: ModuleType, tmp_path: Path) -> None:
    import garden

    script = tmp_path / "script.py"
    text = "import warp as wp, garden\nassert garden.wp is wp\nwp.vec3\nwp.config.max_unroll = 3\nwp.Mesh"
    script.write_text(text, encoding="utf-8")
    before, finders, path = dict(sys.modules), list(sys.meta_path), list(sys.path)
    for _ in range(2):
        with as_warp():
            outcome = run_script(script, [])
        assert outcome.reason == "WarpNameError", outcome.message
        assert sys.meta_path == finders
        assert sys.path == path
        assert tapedebug.config.max_unroll == 16
        assert sys.modules["warp"] is installed
        assert sys.modules["garden"] is garden
        assert all(sys.modules[name] is module for name, module in before.items())
        assert not [
            name for name in sys.modules.keys() - before.keys() if name.startswith(("warp", "garden"))
        ]


def test_a_package_that_refers_to_warp_in_part_is_restored_as_a_whole(
    installed: ModuleType, tmp_path: Path
) -> None:
    package = tmp_path / "orchard"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "trees.py").write_text("import warp as wp\n", encoding="utf-8")
    (package / "numbers.py").write_text("class Number: pass\n", encoding="utf-8")
    importlib.import_module("orchard.trees")
    numbers = importlib.import_module("orchard.numbers")
    with as_warp():
        assert importlib.import_module("orchard.numbers") is not numbers
    assert sys.modules["orchard.numbers"] is numbers
    for name in [name for name in sys.modules if name.partition(".")[0] == "orchard"]:
        del sys.modules[name]


def test_blocks_nest_and_end_with_an_exception(installed: ModuleType) -> None:
    with pytest.raises(WarpImportError), as_warp():
        import warp as outer

        with as_warp():
            import warp as inner
        assert sys.modules["warp"] is outer
        assert inner is not outer
        importlib.import_module("warp.sim")
    assert sys.modules["warp"] is installed


def test_a_module_that_was_imported_in_a_block_goes_on_working(installed: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "cooling.py").write_text(
        KERNELS + "\ndef vec():\n    return wp.types.vec3\n", encoding="utf-8"
    )
    with as_warp():
        import cooling  # type: ignore[import-not-found]
    assert "cooling" not in sys.modules
    import tapedebug as td

    assert cooling.vec() is td.vec3


class Deprecated:
    """A name of a module that warns when it is asked what it is, as PyTorch's do."""

    @property
    def __class__(self) -> type:
        warnings.warn("use another name", FutureWarning, stacklevel=2)
        return type(self)


def test_names_of_other_modules_are_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("library_with_an_old_name")
    module.old = Deprecated()  # type: ignore[attr-defined]
    with pytest.warns(FutureWarning):
        isinstance(module.old, type)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with as_warp():
            pass
