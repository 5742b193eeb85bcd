from __future__ import annotations

from pytest_swarm.sources.simulated.timeline import EventTimeline, ScaledTimeline


def test_events_come_in_order_of_time_and_equal_ones_in_order_of_arrival() -> None:
    timeline, seen = EventTimeline(), []
    for when, name in ((2.0, "c"), (1.0, "a"), (1.0, "b")):
        timeline.call_at(when, lambda name=name: seen.append((timeline.time(), name)))
    timeline.run()
    assert seen == [(1.0, "a"), (1.0, "b"), (2.0, "c")]


def test_an_event_of_the_past_comes_now() -> None:
    timeline, seen = EventTimeline(), []
    timeline.call_at(5.0, timeline.call_at, 1.0, lambda: seen.append(timeline.time()))
    timeline.run()
    assert seen == [5.0]


def test_a_cancelled_event_does_not_come() -> None:
    timeline, seen = EventTimeline(), []
    timeline.call_at(1.0, seen.append, 1).cancel()
    timeline.run()
    assert seen == []


def test_time_can_be_run_to_a_point_before_the_next_event() -> None:
    timeline, seen = EventTimeline(), []
    timeline.call_at(3.0, seen.append, 3)
    timeline.run(until=2.0)
    assert (timeline.time(), seen) == (2.0, [])
    timeline.run(until=4.0)
    assert (timeline.time(), seen) == (4.0, [3])


def test_scaled_time_runs_as_many_times_as_fast() -> None:
    base = EventTimeline()
    base.run(until=100.0)
    scaled, seen = ScaledTimeline(base, 10), []
    scaled.call_at(5.0, lambda: seen.append((base.time(), scaled.time())))
    base.run()
    assert seen == [(100.5, 5.0)]
