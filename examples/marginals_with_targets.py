"""From accuracy needs to the least privacy cost, and what each need costs.

An office must publish four tables and knows how wide their intervals may be.
"""

import noiseplan as nz
from noiseplan.data import cpssw8_path, cpssw8_schema

schema = cpssw8_schema()
tables = nz.Workload(
    nz.Query(schema, list(names))
    for names in [["region"], ["gender", "region"], ["gender", "earnings"], ["age", "education"]]
)
# Half the width of a 95 % interval, in workers.
needs = {
    "region": 60,
    "gender × region": 60,
    "gender × earnings": 25,
    "age × education": 40,
}


def plan_for(half_widths: dict[str, float]) -> nz.Plan:
    """The plan of least privacy cost with intervals this narrow."""
    return nz.plan(tables, targets={name: (half / 1.96) ** 2 for name, half in half_widths.items()})


plan = plan_for(needs)
print(plan)

print("\nWhat would it save to let one table be half as precise?")
for name, half in needs.items():
    eased = plan_for(needs | {name: 2 * half})
    print(f"  {name:<18} {1 - eased.privacy.rho / plan.privacy.rho:6.1%} of the privacy cost")

release = plan.release(cpssw8_path())
print(f"\n{release.answer(tables['gender × region'])}")
