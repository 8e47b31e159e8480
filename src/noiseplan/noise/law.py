"""Noise as a value: its law, its sizes, and whether it is drawn in integers, exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseplan.arrays import IntArray, Json, immutable
from noiseplan.errors import NoiseError, NoiseplanError, PlanError, StorageError, setting
from noiseplan.matrices.base import Array
from noiseplan.noise.discrete import (
    LARGEST_SCALE,
    LARGEST_VARIANCE,
    WIDEST_VARIANCE,
    discrete_gaussian,
    discrete_laplace,
    wide_gaussian,
)
from noiseplan.noise.many_sizes import SMALLEST, ManySizes
from noiseplan.noise.moments import (
    FINE_BITS,
    discrete_gaussian_variance,
    discrete_laplace_variance,
    round_up,
)
from noiseplan.noise.randomness import Source
from noiseplan.noise.wide_integers import WideIntegers, joined, wide
from noiseplan.privacy import ApproxDP, Budget, PureDP, zCDP
from noiseplan.privacy.rounding import product_down

if TYPE_CHECKING:
    from noiseplan.privacy import Law as Accounting

Law = Literal["gaussian", "laplace"]
LAWS: Final[dict[Law, str]] = {"gaussian": "Gaussian", "laplace": "Laplace"}
# 1/σ² of noise on one row, from which on its variance is clearly below σ² where it is discrete.
FAINT_COST: Final = 1.5


@final
@immutable
@dataclass(frozen=True)
class Kind:
    """Hold the properties of a kind of noise that do not depend on its size.

    A record that changes the measured numbers by a costs ‖a‖_p^p / size, p being the `power`: 2ρ
    for Gaussian noise (p = 2, size σ²), ε for Laplace noise (p = 1, size b). `accounting` is the
    law of the `Guarantee`; μ² of discrete Gaussian noise is added by `mechanisms.cost.with_mu2`.
    Plans that cost more than `faint_cost` use the true variances of the noise drawn, not σ².
    """

    law: Law
    exact: bool
    power: int
    accounting: Accounting
    words: tuple[str, str]  # its name on pages, and a warning where it is not private
    faint_cost: float = math.inf
    budgets: tuple[type[Budget], ...] = (Budget,)  # within which it is planned


SIMULATING: Final = ", for simulation; releases say so"
# What plans call their noise.
NAMED: Final[dict[str, Kind]] = {
    "discrete": Kind("gaussian", True, 2, "zcdp", ("exact discrete Gaussian", ""), FAINT_COST),
    "discrete Laplace": Kind(
        "laplace", True, 1, "pure", ("exact discrete Laplace", ""), budgets=(PureDP, ApproxDP)
    ),
    "gaussian": Kind("gaussian", False, 2, "gaussian", ("floating-point Gaussian", SIMULATING)),
    "laplace": Kind(
        "laplace",
        False,
        1,
        "pure",
        ("floating-point Laplace", SIMULATING),
        budgets=(PureDP, ApproxDP),
    ),
}
_NAMES: Final = {(kind.law, kind.exact): name for name, kind in NAMED.items()}
# What users may call it instead.
CALLED: Final = {"discrete Gaussian": "discrete"}
# What is drawn for a budget of pure DP where not Gaussian noise is asked for, to simulate.
PURE: Final = {"discrete": "discrete Laplace"}
SIMULATED: Final = tuple(name for name, kind in NAMED.items() if not kind.exact)
# Discrete noise of a size far below one has a variance too small for a number; this is above it.
LEAST_VARIANCE: Final = 1e-200
# How many times 2ρ the μ² of discrete noise may be, which holds from so many squared steps of its
# lattice on; where integers are too coarse for that, noise is drawn on multiples of 1/k.
MOST_LOSS: Final = 1.001
FINE_VARIANCE: Final = 84.0
FINEST: Final = 2**12
# Sizes that are drawn less often than this are drawn side by side, where there are so many of them:
# each by itself takes longer to begin than to draw.
_FEW_DRAWS: Final = 1000
_MANY_SIZES: Final = 24


# Numbers, or integers that 64 bits do not hold.
Drawn = NDArray[np.number] | WideIntegers


def lattice_of(exact: object, law: Law = "gaussian") -> int:
    """Return how many steps of its lattice noise takes to one; False where it is continuous."""
    if isinstance(exact, int) and exact in (0, 1):
        return bool(exact)
    fine = isinstance(exact, int) and 1 < exact <= FINEST and exact.bit_count() == 1
    if law != "gaussian" or not fine:
        raise NoiseError(f"noise is continuous, or on multiples of 1/2^k, not of 1/{exact!r}")
    assert isinstance(exact, int)  # as was seen
    return exact


def common_lattice(noises: Iterable[Noise]) -> int:
    """Return the finest lattice of these; 0 where some noise is continuous."""
    lattices = [noise.exact for noise in noises]
    return max(lattices) if all(lattices) else 0


@final
@immutable
@dataclass(frozen=True, eq=False)
class Noise:
    """Independent noise of mean zero.

    Parameters
    ----------
    law
        "gaussian" or "laplace".
    size
        One for all numbers, or one for each entry along their last axis: the parameter σ² of
        Gaussian noise, the scale b of Laplace noise.
    exact
        1 where integers are drawn by the exact discrete law, to be added to integers; k for
        multiples of 1/k, whose law is nearer to the continuous one; 0 for continuous noise.

    Examples
    --------
    >>> Noise("gaussian", 0.25, exact=True).variance.round(6).tolist()
    [0.215013]
    >>> Noise("laplace", [1.0, 3.0]).variance.tolist()
    [2.0, 18.0]
    """

    law: Law
    size: Array
    exact: int = False
    # What plans call it, and what such noise can do.
    name: str = field(init=False, repr=False)
    kind: Kind = field(init=False, repr=False)
    power: int = field(init=False, repr=False)
    accounting: Accounting = field(init=False, repr=False)
    # What is measured with it: integers, or numbers.
    dtype: type[np.int64] | type[np.float64] = field(init=False, repr=False)

    def __init__(self, law: Law, size: ArrayLike, exact: int = False) -> None:
        if law not in LAWS:
            raise NoiseError(f"noise is 'gaussian' or 'laplace', found {law!r}")
        object.__setattr__(self, "law", law)
        object.__setattr__(self, "size", np.atleast_1d(np.asarray(size, dtype=np.float64)))
        object.__setattr__(self, "exact", lattice_of(exact, law))
        name = _NAMES[law, bool(exact)]
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "kind", NAMED[name])
        object.__setattr__(self, "power", NAMED[name].power)
        object.__setattr__(self, "accounting", NAMED[name].accounting)
        object.__setattr__(self, "dtype", np.int64 if exact else np.float64)

    @classmethod
    def named(cls, name: str, size: ArrayLike = 1.0) -> Noise:
        """Return noise by the name that plans use, such as "discrete Laplace"."""
        kind = NAMED[CALLED.get(name, name)]
        return cls(kind.law, size, kind.exact)

    @classmethod
    def within(cls, budget: Budget | None, name: str, size: ArrayLike = 1.0) -> Noise:
        """Return noise by the name that users give; "discrete" within pure DP is Laplace noise."""
        return cls.named(PURE.get(name, name) if isinstance(budget, PureDP) else name, size)

    def of_size(self, size: ArrayLike) -> Noise:
        """Return noise of this kind with other sizes."""
        return Noise(self.law, size, self.exact)

    def above(self, sizes: Array, bits: int = FINE_BITS) -> Noise:
        """Return noise of at least these sizes; exact noise has them rounded up to `bits` bits."""
        return self.of_size(round_up(sizes, bits) if self.exact else sizes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the sizes as an array."""
        return np.array(self.size, dtype=dtype)

    def __len__(self) -> int:
        return len(self.size)

    def __getitem__(self, part: slice) -> Noise:
        return Noise(self.law, self.size[part], self.exact)

    def floating(self) -> Noise:
        """Continuous noise of the same sizes."""
        return self.on_lattice(False)

    def on_lattice(self, exact: int) -> Noise:
        """Return noise of the same sizes on multiples of 1/`exact`; continuous for 0."""
        return Noise(self.law, self.size, exact)

    @classmethod
    def choices(cls, budget: Budget) -> tuple[str, str]:
        """Return the names of the noise within a budget: to publish, and to simulate."""
        usual = "discrete"
        return usual, cls.within(budget, usual).floating().name

    @property
    def one(self) -> float:
        """The size, where there is one for all numbers."""
        (size,) = self.size
        return float(size)

    @property
    def variance(self) -> Array:
        """The variance of what is really drawn: for discrete laws a little below `nominal`."""
        if not self.exact:
            return self.nominal
        if self.law == "laplace":
            return np.maximum(discrete_laplace_variance(self.size), LEAST_VARIANCE)
        found = discrete_gaussian_variance(self.size * self.exact**2) / self.exact**2
        return np.where(self.size > 0, np.maximum(found, LEAST_VARIANCE), found)

    @property
    def largest(self) -> float:
        """The largest size."""
        return float(self.size.max(initial=0.0))

    @property
    def wide(self) -> bool:
        """Whether it is of integers that 64 bits might not hold."""
        largest = self.largest * self.exact**2
        return self.exact > 0 and self.law == "gaussian" and largest > LARGEST_VARIANCE

    @property
    def drawable(self) -> bool:
        """Whether it can be drawn, where it is of integers."""
        most = WIDEST_VARIANCE if self.law == "gaussian" else LARGEST_SCALE
        return not self.exact or self.largest * self.exact**2 <= most

    def require_drawable(self) -> Noise:
        """The noise; refused if it is too large to be drawn in integers."""
        if self.drawable:
            return self
        if self.law == "laplace":
            raise PlanError(
                f"the plan needs Laplace noise of scale {self.largest:.3g}, and at most 2^48 can "
                f"be drawn: plan fewer tables or a larger budget, or use "
                + setting("noise", "laplace")
                + " to simulate"
            )
        raise PlanError(
            "the budget is so small that the noise is too large to be drawn in integers: plan for "
            "a larger budget, or use " + setting("noise", "gaussian") + " to simulate"
        )

    @property
    def nominal(self) -> Array:
        """σ² or 2b²: the variance of continuous noise of this size."""
        return self.size if self.law == "gaussian" else np.asarray(2.0 * self.size**2)

    @property
    def least_steps(self) -> float:
        """Return the least σ² in squared steps of its lattice; infinite for continuous noise.

        0 for Laplace noise, of which no μ follows by its σ².
        """
        sizes = self.size[self.size > 0]
        if self.law == "laplace":
            return 0.0
        return float(sizes.min()) * self.exact**2 if self.exact and len(sizes) else math.inf

    def finer(self) -> int:
        """Return the least power of two k for which noise on multiples of 1/k is fine enough."""
        least = float(self.size[self.size > 0].min(initial=FINE_VARIANCE))
        return 1 << max(0, math.ceil(math.log2(FINE_VARIANCE / least) / 2))

    @property
    def mean_size(self) -> float:
        """The mean absolute value of continuous noise of the one size: b, or σ√(2/π)."""
        return self.one if self.law == "laplace" else math.sqrt(2 * self.one / math.pi)

    # ------------------------------------------------------------------ privacy

    def budget(self, cost: float) -> Budget:
        """Return the budget of a cost: zCDP for Gaussian noise (2ρ), pure DP for Laplace noise."""
        return PureDP(cost) if self.law == "laplace" else zCDP(product_down(cost, 0.5))

    @property
    def degree(self) -> int:
        """The exponent by which variances grow with the size: 1 for σ², 2 for 2b²."""
        return 3 - self.power

    def times_larger(self, cost: float) -> float:
        """Return by what factor variances grow when the cost falls from `cost` to one."""
        return cost**self.degree

    def apart(self, norm: int, product: int) -> int:
        """Return an upper bound of ‖a − b‖_p^p for two columns of equal norm.

        It is 2‖a‖₁ for p = 1 and 2‖a‖² − 2aᵀb for p = 2; `product` is at most aᵀb.
        """
        return 2 * norm if self.law == "laplace" else 2 * (norm - product)

    def require_squares(self, otherwise: NoiseplanError) -> None:
        """Raise `otherwise` for Laplace noise, where costs are no squared lengths of columns."""
        if self.law == "laplace":
            raise otherwise

    def norms(self, rows: Array) -> Array:
        """Return ‖a‖_p^p of every column: its cost times the size of the noise."""
        if self.law == "gaussian":
            return np.asarray(np.einsum("ri,ri->i", rows, rows))
        return np.asarray(np.abs(rows).sum(axis=0))

    def least_sum(self, added: float, of_cells: Callable[[], float]) -> float:
        """Return an upper bound of the cost of several measurements together.

        It is `added`, the sum of the largest cost of each; for Gaussian noise the largest sum over
        the cells, `of_cells()`, where that is less.
        """
        return min(added, of_cells()) if self.law == "gaussian" else added

    def takes(self, whole: Callable[[], bool]) -> bool:
        """Return whether the noise can be added to numbers; exact noise needs `whole` ones."""
        return not self.exact or whole()

    def fitting(self, sizes: Array) -> Array:
        """Return the sizes rounded up to ones that can be drawn; infinite where there is none."""
        if not self.exact:
            return sizes
        found = round_up(sizes)
        return np.where(found > WIDEST_VARIANCE, np.inf, found)

    def allowed(self, budget: Budget) -> float:
        """Return the largest cost of a record within a budget: 2ρ, or ε for Laplace noise.

        By the exact curve discrete noise costs up to `MOST_LOSS` times 2ρ; that much is kept back.
        """
        if self.law == "laplace":
            return budget.own_epsilon
        if not self.exact:
            return budget.gaussian_pcost()
        if isinstance(budget, zCDP):
            return product_down(2.0, budget.rho)
        return product_down(budget.gaussian_pcost(), 1 / MOST_LOSS)

    # ------------------------------------------------------------------ drawing

    def draw(self, shape: tuple[int, ...], bits: Source | np.random.Generator) -> Drawn:
        """Noise of this shape: exact from a source of bits, else from NumPy's, for simulation.

        A float is the rational number it stands for, so the law of integers is exact.
        """
        if len(self.size) not in (1, *shape[-1:]):
            raise NoiseError(f"there are {len(self.size):,} sizes for noise of shape {shape}")
        if isinstance(bits, Source):
            if not self.exact:
                raise NoiseError("bits of a source are for exact noise, and this one is not")
            return self._integers(shape, bits)
        if self.exact:
            raise NoiseError("exact noise is drawn from a source of bits, never from NumPy's")
        if self.law == "gaussian":
            noise, deviation = bits.standard_normal(shape), np.sqrt(self.size)
        else:
            noise, deviation = bits.laplace(size=shape), self.size
        noise *= deviation
        return noise

    def _integers(self, shape: tuple[int, ...], source: Source) -> Drawn:
        """Draws of equal size together, and few draws of many sizes side by side."""
        distinct, kind = np.unique(self.size * self.exact**2, return_inverse=True)
        if self.wide:
            return _in_limbs(distinct, kind, shape, source)
        gaussian = self.law == "gaussian"
        draw = discrete_gaussian if gaussian else discrete_laplace
        if len(distinct) == 1:
            return draw(float(distinct[0]), shape, source=source)
        values = np.empty((prod(shape[:-1]), len(kind)), dtype=np.int64)
        count = np.bincount(kind, minlength=len(distinct))
        few = (len(values) * count < _FEW_DRAWS) & (distinct >= SMALLEST)
        few &= few.sum() >= _MANY_SIZES
        columns = np.split(np.argsort(kind, kind="stable"), np.cumsum(count))
        for number in np.flatnonzero(~few):
            mine, size = columns[number], float(distinct[number])
            values[:, mine] = draw(size, (len(values), len(mine)), source=source)
        if few.any():
            (mine,) = few[kind].nonzero()
            number_of_few = (np.cumsum(few) - 1)[kind[mine]]
            of = np.tile(number_of_few, len(values))
            drawn = ManySizes.of(gaussian, distinct[few]).draw(of, source)
            values[:, mine] = drawn.reshape(len(values), -1)
        return values.reshape(shape)

    # ------------------------------------------------------------------ saving

    def brief(self) -> Json:
        """Noise of one size, as partitions save it."""
        return {"size": self.one, "laplace": self.law == "laplace", "integer": self.exact}

    @classmethod
    def from_brief(cls, saved: Mapping[str, Any]) -> Noise:
        """Undo `brief`."""
        law: Law = "laplace" if saved["laplace"] else "gaussian"
        return cls(law, float(saved["size"]), saved["integer"])

    def parts(self) -> Json:
        """Noise of one size, as it is saved."""
        scale = {} if self.law == "gaussian" else {"scale": self.one}
        return {"integer": self.exact, "sigma2": float(self.nominal[0]), **scale}

    @classmethod
    def from_parts(cls, content: Mapping[str, Any], whose: str) -> Noise:
        """Undo `parts`; `whose` names the owner of the noise in the error message."""
        sigma2, scale, exact = float(content["sigma2"]), content.get("scale"), content["integer"]
        if scale is None:
            return cls("gaussian", sigma2, exact)
        if not (float(scale) > 0 and 2 * float(scale) ** 2 == sigma2):
            raise StorageError(f"{whose} Laplace noise has a scale that is not its own")
        return cls("laplace", float(scale), exact)


def _in_limbs(
    distinct: Array, kind: IntArray, shape: tuple[int, ...], source: Source
) -> WideIntegers:
    """Gaussian draws that 64 bits might not hold, each size by itself."""
    if len(distinct) == 1:
        return wide_gaussian(float(distinct[0]), shape, source=source)
    pairs = zip(distinct.tolist(), np.bincount(kind).tolist(), strict=True)
    parts = [wide_gaussian(size, (*shape[:-1], n), source=source) for size, n in pairs]
    return wide(joined(parts))[..., np.argsort(np.argsort(kind, kind="stable"))]


# What draws noise of a shape.
Sampler = Callable[[tuple[int, ...], Noise], Drawn]
