"""Every public name is in the reference, once, with words and an example."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

import noiseplan

SITE = Path(__file__).resolve().parents[1] / "docs" / "site"
sys.path.insert(0, str(SITE))

import reference  # noqa: E402  # beside the site's configuration

NAMES = [name for page in reference.pages() for name in page.names]


def test_every_public_name_is_documented_once() -> None:
    documented = {id(reference.object_of(name)) for name in NAMES}
    assert len(set(NAMES)) == len(NAMES)
    public = [(noiseplan, name) for name in noiseplan.__all__ if name not in reference.MODULES]
    for room in reference.public_rooms():
        module = import_module(room)
        public += [(module, name) for name in module.__all__]
    assert len(public) > 120
    for module, name in public:
        assert id(getattr(module, name)) in documented, f"{module.__name__}.{name}"


def test_rooms_that_are_public_names_have_pages() -> None:
    assert {page.file for page in reference.pages()} >= {
        f"noiseplan.{name}" for name in reference.MODULES
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_words_and_an_example(name: str) -> None:
    words = reference.words(name)
    assert len(words.partition(">>>")[0].split()) >= 4, f"{name} is not explained"
    assert ">>> " in words, f"{name} has no example"


def test_a_name_without_a_theme_stops_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noiseplan, "__all__", [*noiseplan.__all__, "Forgotten"])
    with pytest.raises(LookupError, match="Forgotten"):
        reference.pages()


def test_the_gallery_shows_every_picture() -> None:
    docs = SITE.parent
    shown = (docs / "gallery.md").read_text(encoding="utf-8")
    pictures = sorted((docs / "images").iterdir())
    assert len(pictures) >= 9
    for picture in pictures:
        assert f"](images/{picture.name})" in shown, picture.name
