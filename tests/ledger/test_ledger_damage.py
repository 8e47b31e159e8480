"""Broken bytes: refused without a byte written, or without meaning and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from ledger_helpers import discrete, filled, refused, untouched

from depth import FULL, examples
from noiseplan.ledger import Ledger, LedgerBusy, LedgerDamaged, LedgerError


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "a.ledger"
    filled(path)
    return path


def survives(whole: Path, damaged: Path) -> None:
    """Damage is refused, or it hit what carries no meaning and the history is all there."""
    truth = Ledger(whole)
    with untouched(damaged.parent):
        try:
            found = Ledger(damaged)
            assert found.verify() == truth.head()
            assert found.history() == truth.history()
            assert found.entries() == truth.entries()
        except LedgerError as error:
            assert not isinstance(error, LedgerBusy)
            assert str(damaged) in str(error)


@examples(250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bits(whole: Path, folder: Path, data: st.DataObject) -> None:
    content = bytearray(whole.read_bytes())
    # A third of the flips in the header and a third in the first page, where they hurt most.
    for size in (100, 4096, len(content)):
        if data.draw(st.booleans()):
            content[data.draw(st.integers(0, size - 1))] ^= 1 << data.draw(st.integers(0, 7))
    (folder / "a.ledger").write_bytes(content)
    survives(whole, folder / "a.ledger")


def test_bytes_that_are_no_text_all_over_the_file(whole: Path, folder: Path) -> None:
    """SQLite quotes what it finds, and what it quotes may not be text."""
    content, damaged = whole.read_bytes(), folder / "a.ledger"
    for position in range(0, len(content), 41)[:: 1 if FULL else 4]:
        broken = bytearray(content)
        broken[position] = 0xFE
        damaged.write_bytes(broken)
        survives(whole, damaged)


def test_flipped_bits_in_what_matters_are_found(whole: Path, folder: Path) -> None:
    """Every byte of every stored row."""
    content, damaged = whole.read_bytes(), folder / "a.ledger"
    for row in Ledger(whole).history()[::3]:
        start = content.index(row.text.encode())
        for offset in range(0, len(row.text), 7):
            broken = bytearray(content)
            broken[start + offset] ^= 1
            damaged.write_bytes(broken)
            with pytest.raises(LedgerError):
                Ledger(damaged)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1))
def test_truncated_files(whole: Path, folder: Path, share: float) -> None:
    content = whole.read_bytes()
    length = min(int(share * len(content)), len(content) - 1)
    (folder / "a.ledger").write_bytes(content[:length])
    refused(folder / "a.ledger")


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_overwritten_stretches(whole: Path, folder: Path, data: st.DataObject) -> None:
    content = bytearray(whole.read_bytes())
    start = data.draw(st.integers(0, len(content) - 1))
    length = data.draw(st.sampled_from([1, 16, 512, 4096]))
    filling = data.draw(st.sampled_from([b"\x00", b"\xff", b"A"]))
    content[start : start + length] = filling * len(content[start : start + length])
    (folder / "a.ledger").write_bytes(content)
    survives(whole, folder / "a.ledger")


def test_a_page_of_a_backup_among_newer_ones(folder: Path) -> None:
    """Pages restored one by one, as broken disks do."""
    path = folder / "a.ledger"
    used = filled(path)
    old = path.read_bytes()
    for _ in range(30):
        used.spend("census", discrete(0.001))
    new, head = path.read_bytes(), used.head()
    assert len(new) > len(old)
    for start in range(0, len(old), 4096):
        mixed = bytearray(new)
        mixed[start : start + 4096] = old[start : start + 4096]
        path.write_bytes(mixed)
        if mixed == new:
            assert Ledger(path).head() == head
        else:
            refused(path, LedgerDamaged)


def test_a_long_tail_after_the_file(whole: Path, folder: Path) -> None:
    (folder / "a.ledger").write_bytes(whole.read_bytes() + bytes(4096 * 3))
    survives(whole, folder / "a.ledger")


def test_a_disk_that_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite is told that the file may not grow."""
    from noiseplan.ledger import sql

    ledger = filled(folder / "a.ledger")
    head = ledger.head()
    full = (*sql.PRAGMAS, "PRAGMA max_page_count = 1")
    monkeypatch.setattr(sql, "PRAGMAS", full)
    with pytest.raises(LedgerError, match="disk is full"):
        for _ in range(100):
            ledger.spend("études", discrete(1e-9), purpose="x" * 2000)
            head = ledger.head()
    assert ledger.verify() == head
    monkeypatch.undo()
    ledger.spend("études", discrete(1e-9))
