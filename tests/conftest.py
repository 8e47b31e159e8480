"""Before NumPy is imported: one thread for small matrices, or busy machines wait for each other."""

import os

for _library in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_library, "1")

from hypothesis import settings  # noqa: E402

# The same examples on every run of the same tests, on fast machines and slow ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
