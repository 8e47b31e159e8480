"""From a strategy to the integers a device draws from, and back."""

from __future__ import annotations

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.local.device.counting_randomizers import (
    ShiftRandomizer,
    SplitRandomizer,
    SubsetRandomizer,
    TableRandomizer,
)
from noiseplan.local.device.integer_chances import WHOLE, high_chance, rounded_shares
from noiseplan.local.device.noisy_sums import SumRandomizer
from noiseplan.local.device.randomizer import Randomizer
from noiseplan.local.server.reconstruction import Part, Reconstruction
from noiseplan.local.strategies.additive import AdditiveStrategy
from noiseplan.local.strategies.shifts import Group, ShiftStrategy
from noiseplan.local.strategies.strategy import Strategy, TableStrategy
from noiseplan.local.strategies.subsets import SubsetStrategy
from noiseplan.local.user_types import Types
from noiseplan.matrices.base import Array
from noiseplan.schema import Schema


def make_randomizer(schema: Schema, made: Reconstruction) -> Randomizer:
    """What devices draw reports from: the table, or all tables with their shares as integers."""
    if not made.split:
        return _checked(made.parts[0])
    tables = tuple(_checked(part) for part in made.parts)
    shares = rounded_shares(np.array([part.share for part in made.parts]))
    return SplitRandomizer(schema, None, tables, shares)  # type: ignore[arg-type]


def _checked(part: Part) -> Randomizer:
    """The randomizer of a strategy; its ε is checked to be at most the strategy's."""
    made = _made(part.types, part.strategy)
    if not made.epsilon <= part.strategy.epsilon:
        raise PlanError(
            f"the integer table has ε = {made.epsilon!r}, above {part.strategy.epsilon!r}: a "
            f"defect; nothing may be drawn from it"
        )
    return made


def _made(types: Types, strategy: Strategy) -> Randomizer:
    cells = types.kind if types.merged else None
    if isinstance(strategy, TableStrategy):
        rounded = strategy if strategy.table is not None else strategy.rounded()
        assert rounded.table is not None
        return TableRandomizer(types.schema, cells, rounded.table)
    if isinstance(strategy, ShiftStrategy):
        n = strategy.types
        sizes = strategy.patterns.sum(axis=1).tolist()
        high = np.array([high_chance(k, n, strategy.epsilon) for k in sizes], dtype=np.int64)
        shares = rounded_shares(strategy.chances)
        shape = strategy.group.shape
        return ShiftRandomizer(types.schema, cells, shape, strategy.patterns, shares, high)
    if isinstance(strategy, SubsetStrategy):
        n = strategy.types
        high = np.array([high_chance(k, n, strategy.epsilon) for k in strategy.sizes], np.int64)
        used = np.array(strategy.sizes, dtype=np.int64)
        shares = rounded_shares(strategy.chances)
        return SubsetRandomizer(types.schema, cells, n, used, shares, high)
    if isinstance(strategy, AdditiveStrategy):
        return SumRandomizer(
            types.schema, cells, strategy.rows, strategy.law, strategy.scale, strategy.delta
        )
    raise PlanError(f"no randomizer is known for {type(strategy).__name__}")


def strategy_behind(randomizer: Randomizer, epsilon: float, prior: Array | None) -> Strategy:
    """The chances a randomizer's integers stand for."""
    if isinstance(randomizer, TableRandomizer):
        return TableStrategy.of(randomizer.table / WHOLE, epsilon, prior)
    if isinstance(randomizer, ShiftRandomizer):
        group, shares = Group(randomizer.shape), randomizer.shares / WHOLE
        return ShiftStrategy(group, randomizer.patterns, shares, epsilon)
    if isinstance(randomizer, SubsetRandomizer):
        sizes = tuple(randomizer.sizes.tolist())
        return SubsetStrategy(randomizer.count, epsilon, sizes, randomizer.shares / WHOLE)
    if isinstance(randomizer, SumRandomizer):
        law = randomizer.law, epsilon, randomizer.delta, "sums"
        return AdditiveStrategy(randomizer.rows, randomizer.scale, *law)
    raise PlanError(f"no strategy is known behind {type(randomizer).__name__}")
