"""Telemetry nobody has to be trusted with: how long does the app take to start?

Every phone adds the noise itself and sends one short report; the collector sees nothing else. The
story runs from the plan through devices and servers to quantiles with error bars, and ends with how
the error falls with the number of users, for the plan and for classical mechanisms.
"""

from pathlib import Path

import numpy as np

import noiseplan as nz

EPSILON = 1.0
rng = np.random.default_rng(2026)
folder = Path("pictures")
folder.mkdir(exist_ok=True)

# What may be reported is declared, and public: start-up times in bins, and slower than all of them.
edges = [*np.arange(0, 4.8, 0.2).round(1).tolist(), float("inf")]
schema = nz.Schema({"seconds": nz.Binned(edges)})
upto = nz.Query(schema, {"seconds": nz.Prefix()}, name="started within")

# 1. The plan, made for the questions: shares of users that started within so many seconds.
plan = nz.local.plan(upto, epsilon=EPSILON)
print(plan)

# 2. Devices get a small file. It draws from integers, so its ε is a fact about the file.
file = plan.randomizer().save(folder / "start-up.randomizer")
device = nz.local.load_randomizer(file)
print(f"\ndevice: {device}, {file.stat().st_size:,} bytes, reports of {device.report_bytes} bytes")

# 3. Two regions report; each has a server of its own. Some reports are damaged or not ours.
servers = []
for users, median in ((180_000, 1.1), (70_000, 1.9)):
    times = np.exp(rng.normal(np.log(median), 0.45, users))
    server = plan.aggregator()
    server.add_packet(device.packet(device.reports(times)))
    server.add(b"not a report at all")
    servers.append((server, times))
everyone = servers[0][0] + servers[1][0]
print(f"collected: {everyone}")

# 4. Answers: unbiased, with standard errors, and intervals that hold for all rows at once.
answer = everyone.answer(upto, simultaneous=True)
truth = np.searchsorted(np.sort(np.concatenate([t for _, t in servers])), edges[1:])
inside = ((answer.lower <= truth) & (truth <= answer.upper)).sum()
print(f"{inside} of {upto.rows} true counts lie inside their simultaneous intervals")
steady = everyone.consistent().answer(upto)  # counts of a real population: none falls
for share in (0.5, 0.9, 0.99):
    place = int(np.searchsorted(steady, share * everyone.users))
    error = answer.std_error[place] / everyone.users
    within = f"within {edges[place + 1]} s" if place + 2 < len(edges) else "in any time at all"
    print(f"{share:.0%} of the users start {within} (± {error:.2%} of users)")

# 5. A phone that is asked again every week answers with the report it gave first.
kept = folder / "my-reports.json"
kept.unlink(missing_ok=True)  # of an earlier run of this example, and perhaps of another plan
memory = nz.local.Memory(device, kept)
weekly = {memory.report(1.3) for _ in range(52)}
print(f"a year of weekly reports: {len(weekly)} different one, ε = {memory.spent:g} spent")

# 6. How many users are needed? The error of a row falls with the root of their number.
needs = nz.local.compare(upto, EPSILON)
shown = {
    "planned for the queries": plan.samples(),
    "hierarchical (Hadamard)": needs["hierarchical over hadamard"],
    "Hadamard response": needs["hadamard"],
    "randomized response": needs["randomized response"],
}
for name, samples in shown.items():
    print(f"  {name:<24} {100 * samples:>12,.0f} users for an error of 1%")
shares = np.diff(truth, prepend=0) / truth[-1]
for n in (1_000, 10_000, 100_000):
    counts = rng.multinomial(n, shares)
    answers = [plan.simulate(counts, seed=seed).answer(upto).estimate for seed in range(60)]
    error = np.sqrt(np.mean((np.array(answers) - np.cumsum(counts)) ** 2)) / n
    expected = np.sqrt(0.01 * plan.samples() / n)
    print(f"{n:>9,} users: simulated error {error:.2%}, expected {expected:.2%}")
