"""The seven workloads of the local experiments, over n types."""

from __future__ import annotations

import noiseplan as nz


def local_workload(name: str, n: int) -> nz.Workload:
    """A workload by its published name; the binary ones need n = 2^d."""
    one = nz.Schema.from_sizes({"v": n})
    bits = nz.Schema.from_sizes({f"b{i}": 2 for i in range(n.bit_length() - 1)})
    match name:
        case "Histogram":
            return nz.Workload([nz.Query(one, ["v"])])
        case "Prefix":
            return nz.Workload([nz.Query(one, {"v": nz.Prefix()})])
        case "AllRange":
            return nz.Workload([nz.Query(one, {"v": nz.Ranges()})])
        case "AllMarginals":
            return nz.Workload.marginals(bits, up_to=len(bits))
        case "3-Way":
            return nz.Workload.marginals(bits, k=3)
        case "Parity≤3":
            return _parities(bits, n, {0, 1, 2, 3})
        case "Parity=3":
            return _parities(bits, n, {3})
    raise KeyError(name)


def _parities(bits: nz.Schema, n: int, sizes: set[int]) -> nz.Workload:
    """Characters (−1)^|S ∧ u| for sets S of these sizes."""
    chosen = [s for s in range(n) if s.bit_count() in sizes]
    rows = [[(-1.0) ** (s & u).bit_count() for u in range(n)] for s in chosen]
    return nz.Workload([nz.Query(bits, list(bits.names), matrix=rows)])
