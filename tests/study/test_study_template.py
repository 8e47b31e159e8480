"""First study files: they are read back as what was declared, and say what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

import noiseplan as nz
from noiseplan.study import StudyError, read_study
from noiseplan.study.settings import People
from noiseplan.study.template import read_column, study_text


def written(folder: Path, *columns: str) -> Path:
    path = folder / "study.toml"
    path.write_text(study_text([read_column(column) for column in columns]), encoding="utf-8")
    return path


def test_a_study_is_read_back_as_it_was_declared(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "age=0..99",
        "sex=F, M",
        "in come=bins:0,10000,1e5",
        'q"\\uote=ä,"b"',
        "-1=-3..-1; missing=not; stated",
    )
    study = read_study(path)
    assert study.schema == nz.Schema(
        {
            "age": nz.Ordinal(range(100)),
            "sex": nz.Categorical(["F", "M"]),
            "in come": nz.Binned([0, 10_000, 100_000]),
            'q"\\uote': nz.Categorical(["ä", '"b"']),
            "-1": nz.Ordinal(range(-3, 0), missing="not; stated"),
        }
    )
    assert len(study.workload) == 16
    # As the page for custodians advises: every table counts the same.
    assert study.settings.weighting == "tables"
    weights = [query.weight * query.rows for query in study.workload]
    assert weights == pytest.approx([weights[0]] * len(weights))
    assert study.plan().privacy.rho <= 0.1


def test_levels_of_a_code_list(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text("tract,county\na1,a\na2,a\nb1,b\n")
    path = written(tmp_path, "geo=levels:places.csv:tract,county; missing=not stated", "sex=F,M")
    columns = {"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"]}
    expected = nz.Hierarchical(columns, missing="not stated")
    assert read_study(path).schema["geo"] == expected
    for wrong in ("geo=levels:places.csv", "geo=levels::a,b", "geo=levels:places.csv:tract"):
        with pytest.raises(StudyError, match=r"geo=levels:places\.csv:tract,county"):
            read_column(wrong)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "columns", [("age=0..99", "sex=F,M"), ("sex=F,M", "region=a,b", "age=0..99")]
)
def test_everything_commented_out_is_a_study_too(tmp_path: Path, columns: tuple[str, ...]) -> None:
    """What the comments suggest works when it is used."""
    text = written(tmp_path, *columns).read_text(encoding="utf-8")
    head, _, tail = text.partition("# [[tables]]")
    shown = [line.removeprefix("# ") for line in ("# [[tables]]" + tail).splitlines()]
    prose = ("What", "Or ", "Where", "People", "The budget", "approx_dp", "objective", "at_most")
    kept = [line for line in shown if not line.startswith(prose)]
    (tmp_path / "all.toml").write_text(head + "\n".join(kept), encoding="utf-8")
    study = read_study(tmp_path / "all.toml")
    assert study.workload["a table of its own"].weight == pytest.approx(4.0 / 200)
    assert study.ledger is not None
    assert study.targets
    assert study.people == People("id", 3)
    assert study.plan().privacy.rho <= 0.1


def test_blanks_before_missing_may_be_left_out() -> None:
    spelled = (
        "age=0..99; missing=not stated",
        "age=0..99;missing=not stated",
        "age=0..99 ; missing = not stated",
    )
    assert len({read_column(text).holds for text in spelled}) == 1


def test_a_value_for_all_others_is_declared(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text("tract,county\na1,a\na2,a\nb1,b\n")
    path = written(
        tmp_path,
        "ward=A,B; other=else where",
        "sex=F,M ;other = other; missing=not stated",
        "region=N,S; missing=not stated; other=abroad",
        "geo=levels:places.csv:tract,county; other=abroad",
    )
    columns = {"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"]}
    assert read_study(path).schema == nz.Schema(
        {
            "ward": nz.Categorical(["A", "B"], other="else where"),
            "sex": nz.Categorical(["F", "M"], other="other", missing="not stated"),
            "region": nz.Categorical(["N", "S"], other="abroad", missing="not stated"),
            "geo": nz.Hierarchical(columns, other="abroad"),
        }
    )


def test_what_is_not_known_is_left_to_fill_in(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"study\.toml:\d+: schema\.region.*no values"):
        read_study(written(tmp_path, "age=0..99", "region"))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("day=2030-01-01..2030-12-31", "day=bins:2030-01-01,…,2030-12-31"),
        ("=3", "has a name"),
        ("age=9..0", "age=0..9"),
        ("pay=bins:0,x", "'x' is no edge"),
        ("sex=F,,M", "an empty value"),
        ("age=0..9; other=old", "other= is for values without order and for levels"),
        ("pay=bins:0,9; other=more", "other= is for values without order and for levels"),
        ("ward; other=else", "other= follows what the column may hold"),
        ("ward=A,B; other=", "other= follows what the column may hold"),
        ("ward=A,B; other=C; other=D", "other= follows what the column may hold, once"),
    ],
)
def test_columns_that_make_no_sense(column: str, words: str) -> None:
    with pytest.raises(StudyError, match=words):
        read_column(column)


def test_a_column_twice() -> None:
    with pytest.raises(StudyError, match="'age' is named twice"):
        study_text([read_column("age=0..9"), read_column("age=F,M")])
