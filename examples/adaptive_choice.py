"""Look first, choose after: one-way tables, or two-way tables if the data can bear them.

The look is what both plans measure anyway. The rule asks whether the one-way tables would still be
precise enough when they are made of the two-way ones; nothing is spent on asking.
"""

import noiseplan as nz
from noiseplan.choosing import SignalToNoise
from noiseplan.data import cpssw8_path, cpssw8_schema

schema = cpssw8_schema()
budget = nz.zCDP(0.01)
one_way = nz.plan(nz.Workload.marginals(schema, k=1), budget=budget)
two_way = nz.plan(nz.Workload.marginals(schema, k=2), budget=budget)

choice = nz.adaptive([one_way, two_way])
print(choice)

look = choice.look(cpssw8_path())
print(f"\n{look.answer(nz.Query(schema, ['region']))}")

for ratio in (3.0, 100.0):
    rule = SignalToNoise(share=0.75, ratio=ratio)
    print(f"\nthree cells of four with {ratio:g} standard errors:\n{look.recommend(rule)}")

release = look.follow(SignalToNoise(share=0.75, ratio=3.0))
print(f"\n{release}")

# Later somebody needs all tables after all: only what is missing is measured.
left = nz.plan(nz.Workload.marginals(schema, up_to=2), budget=nz.zCDP(0.05)).given(release)
print(f"\n{left}")
