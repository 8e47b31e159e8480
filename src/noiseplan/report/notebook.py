"""Charts for notebooks: the errors of a plan, and a released table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseplan._charts import ChartError, ForestRow, MissingExtraError, error_bar_spec, forest_spec

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan
    from noiseplan.release.release import Release


def plan_chart(plan: Plan) -> Any:
    """The expected standard error of every kind of table, as an Altair chart."""
    rows = [
        ForestRow(
            f"{row['table']}" + (f" and {row['tables'] - 1} alike" if row["tables"] != 1 else ""),  # type: ignore[operator]
            float(row["std_error"]),  # type: ignore[arg-type]
        )
        for row in plan.fairness()
    ]
    return altair_chart(forest_spec(rows))


def table_chart(release: Release, *attributes: str, level: float = 0.95) -> Any:
    """A released table of one or two attributes with its intervals, as an Altair chart.

    The first attribute is laid out along the chart, the second told apart by colour.
    """
    if not 1 <= len(attributes) <= 2:
        found = f"{len(attributes)} attributes" if attributes else "none"
        raise ChartError(
            f"a chart has one or two attributes, as in plot('age', 'sex'); found {found}. Larger "
            f"tables: release.table({', '.join(map(repr, attributes)) or '...'})"
        )
    from noiseplan.queries import Query

    answer = release.answer(Query(release.plan.workload.schema, list(attributes)), level=level)
    columns = {
        name: values.tolist() if isinstance(values, np.ndarray) else list(values)
        for name, values in answer.columns().items()
    }
    shown = [f"{name} (attribute)" if name not in columns else name for name in attributes]
    colour = shown[1] if len(shown) == 2 else None
    title = " by ".join(attributes)
    return altair_chart(error_bar_spec(columns, shown[0], colour, title, level))


def altair_chart(spec: dict[str, Any]) -> Any:
    try:
        import altair
    except ImportError as error:
        raise MissingExtraError(
            'charts need the plot extra; install it with: pip install "noiseplan[plot]"'
        ) from error
    return altair.Chart.from_dict(json.loads(json.dumps(spec)))  # lists, where tuples stand
