"""The commands that follow a design: what to type to plan, check, release and report."""

from __future__ import annotations

from shlex import quote

from noiseplan.studio.saving import checked_name


def commands(name: object, data: str = "DATA", out: str = "out") -> list[dict[str, str]]:
    """What each command does, and the command."""
    study = quote(checked_name(name))
    into = quote(out)
    steps = {
        "Print and draw the errors that the study will have; reads no data": f"plan {study}",
        "See whether a release would go through; spends nothing": f"check {study} {data}",
        "Count, add noise and write the tables; spends the budget once": (
            f"release {study} {data} -o {into}"
        ),
        "Look at the certificate and the tables": f"show {into}",
        "Write a page with pictures": f"report {into}",
    }
    return [{"does": does, "command": f"noiseplan {command}"} for does, command in steps.items()]
