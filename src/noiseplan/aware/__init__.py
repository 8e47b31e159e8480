"""Data-aware answers: buckets chosen privately from the data, then measured for the workload.

`noiseplan.plan(workload, budget=…, planner="dawa")` makes such plans. The idea is DAWA's (Li,
dissertation, chapter 6); how the buckets are chosen is this library's own, with a proof.
"""
