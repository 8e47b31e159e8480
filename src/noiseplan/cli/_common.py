"""What several commands share: options, saved releases, figures for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noiseplan.cli import DamagedRelease
from noiseplan.console import say
from noiseplan.errors import StorageError

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan
    from noiseplan.release.release import Release
    from noiseplan.schema import Schema

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
study_argument = click.argument("study", metavar="STUDY", type=click.Path(path_type=Path))
outside_option = click.option(
    "--allow-outside",
    is_flag=True,
    help="Let the study name code lists, and an output folder, outside its own folder.",
)
release_argument = click.argument("folder", metavar="RELEASE", type=click.Path(path_type=Path))
CONTEXT = {"help_option_names": ["-h", "--help"]}


def open_release(folder: Path) -> Release:
    """A saved release; damage has an exit code of its own."""
    from noiseplan.storage import load

    require_release_folder(folder)
    try:
        return load(folder)
    except StorageError as error:
        raise DamagedRelease(error.message) from None


def require_release_folder(folder: Path) -> None:
    """Refuse a folder that holds no release, with the command that would make one."""
    if not (folder / "certificate.json").is_file():
        found = "is not there" if not folder.exists() else "holds no release"
        raise StorageError(
            f"{str(folder)!r} {found}; name the folder that was written by: "
            f"noiseplan release STUDY DATA -o {folder}"
        )


@contextmanager
def calm_threads(schema: Schema) -> Iterator[None]:
    """One thread for linear algebra unless some attribute is large, also while a plan is printed:
    bounds are computed then, and threads that wait for each other cost more than they bring."""
    from threadpoolctl import threadpool_limits

    from noiseplan.planning.threads import LARGE

    limit = 1 if max(schema.shape) < LARGE else None
    with threadpool_limits(limits=limit, user_api="blas"):
        yield


def plan_figures(plan: Plan) -> dict[str, Any]:
    """Everything that is printed about a plan, for programs."""
    from noiseplan.storage.certificate import privacy_json

    common = {
        "queries": len(plan.workload),
        "rows": plan.workload.rows,
        "planner": plan.planner,
        "noise": plan.noise,
        "privacy": privacy_json(plan.privacy, plan.max_rows, unit=plan.unit),
    }
    if plan.data_aware:
        return common | {"rmse": None, "errors": "depend on the data; a release estimates them"}
    bound, worst = plan.lower_bound, plan.worst_variance
    return common | {
        "objective": str(plan.objective),
        "rmse": plan.rmse,
        "total_variance": plan.total_variance,
        "worst_variance": worst if math.isfinite(worst) else None,
        "lower_bound": bound if math.isfinite(bound) else None,
        "optimal": plan.optimal,
        "target_scale": plan.target_scale,
        "measured_numbers": plan.measured_numbers,
        "memory": plan.memory,
        "tables": plan.fairness(),
    }


def warned(text: str) -> None:
    """Something that stops nothing, and is worth a second look."""
    say(f"Warning: {text}", err=True)


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Columns as one object per row, for programs."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
