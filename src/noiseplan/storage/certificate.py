"""What was promised: a release's certificate, for programs and for people, and a plan's figures."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from noiseplan.arrays import Json
from noiseplan.errors import StorageError
from noiseplan.escaping import visible_name
from noiseplan.mechanisms.agreement import cautions
from noiseplan.planning.certify import bound_takes_long, usual_certificate
from noiseplan.planning.plan import Plan
from noiseplan.privacy.guarantee import CONVERSION, SHOWN_DELTAS, Guarantee, known_mu
from noiseplan.privacy.people import PERSON
from noiseplan.privacy.rounding import text_up
from noiseplan.release.provenance import Drawn, Provenance
from noiseplan.release.release import Release
from noiseplan.storage.files import hash_of

FORMAT = 1
UNIT = "one record"
KIND = "noiseplan release"
DATA_AWARE = "noiseplan data-aware release"


def certificate(release: Release, plan_hash: str) -> Json:
    """Privacy unit, neighbours, cost in every currency, noise law, versions and hashes."""
    plan, found = release.plan, release.plan.optimality
    certified = {} if found.gap is None else {"gap": found.gap}
    # What is already known: a bound nobody asked for is not computed.
    known = {"lower_bound": found.known, "proved": found.proved, **certified}
    return facts(release, KIND, plan_hash) | {
        "measured_numbers": plan.mechanism.numbers,
        "rmse": plan.rmse,
        "optimality": known,
    }


def facts(release: Release, kind: str, plan_hash: str) -> Json:
    """What every certificate says, whatever kind of release it is."""
    from noiseplan import __version__

    plan = release.plan
    return {
        "kind": kind,
        "format": FORMAT,
        **{
            name: text
            for name, text in (("title", release.title), ("purpose", release.purpose))
            if text
        },
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "software": {
            "noiseplan": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "privacy": privacy_json(plan.privacy, plan.max_rows, release.choice is not None, plan.unit),
        "noise": release.provenance.brand,
        "simulation": not release.provenance.private,
        "ledger": release.provenance.recorded,
        **({} if release.choice is None else {"records_chosen": True}),
        "schema_sha256": hash_of(plan.workload.schema.to_dict()),
        "plan_sha256": plan_hash,
        "queries": len(plan.workload),
        "rows": plan.workload.rows,
    }


def read_provenance(content: Mapping[str, Any]) -> Provenance:
    """Where the noise of a saved release came from: what it calls a simulation is never private.

    The first folders do not say it; their texts do.
    """
    brand, recorded = _text(content, "noise"), _text(content, "ledger")
    found = Provenance.read(brand, recorded)
    if content.get("simulation", False) is not False and found.private:
        return Provenance((Drawn(brand, private=False),), recorded)
    return found


def read_words(content: Mapping[str, Any]) -> dict[str, str]:
    """Title and purpose of a saved release; the first folders have neither."""
    found = {name: content.get(name, "") for name in ("title", "purpose")}
    for name, text in found.items():
        if not isinstance(text, str):
            raise StorageError(f"certificate.json: {name} should be a text")
    return found


def _text(content: Mapping[str, Any], name: str) -> str:
    text = content[name]
    if not isinstance(text, str) or not text.isprintable():
        raise StorageError(f"certificate.json: {name} should be a text on one line")
    return text


def privacy_json(
    guarantee: Guarantee, max_rows: int = 1, chosen: bool = False, unit: str = PERSON
) -> Json:
    """Unit, neighbours and cost in every currency, for programs.

    `chosen`: whether at most `max_rows` records of each person, or other `unit`, were counted.
    """
    known = math.isfinite(guarantee.pcost)
    owned = max_rows > 1 or chosen or guarantee.whose is not None
    result: Json = {
        "unit": _unit(max_rows, unit) if owned else UNIT,
        "neighbours": guarantee.neighbours,
        "known": known,
        "accounting": CONVERSION[guarantee.law],
    }
    if known:
        result |= {
            "rho": guarantee.rho,
            "mu": known_mu(guarantee),
            **guarantee.own_figures,
            "epsilon": [[delta, guarantee.epsilon(delta)] for delta in SHOWN_DELTAS],
        }
    return result


def planned_privacy(plan: Plan) -> Json:
    """The same of a plan."""
    return privacy_json(plan.privacy, plan.max_rows, unit=plan.unit)


def _unit(max_rows: int, unit: str) -> str:
    if max_rows > 1:
        return f"one {unit}, with at most {max_rows} records"
    return f"one {unit}, of whom one record is counted"


def in_words(content: Json, release: Release) -> str:
    """The same for people; numbers that promise privacy are rounded up."""
    return framed(
        content,
        release,
        f"{content['measured_numbers']:,} noisy number{'s' * (content['measured_numbers'] != 1)};",
        f"root mean squared error {text_up(content['rmse'])}.",
        "Standard errors and intervals cover the noise only, not errors of the data themselves.",
    )


def framed(content: Json, release: Release, numbers: str, *errors: str, drawn: str = "") -> str:
    """A certificate in words, around what is said of its numbers and their errors.

    `drawn` says what else was drawn at random, behind the noise.
    """
    private = release.provenance.private
    title = "CERTIFICATE OF A DIFFERENTIALLY PRIVATE RELEASE"
    if not private:
        title = "SIMULATED RELEASE, NOT FOR PUBLISHING"
    if content["privacy"]["known"]:
        unit = content["privacy"]["unit"]
        guarantee = replace(release.plan.privacy, whose=None if unit == UNIT else release.plan.unit)
        promise = [f"What is protected: {unit}.", *guarantee.describe().splitlines()]
    else:
        title = "NOISY TABLES MADE ELSEWHERE, PUT TOGETHER"
        promise = ["Privacy: not known here, since the measurements were made elsewhere."]
    promise.extend(release.left_out)
    told = [visible_name(content[name]) for name in ("title", "purpose") if content.get(name)]
    lines = [
        title,
        "",
        *([*told, ""] if told else []),
        f"Made {content['made']} with noiseplan {content['software']['noiseplan']}.",
        "",
        *promise,
        f"Noise: {content['noise']}{drawn}.",
        f"Ledger: {content['ledger'] or 'not recorded in a ledger'}.",
        "",
        f"It answers {content['queries']:,} {'query' if content['queries'] == 1 else 'queries'}, "
        f"{content['rows']:,} row{'s' * (content['rows'] != 1)} in all, from {numbers}",
        *errors,
        *cautions(release.plan.mechanism, release.plan.workload),
        "",
        f"Schema SHA-256  {content['schema_sha256']}",
        f"Plan SHA-256    {content['plan_sha256']}",
        "Hashes of all files are in SHA256SUMS: sha256sum --check SHA256SUMS",
    ]
    return "\n".join(lines) + "\n"


def plan_figures(plan: Plan) -> dict[str, Any]:
    """Everything that is printed about a plan, for programs."""
    common = {
        "queries": len(plan.workload),
        "rows": plan.workload.rows,
        "planner": plan.planner,
        "noise": plan.noise,
        "privacy": planned_privacy(plan),
    }
    if plan.data_aware:
        return common | {"rmse": None, "errors": "depend on the data; a release estimates them"}
    late = bound_takes_long(plan)  # what nobody asked for is not waited for
    found = None if plan.noise == "given" else usual_certificate(plan)  # of the plan's objective
    worst = plan.worst_variance
    return common | {
        "objective": str(plan.objective),
        "rmse": plan.rmse,
        "total_variance": plan.total_variance,
        "worst_variance": worst if math.isfinite(worst) else None,
        "objective_value": found.value if found else None,
        "lower_bound": found.bound if found and math.isfinite(found.gap) else None,
        "optimal": not late and plan.optimal,
        "target_scale": plan.target_scale,
        "measured_numbers": plan.measured_numbers,
        "memory": plan.memory,
        "tables": plan.fairness(),
    }
