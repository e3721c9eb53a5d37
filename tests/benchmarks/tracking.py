"""The cost of tracking elements: launches recorded with `track="elements"` and without.

    make bench
    python -m tests.benchmarks.tracking --side 300 --rounds 5

The kernels are those of the net (`notebooks/net.py`): neighbours are gathered by index arithmetic, ends of
springs through arrays. A round records each kernel once on both kinds of tape, and
which of them begins alternates. The first launch of a tape makes the memory of the stamps: it is not timed.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.engines import OURS, ROOT, module_on
from tests.benchmarks.nets import launches
from tests.benchmarks.timing import duration

TRACKS = (None, "elements")
MOST = 5.0
"""The most that the spring kernel may cost, as a multiple of the same tape untracked."""


def recorded(wp: object, launch: Callable[[], None], before: Callable[[], None], track: str | None) -> float:
    """Seconds of one launch on a tape on which the same launch was recorded before."""
    with wp.Tape(track=track):  # type: ignore[attr-defined]
        before()
        launch()
        before()
        start = time.perf_counter()
        launch()
        return time.perf_counter() - start


def main(arguments: list[str] | None = None) -> int:
    """Time and print the table; with `--check`, exit status 1 if the spring kernel costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=1000, help="points along one edge (default: 1000)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true", help="exit with 1 if the springs cost too much")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        net = module_on(OURS, ROOT / "notebooks" / "net.py", Path(folder))
        todo = launches(net, options.side)
        seconds = {(name, track): [] for name in todo for track in TRACKS}
        for number in range(options.rounds + 1):
            for name, launch in todo.items():
                for track in TRACKS if number % 2 else TRACKS[::-1]:
                    took = recorded(net.wp, launch.forward, launch.before, track)
                    if number:  # the first round compiles
                        seconds[name, track].append(took)
    print(f"recording with track='elements', {options.side**2} points, {options.rounds} rounds")
    ratios = {}
    for name in todo:
        plain, tracked = seconds[name, None], seconds[name, "elements"]
        ratios[name] = statistics.median(tracked) / statistics.median(plain), min(tracked) / min(plain)
        print(
            f"{name:<16}{duration(min(plain)):>8} → {duration(min(tracked)):>8}   "
            f"ratio of medians {ratios[name][0]:.2f}, of minima {ratios[name][1]:.2f}"
        )
    dear = min(ratios["spring_forces"]) > MOST
    print(f"spring_forces: at most {MOST:g} times {'is missed' if dear else 'holds'}")
    return 1 if dear and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
