"""Two agent systems behind one gateway: 100 tasks in flight, 1,000 tasks, the median of five runs.

    pytest example_suites/test_benchmark_two_systems.py

Both systems are simulated here, after the table that an article published about them; what the article says is printed
beside what was measured. Against your own gateway, with two models of yours in MODELS:

    pytest example_suites/test_benchmark_two_systems.py --swarm-base-url=https://gateway.example.com/v1
"""

import pytest

# What the article's table tells: factor and unit, and how many digits follow the point. Its throughput is what a system
# sustains: without the time in which the first tasks start and the last ones end.
ROWS = {
    "latency.p50": (1000, "ms", 0),
    "latency.p95": (1000, "ms", 0),
    "latency.p99": (1000, "ms", 0),
    "steady_throughput": (1, "tasks/s", 1),
    "success_rate": (100, "%", 0),
    "cost_per_100": (1, "$", 4),
    "output_tokens.mean": (1, "tokens", 0),
}
MODELS = {
    "gpt-6-agent": (1840, 4720, 8950, 42.3, 96, 0.082, 2100),
    "kimi-k2.5-swarm": (2310, 5180, 11420, 38.7, 94, 0.041, 1050),
}
LEVELS = ("p99 < 12s", "success_rate >= 90%", "cost_per_100 <= $0.10", "steady_throughput >= 35/s")


async def summarise(gateway, agent):
    """The task that a hundred agents work on: replace it by what your agents do."""
    await gateway.chat(f"Summarise report {agent.index} in three sentences.")


@pytest.mark.asyncio
@pytest.mark.parametrize("model", MODELS)
async def test_benchmark_two_systems(swarm, model, capsys):
    result = await swarm.run(summarise, tasks=1000, concurrency=100, repeat=5, model=model)
    judgement = result.judge(*LEVELS)
    with capsys.disabled():
        print(f"\n{model:<20} {'article':>10} {'measured':>10}")
        for (metric, (factor, unit, digits)), article in zip(ROWS.items(), MODELS[model], strict=True):
            measured = result[metric]
            if measured is None:  # a cost without a price, for example: the judgement says why
                print(f"{metric:<20} {article:>10,g} {'unknown':>10} {'':>8}  {unit}")
            else:
                measured *= factor
                print(f"{metric:<20} {article:>10,g} {measured:>10,.{digits}f} {measured / article - 1:>+8.1%}  {unit}")
    assert judgement
