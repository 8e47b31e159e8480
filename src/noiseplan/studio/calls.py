"""What the page may ask for: every call carries the text of the study that it is about.

Rooms that plan, and what they need, are imported when they are called: the first page is there
before any of it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from noiseplan import __version__
from noiseplan.errors import NoiseplanError, StorageError
from noiseplan.studio import saving
from noiseplan.studio.jobs import KINDS, Jobs
from noiseplan.studio.public_files import Desk, files_named

if TYPE_CHECKING:
    from noiseplan.study import Study

DEFAULT_NAME: Final = "study.toml"
MOST_DESIGNS: Final = 8

Body = dict[str, Any]
Answer = dict[str, Any]


class BadCall(NoiseplanError, ValueError):
    """A call that is not as the page makes them."""


@dataclass
class Studio:
    """What the server knows: a folder, the study and data it was started with, the jobs under way.

    `named` are the code lists of that study and `ledger` its ledger, each once and for all: what
    the page saves later says nothing about what is public, nor about who keeps account.
    """

    folder: Path
    name: str | None = None
    jobs: Jobs = field(default_factory=Jobs)
    data: tuple[str, ...] = ()
    _releases: Any = None
    named: frozenset[str] = field(default=frozenset(), init=False)
    ledger: tuple[Path, str] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        with suppress(NoiseplanError, ValueError, RecursionError):  # the page says what is wrong
            file = self.file()
            design = {} if file is None else tomllib.loads(file.text)
            self.named = frozenset(files_named(design))
            match design.get("ledger"):
                case {"file": str(ledger), "dataset": str(dataset)}:
                    self.ledger = (self.folder / ledger, dataset)

    @property
    def releases(self) -> Any:
        """Releases that were asked for; most pages never do."""
        if self._releases is None:
            from noiseplan.studio.releasing import Releases

            self._releases = Releases(self.folder)
        return self._releases

    def desk(self, body: Body) -> Desk:
        """Where the study of a call lies, with the files that may be read for it.

        Those are public that the study named when the server was started, since somebody put it
        there, and those that the user of the page has called public.
        """
        called = body.get("public", [])
        if not isinstance(called, list) or not all(isinstance(each, str) for each in called):
            raise BadCall("public is a list of names of files")
        return Desk(self.folder, self.name or DEFAULT_NAME, frozenset(called) | self.named)

    def file(self) -> saving.Found | None:
        """The study that the server was started with, as it is now."""
        return None if self.name is None else saving.read_file(self.folder, self.name)


def text_of(body: Body, key: str = "text") -> str:
    """A text that the call must carry."""
    text = body.get(key)
    if not isinstance(text, str):
        raise BadCall(f"{key} is missing: a text")
    return text


# ---------------------------------------------------------------------- the design


def start(studio: Studio) -> Answer:
    """What the page begins with: the study that was named, and examples."""
    from noiseplan.studio.beginnings import examples

    file = studio.file()
    return {
        "version": __version__,
        "file": None if file is None else file.view(),
        "name": studio.name or DEFAULT_NAME,
        "folder": str(studio.folder),
        "data": list(studio.data),
        "examples": examples(),
    }


def read(studio: Studio, body: Body) -> Answer:
    from noiseplan.studio.views import view

    return view(text_of(body), studio.desk(body))


def edit(studio: Studio, body: Body) -> Answer:
    from noiseplan.studio.editing import edited
    from noiseplan.studio.views import view

    design = body.get("design")
    if not isinstance(design, dict):
        raise BadCall("design is missing: the study as an object")
    return view(edited(text_of(body), design), studio.desk(body))


def save(studio: Studio, body: Body) -> Answer:
    digest = body.get("digest")
    if digest is not None and not isinstance(digest, str):
        raise BadCall("digest is a text, or null for a new file")
    name = saving.checked_name(body.get("name"))
    written = saving.save(studio.folder, name, text_of(body), digest, body.get("replace") is True)
    return {"name": name, "digest": written}


# ---------------------------------------------------------------------- what it costs


def privacy(studio: Studio, body: Body) -> Answer:
    from noiseplan.studio.privacy_view import asked_privacy, study_privacy

    if "text" not in body:
        return asked_privacy(body)
    found = study_privacy(studio.desk(body).study(text_of(body)))
    if found is None:
        raise BadCall("the study has no budget: its targets decide the cost, once it is planned")
    return found


def privacy_range(_: Studio, body: Body) -> Answer:
    from noiseplan.studio import privacy_view

    delta = body.get("delta")
    if delta is not None and (isinstance(delta, bool) or not isinstance(delta, int | float)):
        raise BadCall("delta is a number")
    return privacy_view.privacy_range(text_of(body, "currency"), delta)


# ---------------------------------------------------------------------- what you get


def ask_job(studio: Studio, body: Body) -> Answer:
    kind, client = text_of(body, "kind"), str(body.get("client", ""))
    if kind not in KINDS:
        raise BadCall(f"no kind of job is called {kind!r}; there are {', '.join(KINDS)}")
    return studio.jobs.ask(kind, text_of(body), studio.desk(body), client).view()


def expected(studio: Studio, body: Body) -> Answer:
    from noiseplan.studio import expected as counts

    study = studio.desk(body).study(text_of(body))
    tables, limit = body.get("plan"), body.get("limit", counts.USELESS)
    if not isinstance(tables, list) or not all(map(counts.is_table, tables)):
        raise BadCall("plan is missing: a list of tables, each with its name and std_error")
    if not counts.is_number(limit) or not limit > 0:
        raise BadCall("limit is a relative error above 0, as in 0.5")
    if isinstance(body.get("file"), dict):
        source, notes = counts.from_file(study.schema, body["file"])
    else:
        source = counts.guessed(study.schema, body.get("total"))
        notes = [counts.EVENLY.format(total=source.total)]
    return {"tables": counts.expected(study, tables, source, limit), "notes": notes}


def example(_: Studio, body: Body) -> Answer:
    from noiseplan.studio.public_files import proposals

    content = text_of(body, "content")
    return proposals(text_of(body, "name"), content, body.get("confirmed") is True)


# ---------------------------------------------------------------------- out


def python(studio: Studio, body: Body) -> Answer:
    from noiseplan.studio.python_export import python_of

    return {"code": python_of(studio.desk(body).study(text_of(body)))}


def commands(_: Studio, body: Body) -> Answer:
    from noiseplan.studio import saving

    return {"commands": saving.commands(body.get("name"))}


def report(studio: Studio, body: Body) -> Answer:
    designs = body.get("designs")
    if not isinstance(designs, list) or not 0 < len(designs) <= MOST_DESIGNS:
        raise BadCall(f"designs is a list of 1 to {MOST_DESIGNS} designs")
    if not all(isinstance(each, dict) for each in designs):
        raise BadCall("every design is an object with its name and text")
    named = [{"name": text_of(each, "name"), "text": text_of(each)} for each in designs]
    job = studio.jobs.wait(studio.jobs.order("report", {"designs": named}, studio.desk(body)))
    if job.state != "done":
        raise BadCall((job.error or {}).get("message", "the report was not made"))
    result: Answer = job.result
    return result


def ask_release(studio: Studio, body: Body) -> Answer:
    name = saving.checked_name(body.get("name"))
    file = saving.read_file(studio.folder, name)
    if file is None or ("text" in body and file.text != text_of(body).replace("\r\n", "\n")):
        raise BadCall(f"save the study first: {name!r} is not what the page shows")
    study = replace(studio.desk(body), name=name).study(file.text)
    data = text_of(body, "data")
    require_release(studio, study, data)
    answer: Answer = studio.releases.ask(file, study, data, text_of(body, "out"))
    return answer


def require_release(studio: Studio, study: Study, data: str) -> None:
    """Refuse data, or a ledger, that were not named when the studio was started.

    Whoever calls in the name of the page could name any file of the user, and a ledger of their
    own.
    """
    again = f"noiseplan studio {quote(study.root.document.name)} --data FILE"
    if study.ledger is None:
        raise StorageError(
            "the study names no ledger, and the page releases only what is recorded in one; name "
            f"it under Budget, save, and start the studio again: {again}"
        )
    if (study.ledger.path, study.ledger.dataset) != studio.ledger:
        raise StorageError(
            "the study named another ledger, or none, when the studio was started, and the page "
            f"releases only for that one; stop the studio and start it again: {again}"
        )
    if data not in studio.data:
        raise StorageError(
            f"{data!r} was not named when the studio was started, and the page releases only "
            f"data that were; stop the studio and start it again: {again}"
        )


def confirm_release(studio: Studio, body: Body) -> Answer:
    job = studio.releases.confirm(body.get("nonce"), body.get("typed"), studio.jobs)
    view: Answer = job.view()
    return view


CALLS: Final[dict[str, Callable[[Studio, Body], Answer]]] = {
    "/api/read": read,
    "/api/edit": edit,
    "/api/save": save,
    "/api/privacy": privacy,
    "/api/privacy/range": privacy_range,
    "/api/jobs": ask_job,
    "/api/expected": expected,
    "/api/example": example,
    "/api/python": python,
    "/api/commands": commands,
    "/api/report": report,
    "/api/release/ask": ask_release,
    "/api/release/confirm": confirm_release,
}
