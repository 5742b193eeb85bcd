from __future__ import annotations

from pathlib import Path

import pytest

from pytest_swarm.errors import SettingError
from pytest_swarm.sources.simulated.systems import DEFAULT_SYSTEM, builtin_systems, find_system, load_systems

SMALL = """
[[system]]
name = "small"
[system.service]
shares = [0, 1]
seconds = [1, 2]
[system.capacity]
policy = "fixed"
workers = 2
[system.tokens]
output_mean = 100
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_two_systems_are_built_in_and_the_default_is_one_of_them() -> None:
    systems = builtin_systems()
    assert list(systems) == ["gpt-6-agent", "kimi-k2.5-swarm"]
    assert DEFAULT_SYSTEM in systems
    gpt, kimi = systems.values()
    assert (gpt.capacity.policy, gpt.capacity.workers) == ("fixed", 32)
    assert (kimi.capacity.policy, kimi.capacity.min_workers, kimi.capacity.max_workers) == ("elastic", 8, 256)
    assert (gpt.cache.scope, kimi.cache.scope) == ("shared", "worker")
    assert gpt.prices.cached_input == gpt.prices.input / 2
    assert (gpt.faults.recovery, gpt.faults.max_retries, kimi.faults.recovery) == ("backoff", 3, "reschedule")


def test_a_file_adds_systems_to_the_built_in_ones(tmp_path: Path) -> None:
    systems = load_systems(written(tmp_path, SMALL))
    assert list(systems) == [*builtin_systems(), "small"]
    small = systems["small"]
    assert small.description == "small"
    assert small.capacity.workers == 2
    assert small.service.seconds == (1.0, 2.0)
    assert small.faults.doomed_rate == 0.0
    assert small.limits.requests_per_minute is None


def test_a_system_writes_only_what_differs_from_the_one_it_extends(tmp_path: Path) -> None:
    text = '[[system]]\nname = "slow"\nextends = "gpt-6-agent"\n[system.capacity]\nworkers = 8\n'
    slow, gpt = load_systems(written(tmp_path, text))["slow"], builtin_systems()["gpt-6-agent"]
    assert slow.capacity.workers == 8
    assert slow.service == gpt.service
    assert slow.description == gpt.description


def test_a_system_can_extend_one_that_stands_before_it(tmp_path: Path) -> None:
    text = SMALL + '[[system]]\nname = "other"\nextends = "small"\n[system.tokens]\noutput_mean = 50\n'
    systems = load_systems(written(tmp_path, text))
    assert systems["other"].tokens.output_mean == 50
    assert systems["other"].capacity == systems["small"].capacity


def test_another_capacity_policy_takes_nothing_over_from_the_extended_one(tmp_path: Path) -> None:
    text = (
        '[[system]]\nname = "fixed-kimi"\nextends = "kimi-k2.5-swarm"\n'
        '[system.capacity]\npolicy = "fixed"\nworkers = 100\n'
    )
    assert load_systems(written(tmp_path, text))["fixed-kimi"].capacity.workers == 100


def test_a_system_of_the_users_replaces_a_built_in_one_of_that_name(tmp_path: Path) -> None:
    text = '[[system]]\nname = "gpt-6-agent"\nextends = "gpt-6-agent"\n[system.capacity]\nworkers = 8\n'
    assert load_systems(written(tmp_path, text))["gpt-6-agent"].capacity.workers == 8
    assert builtin_systems()["gpt-6-agent"].capacity.workers == 32


WRONG = {
    "not toml": ("name = [", "mine.toml: cannot be read as TOML"),
    "no system": ("", "mine.toml has no [[system]] table"),
    "one table": ('[system]\nname = "a"', "mine.toml has no [[system]] table"),
    "numbers for systems": ("system = [1]", "system is 1; write [[system]] tables"),
    "misspelt system": ('[[systems]]\nname = "a"', "write [[system]] tables, nothing else; did you mean 'system'?"),
    "no name": ("[[system]]\n", "a [[system]] has the name None"),
    "odd name": ('[[system]]\nname = "a b"', "has the name 'a b'; write letters"),
    "twice": (SMALL + SMALL, "two systems called 'small'"),
    "unknown table": ('[[system]]\nname = "a"\n[system.fault]\n', "'a' has no 'fault'; allowed are name"),
    "unknown base": ('[[system]]\nname = "a"\nextends = "gpt-6"', "extends 'gpt-6'; choose one of gpt-6-agent, kimi"),
    "base is a number": ('[[system]]\nname = "a"\nextends = 1', "system 'a' extends 1; choose one of"),
    "description": ('[[system]]\nname="a"\ndescription = " "\nextends = "gpt-6-agent"', "of system 'a' is ' '"),
    "missing table": ('[[system]]\nname = "a"\n', "[system.service] of 'a' misses the key shares"),
    "a text for a table": ('[[system]]\nname="a"\nextends="gpt-6-agent"\ntokens="many"', "is 'many'; write a table"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "complaint"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_refused_in_one_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(SettingError) as raised:
        load_systems(written(tmp_path, text))
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


WRONG_KEYS = {
    "capacity.worker = 3": "[system.capacity] of 'a' has no key 'worker'; allowed are policy, workers, min_workers",
    "capacity.workers = 0": "workers is 0; write a whole number of at least 1",
    "capacity.workers = true": "workers is True; write a whole number of at least 1",
    'capacity.policy = "elastik"': "policy is 'elastik'; choose one of fixed, elastic; did you mean 'elastic'?",
    "capacity.policy = 3": "policy is 3; choose one of fixed, elastic",
    'capacity.policy = "elastic"': "misses max_workers and min_workers, which policy 'elastic' needs",
    "capacity.min_workers = 3": "has min_workers, which policy 'fixed' does not know; drop it, or the policy",
    "faults.doomed_rate = 1.5": "doomed_rate is 1.5; write a number from 0 to 1",
    'faults.doomed_rate = "4 %"': "doomed_rate is '4 %'; write a number from 0 to 1",
    "faults.doomed_rate = nan": "doomed_rate is nan; write a number from 0 to 1",
    "faults.doomed_status = 200": "doomed_status is 200; choose one of 400, 403",
    "faults.hang_seconds = 0": "hang_seconds is 0; write a number above 0",
    "faults.backoff_seconds = -1": "backoff_seconds is -1; write a number of at least 0",
    "faults.cut_rate = 0.97": "doomed_rate + hang_rate + stall_rate + cut_rate + stream_error_rate is more than 1",
    "json.invalid_rate = 1.0": "[system.json] of 'a': invalid_rate + schema_invalid_rate is more than 1",
    'json.invalid_kinds = ["cutt"]': "invalid_kinds is ['cutt']; choose one of cut, fenced, prose; did you mean 'cut'?",
    "json.invalid_kinds = []": "invalid_kinds is []; write a list that is not empty",
    "cache.keeps_replies = 1": "keeps_replies is 1; write true or false",
    "service.shares = [0, 1]": "has 2 shares and 9 seconds; write one time for each share",
    "service.shares = [0, 0.3, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 1]": "write rising numbers from 0 to 1",
    "service.shares = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1]": "write rising numbers from 0 to 1",
    "service.seconds = [9, 8, 7, 6, 5, 4, 3, 2, 1]": "write times that never fall",
}  # fmt: skip


@pytest.mark.parametrize(("line", "complaint"), WRONG_KEYS.items())
def test_a_wrong_key_is_named_with_its_table_and_what_is_allowed(tmp_path: Path, line: str, complaint: str) -> None:
    table, _, setting = line.partition(".")
    text = f'[[system]]\nname = "a"\nextends = "gpt-6-agent"\n[system.{table}]\n{setting}\n'
    with pytest.raises(SettingError) as raised:
        load_systems(written(tmp_path, text))
    assert complaint in str(raised.value)
    assert "mine.toml" in str(raised.value)


def test_an_elastic_pool_has_a_range_of_workers(tmp_path: Path) -> None:
    text = '[[system]]\nname = "a"\nextends = "kimi-k2.5-swarm"\n[system.capacity]\nmin_workers = 300\n'
    with pytest.raises(SettingError, match="min_workers is 300 and max_workers 256"):
        load_systems(written(tmp_path, text))
    text = '[[system]]\nname = "a"\nextends = "kimi-k2.5-swarm"\n[system.capacity]\nworkers = 3\n'
    with pytest.raises(SettingError, match="has workers, which policy 'elastic' does not know"):
        load_systems(written(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"none\.toml: cannot be read as TOML \(No such file or directory\)"):
        load_systems(tmp_path / "none.toml")


def test_a_model_is_a_system_by_its_name_and_an_unknown_one_is_told_which_there_are() -> None:
    systems = builtin_systems()
    assert find_system(None, systems).name == DEFAULT_SYSTEM
    assert find_system("kimi-k2.5-swarm", systems) is systems["kimi-k2.5-swarm"]
    with pytest.raises(SettingError, match=r"called 'kimi-k2'; there are gpt-6-agent, kimi-k2\.5-swarm; did you mean"):
        find_system("kimi-k2", systems)
