"""Names: what looks like a dataset that is open does not open a second budget."""

from __future__ import annotations

import pytest
from ledger_helpers import discrete

from noiseplan.ledger import Ledger, LedgerError
from noiseplan.ledger.events import Opened
from noiseplan.ledger.text_checks import looks
from noiseplan.privacy import zCDP

NAME = "census-2030 IO"
ALIKE = {
    "case": "CENSUS-2030 io",
    "no blank": "census-2030IO",
    "two blanks": "census-2030  IO",
    "another hyphen": "census\u20102030 IO",
    "a dash": "census\u20132030 IO",
    "a minus": "census\u22122030 IO",
    "a soft hyphen": "census\u00ad-2030 IO",
    "a variant": "census-2030 IO\ufe0f",
    "a joiner": "census-2030\u034f IO",
    "a filler": "census-2030 IO\u3164",
    "an empty pattern": "census-2030 IO\u2800",
    "a blank of no width": "census\u200b-2030 IO",
    "a Cyrillic letter": "\u0441ensus-2030 IO",
    "a Greek letter": "census-2030 I\u039f",
    "wide letters": "\uff43ensus-2030 IO",
    "another alphabet's digits": "census-\u0662030 IO",
    "l for I": "census-2030 lO",
    "0 for O": "census-2030 I0",
    "1 for I": "census-2030 1O",
    "a dotless i": "census-2030 \u0131o",
    "a sign of one's own": "census-2030\u2215IO",
}


@pytest.mark.parametrize("kind", ALIKE)
def test_what_looks_alike_opens_no_second_budget(ledger: Ledger, kind: str) -> None:
    ledger.open_dataset(NAME, zCDP(1.0))
    before = ledger.head()
    with pytest.raises(LedgerError) as error:
        ledger.open_dataset(ALIKE[kind], zCDP(1.0))
    assert ledger.head() == before
    assert "another dataset" not in str(error.value)


@pytest.mark.parametrize(
    ("first", "second"),
    [("\u0441\u043e\u0440\u0435", "cope"), ("\u0410\u0412\u0421", "abc"), ("\u0391\u0392", "AB")],
)
def test_whole_words_of_another_alphabet(ledger: Ledger, first: str, second: str) -> None:
    for name, other in ((first, second), (second, first)):
        assert looks(name) & looks(other)
    ledger.open_dataset(first, zCDP(1.0))
    with pytest.raises(LedgerError, match="would be a second budget beside"):
        ledger.open_dataset(second, zCDP(1.0))


@pytest.mark.parametrize(
    "names",
    [
        ("wages IA", "wages LA", "wages MI", "wages ML"),
        ("census 2030", "census 2031", "census-2030", "census/2030"),
        ("études", "etudes", "перепись", "απογραφή", "人口調査 カナ", "인구"),
        ("people (part 1)", "people (part 2)", "people & homes", "people #3"),
    ],
)
def test_names_that_differ_are_opened(ledger: Ledger, names: tuple[str, ...]) -> None:
    for name in names:
        ledger.open_dataset(name, zCDP(1.0))
        ledger.open_dataset(name, zCDP(1.0))  # again, which changes nothing
    assert ledger.datasets()[1:] == names


def test_mixed_alphabets_are_named(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match=r"\(\\u0441ensus\) mixes letters of Cyrillic and Latin"):
        ledger.open_dataset("\u0441ensus", zCDP(1.0))


def test_early_ledgers_with_such_names_go_on(ledger: Ledger) -> None:
    """What was written is read: the rule is for new names."""
    early = "\u0441ensus"
    act = Opened(early, zCDP(1.0), "add-remove", "")
    ledger._history.add(lambda _: act)
    again = Ledger(ledger.path)
    again.spend(early, discrete(0.1))
    again.open_dataset(early, zCDP(1.0))
    assert again.datasets() == ("census", early)
    again.verify()


def test_an_unknown_name_is_no_reason_for_a_second_budget(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="People who have a budget keep it") as error:
        ledger.spend("cenzus", discrete(0.1))
    assert "'census'" in str(error.value)


@pytest.mark.parametrize(
    "name",
    [
        *("\uff21\uff22\uff23", "visi\ufb01", "x\u00b2"),  # wide, a ligature, a small digit
        *("\u1d04ensus", "\ua731\u1d00\u1d04", "sma\u01c0\u01c0"),  # small capitals, clicks
        *("\ua4da\ua4f0\ua4e0", "\u13da\u13aa", "\u2ca5\u2c9f", "\u0585"),  # other alphabets
        "census\u0332",
    ],
)
def test_letters_that_stand_for_others_are_refused(ledger: Ledger, name: str) -> None:
    with pytest.raises(LedgerError, match="looks like another sign"):
        ledger.open_dataset(name, zCDP(1.0))


def test_a_name_in_other_letters_is_asked_for(ledger: Ledger) -> None:
    ledger.open_dataset("visits 2030", zCDP(1.0))
    with pytest.raises(LedgerError, match=r"no dataset 'Visits 2030': did you mean 'visits 2030'"):
        ledger.balance("Visits 2030")


@pytest.mark.parametrize(
    ("one", "other"), [("corner", "comer"), ("vvages", "wages"), ("2030", "2o3O")]
)
def test_letters_that_make_another_are_refused(ledger: Ledger, one: str, other: str) -> None:
    ledger.open_dataset(one, zCDP(1.0))
    with pytest.raises(LedgerError):
        ledger.open_dataset(other, zCDP(1.0))
