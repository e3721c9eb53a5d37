"""Derivatives by complex numbers in the convention of PyTorch (Wirtinger calculus).

The gradient of a real L by z = a + ib is ∂L/∂a + i ∂L/∂b, twice the conjugate Wirtinger derivative ∂L/∂z̄.
It is the direction of steepest ascent, and its parts are the two components of `z.grad`. A complex output
w = u + iv is checked as two real outputs, u and v. They give ∂w/∂z = ½ (conj(∇u) + i conj(∇v)) and
∂w/∂z̄ = ½ (∇u + i ∇v); if the latter is 0, w is holomorphic, and the adjoint of z is conj(∂w/∂z) times that
of w.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Bools, Floats, Indices
from tapedebug.autograd.finite_diff.compared_entries import ComparedEntries

Complexes = np.ndarray[Any, np.dtype[np.complex128]]


@dataclass(frozen=True, eq=False)
class Wirtinger:
    """Derivatives by complex inputs; all arrays have the same length.

    Attributes:
        rows: The scalar of the output: if it is complex, 2k is the real part of element k, and 2k+1 the
            imaginary part.
        columns: The element of the input.
        ad, fd: Complex gradients, ∂/∂a + i ∂/∂b.
        bar: The error bar of `fd`.
        wrong: True if one of the two components is WRONG.
        parts: True if the output is complex.
    """

    rows: Indices
    columns: Indices
    ad: Complexes
    fd: Complexes
    bar: Floats
    wrong: Bools
    parts: bool

    @classmethod
    def of(cls, found: ComparedEntries, parts: bool) -> Wirtinger:
        """Return the entries whose two components were both compared."""
        width = max(1, found.shape[1] // 2)
        keys, place, count = np.unique(
            found.rows * width + found.columns // 2, return_inverse=True, return_counts=True
        )
        unit = np.where(found.columns % 2 == 0, 1.0, 1.0j)
        ad, fd = np.zeros(len(keys), dtype=complex), np.zeros(len(keys), dtype=complex)
        bar, wrong = np.zeros(len(keys)), np.zeros(len(keys), dtype=bool)
        with np.errstate(all="ignore"):
            # Not `ad * unit`: infinity times i is NaN + i infinity.
            np.add.at(ad.real, place, np.where(unit == 1.0, found.ad, 0.0))
            np.add.at(ad.imag, place, np.where(unit == 1.0, 0.0, found.ad))
            np.add.at(fd.real, place, np.where(unit == 1.0, found.fd, 0.0))
            np.add.at(fd.imag, place, np.where(unit == 1.0, 0.0, found.fd))
            np.add.at(bar, place, found.bar)
        if found.wrong is not None:
            np.logical_or.at(wrong, place, found.wrong)
        both = (count == 2) | found.zeros
        return cls(keys[both] // width, keys[both] % width, ad[both], fd[both], bar[both], wrong[both], parts)

    def derivatives(self) -> tuple[Indices, Indices, Complexes, Complexes]:
        """Return ∂w/∂z and ∂w/∂z̄ of complex outputs, from AD and from FD.

        Returns:
            Elements of the output and of the input, (entries,); then ∂w/∂z and ∂w/∂z̄, (2, entries) each,
            with AD and FD as rows.
        """
        width = int(self.columns.max(initial=0)) + 1
        keys, place = np.unique(self.rows // 2 * width + self.columns, return_inverse=True)
        real, imag = np.zeros((2, len(keys)), dtype=complex), np.zeros((2, len(keys)), dtype=complex)
        upper = self.rows % 2 == 0
        for k, gradient in enumerate((self.ad, self.fd)):
            real[k, place[upper]] = gradient[upper]
            imag[k, place[~upper]] = gradient[~upper]
        with np.errstate(all="ignore"):
            dz, dzbar = 0.5 * (real.conj() + 1j * imag.conj()), 0.5 * (real + 1j * imag)
        return keys // width, keys % width, dz, dzbar
