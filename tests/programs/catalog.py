"""The programs that are watched: their package, how they are started, and what they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DRIVERS = Path(__file__).parent / "drivers"
"""A few lines each, which call a public function of a package that has no program with a tape."""

PACKAGES = {
    "warp-lang": "warp",
    "newton": "newton",
    "warp-nn": "warp_nn",
    "nvalchemi-toolkit-ops": "nvalchemiops",
    "sphwarpcore": "sphWarpCore",
}
"""The packages, and the names under which they are imported."""

REQUIREMENTS = {
    "warp-lang": "1.19.0",
    "newton": "1.8.0",
    "warp-nn": "0.4.1",
    "nvalchemi-toolkit-ops": "0.5.0",
    "sphwarpcore": "0.4.5",
    "torch": "2.13.0",
    "usd-core": "26.11",
    "nlopt": "2.11.0",
    "scipy": "1.17.1",
    "Pillow": "13.0.0",
    "matplotlib": "3.11.2",
}
"""The releases that were watched, with what their programs need, such as the extra `examples` of warp-lang."""


@dataclass(frozen=True)
class Program:
    """A program that runs on NVIDIA Warp, on the CPU, in a few steps.

    Attributes:
        package: The package that pip installs.
        target: A module of the package, or a file of `DRIVERS`.
        arguments: The command line.
    """

    package: str
    target: str
    arguments: str = ""

    @property
    def name(self) -> str:
        """The name in the table."""
        return self.target.rpartition(".")[2].removeprefix("example_").removeprefix("diffsim_")

    @property
    def file(self) -> Path | None:
        """The file of a driver; None for a module of the package."""
        return None if "." in self.target else DRIVERS / f"{self.target}.py"


def _examples(package: str, folder: str, common: str, programs: dict[str, str]) -> list[Program]:
    return [
        Program(package, f"{folder}.example_{name}", f"{common} {arguments}".strip())
        for name, arguments in programs.items()
    ]


FLUID = "--num-frames 4 --train-iters 1 --segment-size 2 --pressure-iterations 4"

PROGRAMS = [
    *_examples(
        "warp-lang",
        "warp.examples.optim",
        "--headless --device cpu",
        {
            "diffray": "--train-iters 2 --height 24",
            "fluid_checkpoint": FLUID,
            "fluid_checkpoint_custom_backward": FLUID,
            "navier_stokes_perturbation": "--spin-up-steps 2 --lead-steps 2 --train-iters 1",
        },
    ),
    *_examples(
        "warp-lang",
        "warp.examples.fem",
        "--headless --device cpu",
        {
            "cantilever_topology_optimization": "--nx 8 --ny 4 --max-evals 2",
            "darcy_ls_optimization": "--resolution 10 --num-iters 2",
            "elastic_shape_optimization": "--resolution 5 --num-iters 2",
        },
    ),
    *_examples(
        "warp-lang",
        "warp.examples.tile",
        "--headless",
        {"tile_matmul": "--device cpu"},
    ),
    Program("warp-lang", "warp_surface_nets"),
    Program("warp-lang", "warp_surface_cubes"),
    *_examples(
        "newton",
        "newton.examples.diffsim",
        "--viewer null --device cpu",
        {
            "diffsim_ball": "--num-frames 2",
            "diffsim_cloth": "--num-frames 1",
            "diffsim_soft_body": "--num-frames 1",
            "diffsim_spring_cage": "--num-frames 2",
            "diffsim_drone": "--num-frames 1 --num_rollouts 2",
            "diffsim_bear": "--num-frames 1 --sim-steps 4",
        },
    ),
    Program("newton", "newton_ik_lm"),
    Program("newton", "newton_ik_lbfgs"),
    Program("warp-nn", "warp_nn_mlp"),
    Program("warp-nn", "warp_nn_gru"),
    Program("warp-nn", "warp_nn_conv"),
    Program("nvalchemi-toolkit-ops", "nvalchemi_coulomb"),
    Program("sphwarpcore", "sph_density"),
    Program("sphwarpcore", "sph_interpolate"),
    Program("sphwarpcore", "sph_crk"),
    Program("sphwarpcore", "sph_laplacian"),
]

BY_NAME = {program.name: program for program in PROGRAMS}
