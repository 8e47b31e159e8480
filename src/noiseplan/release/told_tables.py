"""What a table tells, as a ledger keeps it, and what two tables both tell.

A table determines its row space (`queries.row_spaces`). It is kept in *pieces*, one for each
attribute that is not summed over, or one for a matrix over several. Two tables tell a number both
where all their pieces do. A piece is compared with one of the same attribute only if that was
declared alike. Where it was not, where a piece was too long to be kept, or where an early ledger
has names alone, the answer may be that nobody knows: None, beside True and False.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from math import prod
from typing import Final
from zlib import compress, decompressobj
from zlib import error as Broken

import numpy as np

from noiseplan.matrices import DenseMatrix
from noiseplan.queries import Custom, Query
from noiseplan.queries.row_spaces import (
    MOST_NUMBERS,
    RowSpace,
    matrix_space,
    product,
    row_space,
)
from noiseplan.schema import Attribute, Schema

# Letters of a piece in a ledger.
LONGEST_PIECE: Final = 8_000
# Cells of the attributes of a matrix that are written out.
MOST_CELLS: Final = 65_536


@dataclass(frozen=True)
class Common:
    """Whether pieces or tables tell a number both; one beside the total; and all the same."""

    something: bool | None = True
    beyond_total: bool | None = False
    same: bool = True

    def beside(self, other: Common) -> Common:
        """The same of two products, from what is true of their factors."""
        either = (self.beyond_total, other.beyond_total)
        return Common(
            _every(self.something, other.something),
            True if True in either else (None if None in either else False),
            self.same and other.same,
        )


@dataclass(frozen=True, eq=False)
class Piece:
    """What a table tells of an attribute, or of several by one matrix.

    `declared` has a digest of how each attribute was declared, `total` says whether the sum over
    them is told; `digest` and `space` are of what is told. Empty or None is not known.
    """

    attributes: tuple[str, ...]
    declared: tuple[str, ...] = ()
    total: bool | None = None
    digest: str = ""
    space: RowSpace | None = None

    def texts(self) -> tuple[str, ...]:
        """The piece for a ledger: how its attributes were declared, what it tells, which."""
        kept = "" if self.space is None else _packed(_bytes(self.space))
        sign = {True: "+", False: "-", None: "?"}[self.total]
        told = f"{sign}{self.digest}:{kept if len(kept) <= LONGEST_PIECE else ''}"
        return (" ".join(self.declared), told, *self.attributes)

    @staticmethod
    def read(texts: Sequence[str], schema: Schema) -> Piece:
        """Undo `texts`; numbers that are not there, or make no sense, are not known."""
        declared, told = (*texts[:2], "", "")[:2]
        attributes = tuple(texts[2:])
        digest, _, kept = told[1:].partition(":")
        total = {"+": True, "-": False}.get(told[:1])
        piece = Piece(attributes, tuple(declared.split()), total, digest)
        if not kept or any(name not in schema for name in attributes):
            return piece
        cells = prod(schema[name].size for name in attributes)
        return replace(piece, space=_space(kept, cells))

    def common(self, other: Piece | None) -> Common:
        """What it and another of the same attribute both tell; without one, that is summed over."""
        if other is None:
            alone = self.space is not None and self.space.rank == 1
            return Common(self.total, False, same=self.total is True and alone)
        if self.declared != other.declared or not self.declared:
            return Common(True if self.total and other.total else None, None, same=False)
        return _of_spaces(
            self.space, other.space, bool(self.digest) and self.digest == other.digest
        )


@dataclass(frozen=True, eq=False)
class Told:
    """A table: its name, and its pieces; attributes without one are summed over.

    Where records are replaced, `exact_total` says whether the total was told as it is or with
    noise; None is not known.
    """

    name: str
    pieces: tuple[Piece, ...]
    exact_total: bool | None = True

    @cached_property
    def of(self) -> dict[str, Piece]:
        """The piece of every attribute."""
        return {name: piece for piece in self.pieces for name in piece.attributes}

    @cached_property
    def joint(self) -> list[set[str]]:
        """Attributes that are told together, by a matrix."""
        return [set(p.attributes) for p in self.pieces if len(p.attributes) > 1]

    def within(self, block: Sequence[str]) -> list[Piece]:
        """The pieces of some attributes."""
        return [piece for piece in self.pieces if not set(block).isdisjoint(piece.attributes)]


class Pieces:
    """Pieces of queries over one schema, and what tables both tell; each is found once."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._made: dict[object, Piece] = {}
        self._declared: dict[str, str] = {}
        self._common: dict[tuple[Piece, Piece | None], Common] = {}
        self._blocks: dict[tuple[tuple[str, ...], Told], RowSpace | None] = {}

    def told(self, query: Query, name: str) -> Told:
        """What a query tells."""
        if query.joint is not None:
            return Told(name, (self._piece(query.attributes, query),))
        return Told(name, tuple(self._piece((each,), query) for each in query.attributes))

    def _piece(self, attributes: tuple[str, ...], query: Query) -> Piece:
        own = query.key if query.joint is not None else query.factors[attributes[0]]
        if (attributes, own) not in self._made:
            space, content = _space_of(attributes[0], query)
            self._made[attributes, own] = Piece(
                attributes,
                tuple(self._digest(name) for name in attributes),
                None if space is None else space.total,
                sha256(content).hexdigest()[:16] if content else "",
                space,
            )
        return self._made[attributes, own]

    def _digest(self, name: str) -> str:
        if name not in self._declared:
            self._declared[name] = declared_as(self.schema[name])
        return self._declared[name]

    def common(self, one: Told, other: Told) -> Common:
        """What two tables both tell: of products, a question for every attribute alone."""
        found = Common()
        for each in self._parts(one, other):
            if each.something is False:
                return Common(False, False, same=False)
            found = found.beside(each)
        return found

    def _parts(self, one: Told, other: Told) -> Iterator[Common]:
        blocks = _joined([*one.joint, *other.joint])
        for block in blocks:
            yield self._of_block(block, one, other)
        for name in {**one.of, **other.of}:
            if not any(name in block for block in blocks):
                yield self._of_attribute(one.of.get(name), other.of.get(name))

    def _of_attribute(self, one: Piece | None, other: Piece | None) -> Common:
        if one is None:
            one, other = other, None
        assert one is not None  # an attribute of one of the two tables
        if (one, other) not in self._common:
            self._common[one, other] = one.common(other)
        return self._common[one, other]

    def _of_block(self, block: Sequence[str], one: Told, other: Told) -> Common:
        """Both tables over the cells of some attributes, which a matrix tells together."""
        pieces = [*one.within(block), *other.within(block)]
        declared = {pair for p in pieces for pair in zip(p.attributes, p.declared, strict=False)}
        if {name for name, _ in declared} != set(block) or len(declared) > len(block):
            return Common(None, None, same=False)
        digests = [[(p.attributes, p.digest) for p in t.within(block)] for t in (one, other)]
        alike = digests[0] == digests[1] and all(digest for _, digest in digests[0])
        return _of_spaces(self._over(block, one), self._over(block, other), alike)

    def _over(self, block: Sequence[str], table: Told) -> RowSpace | None:
        """What a table tells of the cells of some attributes, in their order; found once."""
        key = tuple(block), table
        if key not in self._blocks:
            self._blocks[key] = self._found_over(block, table)
        return self._blocks[key]

    def _found_over(self, block: Sequence[str], table: Told) -> RowSpace | None:
        if any(name not in self.schema for name in block):
            return None
        sizes = {name: self.schema[name].size for name in block}
        spaces = [piece.space for piece in table.within(block)]
        order = [name for piece in table.within(block) for name in piece.attributes]
        rest = [name for name in block if name not in order]
        spaces += [RowSpace(np.ones(sizes[name], dtype=np.int64)) for name in rest]
        known = [space for space in spaces if space is not None]
        if prod(sizes.values()) > MOST_CELLS or len(known) < len(spaces):
            return None
        if order == list(block) and len(known) == 1:
            return known[0]
        made, order = product(known), order + rest
        if made is None:
            return None
        grid = made.kinds.reshape([sizes[name] for name in order])
        return RowSpace(grid.transpose([order.index(n) for n in block]).reshape(-1), made.rows)


def declared_as(attribute: Attribute) -> str:
    """A digest of how an attribute is declared."""
    content = json.dumps(attribute.to_dict(), sort_keys=True, default=str)
    return sha256(content.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _space_of(attribute: str, query: Query) -> tuple[RowSpace | None, bytes]:
    """What a query tells of an attribute, or by its matrix; and bytes that only the same has."""
    if query.joint is not None:
        space, content = matrix_space(DenseMatrix(query.joint)), query.joint.tobytes()
    else:
        factor = query.factors[attribute]
        space = row_space(factor, query.schema[attribute])
        content = factor.values.tobytes() if isinstance(factor, Custom) else b""
    return space, content if space is None else _bytes(space)


def _of_spaces(one: RowSpace | None, other: RowSpace | None, alike: bool) -> Common:
    number = None if one is None or other is None else one.rank if alike else one.common(other)
    if number is None or one is None or other is None:
        whole = any(space is not None and space.whole for space in (one, other))
        return Common(True if alike or whole else None, True if alike else None, alike)
    beyond = number > 1 or (number == 1 and not (one.total and other.total))
    return Common(number > 0, beyond, number == one.rank == other.rank)


def _every(one: bool | None, other: bool | None) -> bool | None:
    either = (one, other)
    return False if False in either else (None if None in either else True)


def _joined(sets: list[set[str]]) -> list[list[str]]:
    """Sets that overlap put together."""
    blocks: list[set[str]] = []
    for block in sets:
        touching = [each for each in blocks if each & block]
        blocks = [each for each in blocks if not each & block]
        blocks.append(block.union(*touching))
    return [sorted(block) for block in blocks]


def _bytes(space: RowSpace) -> bytes:
    """Steps between the kinds, which are mostly alike, and the rows."""
    rows = np.zeros((0, space.told)) if space.rows is None else space.rows
    steps = np.diff(space.kinds, prepend=0)
    return steps.astype("<i4").tobytes() + rows.astype("<f8").tobytes()


def _space(kept: str, cells: int) -> RowSpace | None:
    """Undo `_bytes`; None for what no space is."""
    try:
        content = _unpacked(kept, 4 * cells + 8 * MOST_NUMBERS)
        kinds = np.cumsum(np.frombuffer(content[: 4 * cells], "<i4").astype(np.int64))
        if len(kinds) != cells or not 0 <= kinds.min() <= kinds.max() <= cells or not kinds.any():
            return None
        rows = np.frombuffer(content[4 * cells :], "<f8").reshape(-1, kinds.max())
    except (ValueError, Broken):
        return None
    return RowSpace(kinds, rows if len(rows) and np.isfinite(rows).all() else None)


def _packed(content: bytes) -> str:
    """Compressed twice: once leaves a thousandth of what repeats, and a year has many minutes.

    Nothing for what is much too long: to compress well takes much longer, and leaves a fifth.
    """
    if len(compress(compress(content, 1), 1)) > 5 * LONGEST_PIECE:
        return ""
    return b64encode(compress(compress(content, 9), 9)).decode()


def _unpacked(text: str, most: int) -> bytes:
    content = b64decode(text)
    for _ in range(2):
        stream = decompressobj()
        content = stream.decompress(content, most)
        if not stream.eof:
            raise ValueError("cut short, or too long")
    return content
