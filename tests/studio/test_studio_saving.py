"""Saving by name: in one folder, whole or not at all, and never over what others wrote."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest
from serving import Page, served

from noiseplan.errors import StorageError
from noiseplan.studio import saving
from noiseplan.studio.saving import Changed, read_file, save

TEXT = "title = 'é'\n"


@pytest.mark.parametrize(
    "name",
    [
        "../a.toml",
        "a/b.toml",
        "a\\b.toml",
        "/etc/a.toml",
        "..",
        ".toml",
        ".hidden.toml",
        "a.txt",
        "a.toml.exe",
        "a\0.toml",
        "a\n.toml",
        "con.toml",
        "a.toml/",
        "~a.toml",
        "C:a.toml",
        "x" * 200 + ".toml",
        "",
        None,
        7,
    ],
)
def test_names_that_are_no_plain_study_files(page: Page, name: object) -> None:
    before = sorted(Path(page.studio.folder).rglob("*"))
    status, error = page.refused("/api/save", name=name, text=TEXT, digest=None)
    assert status == 422 and "no name for a study" in error["message"]
    assert sorted(Path(page.studio.folder).rglob("*")) == before


@pytest.mark.parametrize("name", ["study.toml", "Löhne 2005 (2).toml", "a-b_c+1.toml", "2020.toml"])
def test_a_study_is_saved_and_read_again(tmp_path: Path, name: str) -> None:
    digest = save(tmp_path, name, TEXT, None)
    assert (tmp_path / name).read_text(encoding="utf-8") == TEXT
    assert digest == hashlib.sha256(TEXT.encode()).hexdigest()
    found = read_file(tmp_path, name)
    assert found is not None and (found.text, found.digest) == (TEXT, digest)
    assert list(tmp_path.iterdir()) == [tmp_path / name]


def test_what_others_wrote_is_not_overwritten(page: Page) -> None:
    first = page.post("/api/save", name="mine.toml", text="a = 1\n", digest=None)["digest"]
    status, error = page.refused("/api/save", name="mine.toml", text="a = 2\n", digest=None)
    assert status == 409 and error["file"]["text"] == "a = 1\n"
    second = page.post("/api/save", name="mine.toml", text="a = 2\n", digest=first)["digest"]
    status, error = page.refused("/api/save", name="mine.toml", text="a = 3\n", digest=first)
    assert status == 409 and error["file"]["digest"] == second
    page.post("/api/save", name="mine.toml", text="a = 3\n", digest=first, replace=True)
    assert (page.studio.folder / "mine.toml").read_text() == "a = 3\n"


def test_a_file_that_is_gone_is_written_again(tmp_path: Path) -> None:
    digest = save(tmp_path, "a.toml", TEXT, None)
    (tmp_path / "a.toml").unlink()
    assert save(tmp_path, "a.toml", TEXT, digest) == digest


def test_links_and_folders_are_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("untouched")
    folder = tmp_path / "folder"
    (folder / "b.toml").mkdir(parents=True)
    (folder / "a.toml").symlink_to(outside)
    (folder / "c.toml").symlink_to(tmp_path / "nowhere.txt")
    os.mkfifo(folder / "d.toml")
    for name in ("a.toml", "b.toml", "c.toml", "d.toml"):
        for digest in (None, hashlib.sha256(b"untouched").hexdigest()):
            with pytest.raises(StorageError, match="no plain file"):
                save(folder, name, TEXT, digest, replace=True)
    assert outside.read_text() == "untouched"
    assert not (tmp_path / "nowhere.txt").exists()


def test_line_ends_and_rights_stay_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\nb = 2\r\n")
    path.chmod(0o640)
    found = read_file(tmp_path, "a.toml")
    assert found is not None and found.text == "a = 1\nb = 2\n"
    save(tmp_path, "a.toml", "a = 1\nb = 3\n", found.digest)
    assert path.read_bytes() == b"\xef\xbb\xbfa = 1\r\nb = 3\r\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_of_two_that_save_at_once_one_is_told(tmp_path: Path) -> None:
    outcomes: list[str] = []
    start = threading.Barrier(8)

    def write(number: int) -> None:
        start.wait()
        try:
            save(tmp_path, "a.toml", f"a = {number}\n", None)
            outcomes.append(f"a = {number}\n")
        except Changed:
            outcomes.append("")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (written,) = [text for text in outcomes if text]
    assert (tmp_path / "a.toml").read_text() == written
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = save(tmp_path, "a.toml", TEXT, None)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saving.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save(tmp_path, "a.toml", "b = 2\n", digest)
    assert (tmp_path / "a.toml").read_text() == TEXT
    assert len(list(tmp_path.iterdir())) == 1


def test_not_utf8_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"title = '\xe9'\n")
    with pytest.raises(StorageError, match="not UTF-8"):
        read_file(tmp_path, "a.toml")


def test_a_study_that_is_malformed_is_given_as_text(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("title = \n")
    with served(tmp_path, "bad.toml") as page:
        start = page.json("GET", "/api/start")
        assert start["file"]["text"] == "title = \n"
        (problem,) = page.post("/api/read", text=start["file"]["text"])["problems"]
        assert problem["line"] == 1 and "not TOML" in problem["message"]


def test_only_what_is_saved_is_written(tmp_path: Path) -> None:
    with served(tmp_path) as page:
        page.post("/api/read", text=TEXT)
        page.post("/api/edit", text=TEXT, design={"title": "x"})
        assert list(tmp_path.iterdir()) == []
        page.post("/api/save", name="a.toml", text=TEXT, digest=None)
    assert [path.name for path in tmp_path.iterdir()] == ["a.toml"]
