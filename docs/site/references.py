"""Where names in signatures lead to, and how docstrings are read.

Annotations name a type as its module does: `Plan`, `np.ndarray`. One that the reference documents
under exactly one name leads there. Others are types that users need not know by name, and are shown
as they are; a role that somebody wrote must lead somewhere, or the build fails.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import reference
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

# Of classes that users do not make, their constructor is nobody's concern.
MADE = frozenset(reference.made_elsewhere())
# What annotations stand in: signatures, and lists of parameters and their types.
ANNOTATED = (addnodes.desc_signature, nodes.field)


def resolve(
    app: Sphinx, env: BuildEnvironment, wanted: addnodes.pending_xref, shown: nodes.TextElement
) -> nodes.Node | None:
    """A link to what a type is documented as; the bare name where an annotation has no page."""
    if wanted.get("refdomain") != "py" or not _annotates(wanted):
        return None
    python: Any = env.domains.python_domain
    found = _documented(python)[wanted["reftarget"].rpartition(".")[2]]
    if len(found) != 1:
        return shown
    here = wanted["refdoc"]
    return python.resolve_xref(env, here, app.builder, "obj", found[0], wanted, shown)


@cache
def _documented(python: Any) -> defaultdict[str, list[str]]:
    """What types are documented as, by their own names; all pages are read when one is asked."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, entry in python.objects.items():
        room, _, own = name.rpartition(".")
        if room and entry.objtype in {"class", "exception", "data"} and not entry.aliased:
            found[own].append(name)
    return found


def _annotates(wanted: nodes.Node) -> bool:
    above = wanted.parent
    while above is not None and not isinstance(above, ANNOTATED):
        above = above.parent
    return above is not None


def whole_first_line(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Keep Napoleon from reading `words: words` on an attribute's first line as a type.

    It looks at the first line alone, and an empty comment has no type.
    """
    if what in {"attribute", "property", "data"}:
        lines[:0] = ["..", ""]


def made_elsewhere(
    app: Sphinx, what: str, name: str, thing: object, options: object, *signature: str | None
) -> tuple[str | None, str | None] | None:
    """No parameters where nobody passes them."""
    return ("", None) if what == "class" and name in MADE else None
