"""The published figures beside this package's own, measured by one command: `python -m benchmarks`.

Each group of tables is a module with a function `tables(quick)` that yields them one by one.
"""

import os

# Times are those of one core. BLAS reads this when NumPy is first imported, so it is set here,
# before any module of the package imports it.
for _library in ("OPENBLAS", "MKL", "OMP"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"
