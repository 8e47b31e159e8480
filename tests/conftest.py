"""Before NumPy is imported: one thread for small matrices, or busy machines wait for each other."""

import os

for _library in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_library, "1")

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from noiseplan.planning import planner  # noqa: E402

# The same examples on every run of the same tests, on fast machines and slow ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# Oracles speak of continuous noise, whose optima have closed forms. Tests of the discrete default
# ask for it by name, and `as_shipped` puts the default back where a whole program is run.
planner.DEFAULT_NOISE = "gaussian"


@pytest.fixture
def as_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default noise as users have it."""
    monkeypatch.setattr(planner, "DEFAULT_NOISE", "discrete")
