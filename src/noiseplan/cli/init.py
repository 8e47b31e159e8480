"""`noiseplan init`: a first study file, from what is public."""

from __future__ import annotations

import codecs
import csv
import shutil
from pathlib import Path
from shlex import quote

import click

from noiseplan.cli._common import CONTEXT
from noiseplan.console import say
from noiseplan.counting.text_files import SEPARATORS, sixteen_bits
from noiseplan.data import EXAMPLES, cpssw8_path, example_study
from noiseplan.study import StudyError
from noiseplan.study.template import Column, read_column, study_text, unknown_column
from noiseplan.texts import listed, suggestion

# Of so many values of a column, bins are worth a word.
MANY_VALUES = 1000


@click.command(context_settings=CONTEXT)
@click.argument("study", metavar="[STUDY]", type=click.Path(path_type=Path), required=False)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME[=VALUES]",
    help="A column: age=0..99, sex=F,M, income=bins:0,10000,50000, "
    "geo=levels:places.csv:tract,county, or a name alone; behind it, where values may be missing, "
    "'; missing=not stated', and where others than those listed may occur, '; other=elsewhere'. "
    "Repeat it.",
)
@click.option(
    "--header",
    type=click.Path(path_type=Path),
    help="A CSV file whose first line, which you declare public, names the columns. No other "
    "line is read.",
)
@click.option("--title", default="A first study", help="What the study is about.")
@click.option(
    "--example",
    type=click.Choice(list(EXAMPLES)),
    help="Instead: a complete study with its data, to try things out.",
)
def command(
    study: Path | None,
    columns: tuple[str, ...],
    header: Path | None,
    title: str,
    example: str | None,
) -> None:
    """Write STUDY, a commented study file, from names of columns and what they may hold.

    It never reads a value of the data: what a column may hold is declared, from a code book.
    """
    if example is not None:
        if study is not None or columns or header:
            raise click.UsageError("--example stands alone: it brings its own study and data")
        write_example(example)
        return
    if study is None:
        raise click.UsageError(
            "name the file to write: noiseplan init study.toml --column age=0..99"
        )
    given = {column.name: column for column in map(read_column, columns)}
    if len(given) < len(columns):
        raise StudyError("a column is named twice by --column")
    chosen = among(header_of(header), given, header) if header else list(given.values())
    if not chosen:
        raise click.UsageError("name at least one column: --column age=0..99, or --header FILE.csv")
    write_new(study, study_text(chosen, title))
    missing = [column.name for column in chosen if column.note]
    if missing:
        say(f"wrote {study}; fill in what these may hold: {', '.join(missing)}")
        say(f"Numbers go into bins, as in --column {quote(missing[0])}=bins:0,10,20,50")
    else:
        say(f"wrote {study}")
    for column in chosen:
        if column.values > MANY_VALUES:
            say(
                f"{column.name} has {column.values:,} values; if ranges of them will do, their "
                f"counts are more precise: --column {quote(column.name)}=bins:{column.bins}"
            )
    say(f"Next: noiseplan plan {study}")


def among(names: list[str], given: dict[str, Column], header: Path) -> list[Column]:
    """The columns of a header, with what is said of some; others would be in no record."""
    for name in given:
        if name not in names:
            raise StudyError(
                f"--column {name}: the header of {header} has {listed(names)}"
                f"{_meant(given[name], names)}"
            )
    return [given.get(name, unknown_column(name)) for name in names]


def _meant(column: Column, names: list[str]) -> str:
    """Which column was probably meant; one of levels is that which holds codes of the finest."""
    spelled = column.name.casefold() in map(str.casefold, names)
    if spelled or not column.finest:
        return suggestion(column.name, names)
    said = f". Levels are declared for the column of the data that holds codes of {column.finest!r}"
    return said + (f": --column {column.finest}=levels:…" if column.finest in names else "")


def header_of(path: Path) -> list[str]:
    """The names in the first line, read byte by byte: nothing behind it is even loaded.

    What separates them is the sign that makes most names of the line: no value is looked at.
    """
    line = bytearray()
    with path.open("rb", buffering=0) as file:
        while (letter := file.read(1)) and letter != b"\n":
            line += letter
            if len(line) == 5 and line.startswith(b"PAR1") and letter < b" ":
                raise StudyError(
                    f"{path}: this is a Parquet file, and --header takes the first line of a CSV "
                    f"file. Name the columns instead: --column NAME for each"
                )
            if len(line) > 1 << 20:
                raise StudyError(f"{path}: the first line is too long to be a header of CSV")
    if bytes(line[:2]) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or b"\0" in line:
        raise sixteen_bits(str(path))
    try:
        text = line.decode("utf-8-sig").rstrip("\r")
        names = max((next(csv.reader([text], delimiter=m), []) for m in SEPARATORS), key=len)
    except (UnicodeDecodeError, csv.Error):
        raise StudyError(f"{path}: the first line is no header of CSV in UTF-8") from None
    names = [name.strip() for name in names]
    if not names or not all(names):
        raise StudyError(f"{path}: the first line must name every column, found {len(names)} names")
    return names


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise StudyError(f"{str(path)!r} is there already and was left alone") from None


def write_example(name: str) -> None:
    """A study with its data, in the working folder."""
    study, data = Path(f"{name}.toml"), Path(f"{name}.parquet")
    places = [] if name == "wages" else [Path("places.csv")]
    for path in (study, data, *places):
        if path.exists():
            raise StudyError(f"{str(path)!r} is there already and was left alone")
    if name == "wages":
        shutil.copyfile(cpssw8_path(), data)
    elif name == "census":
        from noiseplan.data.census import write_census

        write_census(data, Path("places.csv"))
    else:
        from noiseplan.data.population import write_population

        write_population(data, Path("places.csv"))
    write_new(study, example_study(name).read_text(encoding="utf-8"))
    say(f"wrote {study} and {data}: {EXAMPLES[name]}")
    say(f"Next: noiseplan plan {study}")
