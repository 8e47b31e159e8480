"""How Sphinx builds the site; `build.py` prepares its pages and calls it.

Warnings are errors there: a link that leads nowhere, a name that is not documented, a notebook that
does not run. Nothing is fetched from outside, neither by the build nor by the pages.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from pygments.lexers import TextLexer
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

import noiseplan

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import contents  # noqa: E402  # beside this file, which Sphinx does not look for by itself
import references  # noqa: E402

project = "noiseplan"
author = "the noiseplan authors"
copyright = author
version = release = noiseplan.__version__
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
nitpicky = True
smartquotes = False  # quotes in prose are mostly those of words to type
default_role = "code"  # docstrings write code between single backticks
suppress_warnings = ["myst.header"]  # pages of results have no headings of the second level

# Headings are linked to as forges name them.
myst_heading_anchors = 6
myst_enable_extensions = ["html_image"]

autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    "inherited-members": "BaseException, str, tuple, dict, Protocol",  # but not Python's own
}
# Shown by the names that the code gives them, which would else be spelled out.
autodoc_type_aliases = {
    name: name for name in ("Array", "IntArray", "ArrayLike", "Table", "Columns")
}
autodoc_typehints_format = "short"
autoclass_content = "class"
napoleon_google_docstring = False
napoleon_custom_sections = ["Privacy"]
napoleon_use_rtype = False
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

# Notebooks are run by every build, each in an empty folder of its own.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True
nb_execution_show_tb = True

html_theme = "furo"
html_title = f"noiseplan {version}"
html_static_path = [str(HERE / "site.css")]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}


def setup(app: Sphinx) -> None:
    """Navigation, which pages know nothing of; docstrings and names as this house writes them."""
    # The same few thousand words are on all pages.
    SearchEnglish.stem = cache(SearchEnglish.stem)  # type: ignore[method-assign]
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", contents.add)
    app.connect("autodoc-process-docstring", references.whole_first_line, priority=400)
    app.connect("autodoc-process-signature", references.made_elsewhere)
    app.connect("missing-reference", references.resolve)
