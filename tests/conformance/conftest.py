"""Conformance: what every mechanism, noise and planner must do, whoever wrote it.

Each is checked by experiment and by definition, never by the formulas of the code: what a mechanism
measures is found by giving it one record, what its noise does by giving it one unit of noise.

To join:

* a mechanism adds a plan that uses it to `EXAMPLES` in `mechanism_examples.py`, one for each law of
  noise, exact and in floating point; `test_every_mechanism_has_joined` fails until it does;
* a law of noise adds itself to `LAWS` in `test_conformance_noise.py`;
* a planner adds itself to `GAUSSIAN` or `LAPLACE` in `test_conformance_planners.py`.

`probes.py` alone knows how mechanisms and samplers are called inside; when that changes, it does.
"""

import pytest
from mechanism_examples import NAMES, probe_of
from probes import Probe


@pytest.fixture(params=NAMES)
def probe(request: pytest.FixtureRequest) -> Probe:
    return probe_of(request.param)
