"""The pages of the reference, written from what is public.

A page is a title and names that are documented by their docstrings. What `import noiseplan as nz`
offers is told by theme; every room with names of its own (`__all__`) has a page.
"""

from __future__ import annotations

import inspect
import pkgutil
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import noiseplan

# What `nz` offers, in the order of use. A name that is missing here fails the build.
THEMES = {
    "Declaring data": ["Schema", "Categorical", "Ordinal", "Binned", "Hierarchical", "TextFile"],
    "Asking": [
        "Workload", "Query", "Factor", "Identity", "Prefix", "Ranges", "Levels", "Level", "Custom",
        "Total",
    ],
    "Budgets and objectives": [
        "zCDP", "ApproxDP", "PureDP", "GDP", "Guarantee", "Objective", "TotalVariance",
        "WorstVariance", "PNormVariance", "ConvexLoss", "RelativeError", "RMSE",
    ],
    "Planning": ["plan", "Plan", "bounds", "compare", "adaptive", "Strategy", "Dawa"],
    "Releasing": ["Release", "load", "Ledger", "NoisyTable", "from_noisy_tables", "NoiseplanError"],
}  # fmt: skip
# What methods return, and nobody makes.
RETURNED = {
    "release.answers": ["Answer"],
    "statistics.statistic": ["Statistic"],
    "planning.certify": ["Certificate"],
    "planning.workload_bounds": ["WorkloadBounds"],
    "release.rehearsal": ["Checked"],
}
# Classes of `nz` that calls make, not users: how they are constructed is nobody's concern.
MADE = ["noiseplan.Plan", "noiseplan.Release"]
# Names that are neither classes nor functions have no docstring; this is theirs.
PLAIN = {
    "noiseplan.counting.Counts": """Counts of records: integers, or numbers if given so.

    >>> table: Counts = np.array([[3, 0], [1, 4]])""",
    "noiseplan.data.EXAMPLES": """Studies that are shipped, and what each is about.

    >>> "wages" in EXAMPLES
    True""",
    "noiseplan.privacy.Law": """Which curve a guarantee has: `"gaussian"`, `"zcdp"` or `"pure"`.

    >>> Guarantee(0.5, law="zcdp").law
    'zcdp'""",
    "noiseplan.privacy.Neighbours": """`"add-remove"` or `"replace"` of one record.

    >>> plan = nz.plan(workload, budget=nz.zCDP(0.5), neighbours="replace")""",
    "noiseplan.schema.Label": """What a value may be: text, a number, true or false, a date, a time.

    >>> nz.Categorical(["north", 7, True]).labels
    ('north', 7, True)""",
}
MODULES = ["local"]  # public names that are rooms, with pages of their own


@dataclass(frozen=True)
class Page:
    """A page of the reference: where it lies, what it is about, which names it documents."""

    file: str
    title: str
    about: str
    names: tuple[str, ...]

    def text(self) -> str:
        """The page as Sphinx reads it."""
        entries = (_entry(name) for name in self.names)
        return "\n".join([_heading(self.title), self.about, "", *entries])


def pages() -> list[Page]:
    """All pages, in their order."""
    return [*_themes(), _returned(), *_rooms()]


def write(folder: Path) -> None:
    """Write the reference into a folder, its list of names first."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in pages():
        (folder / f"{page.file}.rst").write_text(page.text(), encoding="utf-8")
    (folder / "index.rst").write_text(_index(pages()), encoding="utf-8")


def _themes() -> list[Page]:
    listed = {name for names in THEMES.values() for name in names} | set(MODULES)
    if listed != set(noiseplan.__all__):
        raise LookupError(f"the reference and nz differ in {listed ^ set(noiseplan.__all__)}")
    return [
        Page(
            title.lower().replace(" ", "-"),
            title,
            "Names of ``import noiseplan as nz``.",
            tuple(f"noiseplan.{name}" for name in names),
        )
        for title, names in THEMES.items()
    ]


def _returned() -> Page:
    names = [f"noiseplan.{place}.{name}" for place, found in RETURNED.items() for name in found]
    about = "What methods of plans and releases return, and nobody makes."
    return Page("what-comes-back", "What comes back", about, tuple(names))


def made_elsewhere() -> set[str]:
    """Classes that calls make, not users."""
    return {*MADE, *_returned().names}


def public_rooms() -> list[str]:
    """Modules right below `noiseplan` that say which of their names are public."""
    below = pkgutil.iter_modules(noiseplan.__path__, "noiseplan.")
    return [found.name for found in below if hasattr(import_module(found.name), "__all__")]


def _rooms() -> list[Page]:
    made, known = [], {id(getattr(noiseplan, name)) for name in noiseplan.__all__}
    for room in public_rooms():
        module = import_module(room)
        own = [name for name in module.__all__ if id(getattr(module, name)) not in known]
        known |= {id(getattr(module, name)) for name in own}
        if own:
            about = f"{_summary(module)}\n\nNames of ``{room}``."
            made.append(Page(room, room, about, tuple(f"{room}.{name}" for name in own)))
    return made


def object_of(name: str) -> object:
    """What a dotted name stands for."""
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def _entry(name: str) -> str:
    thing = object_of(name)
    if name in PLAIN:
        return f".. py:data:: {name}\n\n    {PLAIN[name]}\n"
    if inspect.isclass(thing):
        kind = "autoexception" if issubclass(thing, BaseException) else "autoclass"
    else:
        kind = "autofunction"
    return f".. {kind}:: {name}\n"


def words(name: str) -> str:
    """What the reference says of a name: its docstring, or what stands in its place here."""
    return PLAIN.get(name) or inspect.getdoc(object_of(name)) or ""


def _summary(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")


def _heading(title: str) -> str:
    return f"{title}\n{'=' * len(title)}\n"


def _index(listed: list[Page]) -> str:
    tree = [".. toctree::", "   :hidden:", "", *(f"   {page.file}" for page in listed), ""]
    about = "Every public name, with an example. Those of classes and functions are run by tests."
    lists = (line for page in listed for line in _listed(page))
    return "\n".join([_heading("Reference"), about, "", *tree, *lists])


def _listed(page: Page) -> list[str]:
    head = [f":doc:`{page.title} <{page.file}>`", ""]
    return [
        *head,
        *(f"* :py:obj:`{name.removeprefix('noiseplan.')} <{name}>`" for name in page.names),
        "",
    ]
