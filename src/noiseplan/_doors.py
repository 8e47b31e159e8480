"""Doors upward: methods of plans and releases that are carried out above where they are.

A plan is made without knowing what a release is; `plan.release(data)` is a convenience. Each such
method is named here, and nowhere else does a room know of one above it. Names that a package offers
and that take long to load lead to their modules in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any

DOORS = {
    "plan.release": "noiseplan.release.release:make_release",
    "plan.check": "noiseplan.release.rehearsal:check",
    "plan.given": "noiseplan.choosing.continuation:Continuation.of",
    "plan.profile": "noiseplan.planning.profile:profile",
    "plan.free_queries": "noiseplan.planning.profile:with_free_queries",
    "plan.html": "noiseplan.draw.notebook:plan_html",
    "release.html": "noiseplan.draw.notebook:release_html",
    "answer.html": "noiseplan.draw.notebook:answer_html",
    "workload.html": "noiseplan.draw.notebook:workload_html",
    "schema.html": "noiseplan.draw.notebook:schema_html",
    "plan.plot": "noiseplan.draw.error_dots:plan_chart",
    "plan.describe": "noiseplan.words.printed:plan_text",
    "plan.fairness": "noiseplan.words.plan:fairness_rows",
    "plan.tables": "noiseplan.words.plan:table_rows",
    "plan.hash": "noiseplan.storage.folder:plan_hash",
    "release.describe": "noiseplan.words.printed:release_text",
    "release.valid": "noiseplan.valid.solve_tables:valid_tables",
    "release.microdata": "noiseplan.valid.microdata:make_microdata",
    "release.plot": "noiseplan.draw.table_svg:table_chart",
    "aggregator.valid": "noiseplan.valid.solve_tables:valid_tables",
    "release.ask": "noiseplan.statistics.asking:ask",
    "release.mean": "noiseplan.statistics.ratios:mean",
    "release.quantile": "noiseplan.statistics.quantiles:quantile",
    "release.share": "noiseplan.statistics.ratios:share",
    "release.ratio": "noiseplan.statistics.ratios:ratio",
    "release.intervals": "noiseplan.statistics.statistic:Intervals",
    "release.save": "noiseplan.storage.folder:save",
}


def through(door: str) -> Any:
    """The function behind a door, whose room is loaded when it is first opened."""
    module, _, function = DOORS[door].partition(":")
    return attrgetter(function)(import_module(module))


def on_first_use(
    package: str, homes: Mapping[str, str], names: dict[str, Any]
) -> Callable[[str], Any]:
    """The `__getattr__` of a package: its names are loaded, and kept, when they are asked for.

    `homes` are the modules they are in; a module of the package's own may be called like its name.
    """

    def found(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(homes[name])
        names[name] = module if homes[name] == f"{package}.{name}" else getattr(module, name)
        return names[name]

    return found
