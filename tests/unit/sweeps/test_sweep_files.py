"""Sweeps from TOML files and by name."""

import re
from pathlib import Path

import pytest

from mico.cli.sweep_options import parse
from mico.sweeps.files import entries
from mico.sweeps.grid import Sweep, cells, make_sweep
from mico.sweeps.named import SWEEPS

TOML = """
steps = 400
env = ["mdp/two-state", "mdp/frozen-lake"]
agent = "dqn"
metric = ["none", "mico"]
seeds = [0, 1]
preset = "table"

[fields]
metric.alpha = [0.01, 0.1]
"replay.capacity" = 200

[[variants]]

[[variants]]
metric.error = "squared"
"""
EXPECTED = Sweep(
    400, ("mdp/two-state", "mdp/frozen-lake"), ("dqn",), ("none", "mico"), (0, 1), "table",
    {"metric.alpha": (0.01, 0.1), "replay.capacity": (200,)}, ({}, {"metric.error": "squared"}),
)  # fmt: skip


def test_a_toml_file_is_a_sweep(tmp_path):
    (tmp_path / "mine.toml").write_text(TOML)
    assert make_sweep(entries(str(tmp_path / "mine.toml"))) == EXPECTED


def test_names_of_fields_are_spelt_as_in_flags_or_as_in_python(tmp_path):
    text = "steps = 400\nenv = 'mdp/two-state'\n[fields]\nschedule.log{}period = [100, 200]\n[[variants]]\n"
    for hyphen in "-_":
        (tmp_path / f"{hyphen}.toml").write_text(text.format(hyphen) + f"schedule.learning{hyphen}starts = 50")
    one, other = (parse([str(tmp_path / f"{hyphen}.toml"), "--dry-run"])[1] for hyphen in "-_")
    assert one == other
    assert cells(one)[0].fields == (("schedule.learning_starts", 50), ("schedule.log_period", 100))
    _, replaced = parse([str(tmp_path / "-.toml"), "--schedule.log-period", "300", "--dry-run"])
    assert replaced.fields == {"schedule.log_period": (300,)}


METRICS = "metric = ['none', 'dbc']"


def test_the_guide_writes_one_sweep_in_two_ways(tmp_path):
    guide = (Path(__file__).parents[3] / "docs" / "sweeps.md").read_text()
    command = re.search(r"^    mico sweep (.*?)\n\n", guide, re.DOTALL | re.MULTILINE)[1].replace("\\\n", " ")
    _, expected = parse(command.split())
    assert len(cells(expected)) == 36
    text, variants, by_metric = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "x.toml").write_text(text)
    assert make_sweep(entries(str(tmp_path / "x.toml"))) == expected
    (tmp_path / "y.toml").write_text((tmp_path / "x.toml").read_text() + variants)
    assert len(cells(make_sweep(entries(str(tmp_path / "y.toml"))))) == 2 * 2 * (1 + 3 * 2) * 3
    (tmp_path / "z.toml").write_text(f"steps = 400\nenv = 'gym/Pendulum-v1'\nagent = 'sac'\n{METRICS}\n{by_metric}")
    none, dbc = cells(make_sweep(entries(str(tmp_path / "z.toml"))))
    assert none.fields == ()
    assert dict(dbc.fields) == {"agent.critics_read": "actor", "metric.variant": "rewrite"}


@pytest.mark.parametrize("steps", ['"200k"', "'2e5'", "2e5", "200_000", "200000.0", "'200,000'"])
def test_steps_are_written_as_in_flags(tmp_path, steps):
    (tmp_path / "x.toml").write_text(f"steps = {steps}\nenv = 'mdp/two-state'")
    assert make_sweep(entries(str(tmp_path / "x.toml"))) == Sweep(200_000, "mdp/two-state")


@pytest.mark.parametrize("name", SWEEPS)
def test_names_are_sweeps(name):
    assert make_sweep(entries(name)) == SWEEPS[name].sweep


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.toml", "steps =", r"x.toml is not TOML: "),
        ("x.toml", b"\xff\xfe", r"x.toml is not TOML: "),
        ("x.toml", "stepz = 400\nenv = 'mdp/two-state'", "'stepz' is no entry of a sweep: did you mean steps"),
        (
            "x.toml",
            "env = 'mdp/two-state'",
            "steps is missing: give --steps, agent steps of each run, or steps in the file",
        ),
        ("x.toml", "steps = 400", "env is missing: give --env"),
        (
            "x.toml",
            "steps = 400\nenv = 'mdp/two-state'\nfields = {schedule = {log-period = 1, log_period = 2}}",
            "fields gives schedule.log_period twice, with - and with _",
        ),
        ("x.toml", "env = 5", r"x.toml: env must be names, got 5"),
        ("x.toml", "agent = [5]", r"x.toml: agent must be names, got 5"),
        ("x.toml", "metric = true", r"x.toml: metric must be names, got True"),
        ("x.toml", "agent = 1979-05-27", r"x.toml: agent must be names, got datetime.date\(1979, 5, 27\)"),
        ("x.toml", "preset = ['atari']", r"x.toml: preset must be a name, got \['atari'\]"),
        ("x.toml", "seeds = [0, 0]", r"x.toml: seed 0 is given twice"),
        ("x.toml", "seeds = '0'", r"x.toml: seeds must be whole numbers, got '0'"),
        ("x.toml", "steps = 'many'", r"x.toml: steps must be a whole number such as 200000, 200k"),
        ("x.toml", "steps = 1.5", r"x.toml: steps must be a whole number"),
        ("x.toml", "fields = 5", r"x.toml: fields must give values to names of fields, got 5"),
        ("x.toml", "variants = 5", r"x.toml: variants must give values to names of fields, got 5"),
        ("x.toml", "env = " + "[" * 100_000, r"x.toml is nested too deeply"),
        ("x.txt", "", r"sweep must be a name or a .toml or .json file, got .*x.txt.*: the named sweeps are "),
        ("x.py", "raise SystemExit(7)", r"sweep must be a name or a .toml or .json file, got .*x.py"),
    ],
)
def test_what_is_no_sweep_is_named(tmp_path, name, text, message):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message):
        make_sweep(entries(str(tmp_path / name)))


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        entries(str(tmp_path / "x.toml"))
    assert error.value.filename == str(tmp_path / "x.toml")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("minatr", r"did you mean minatar\?$"),
        ("atari-61", r"did you mean atari-60( or atari-60-defaults)?\?$"),
        ("Atari-60", r"did you mean atari-60( or atari-60-defaults)?\?$"),
        (
            "xyz",
            "the named sweeps are atari-60, atari-60-defaults, control-12, .*minatar$",
        ),
    ],
)
def test_a_misspelt_name_of_a_sweep_gets_a_suggestion(given, meant):
    with pytest.raises(ValueError, match=f"got '{given}': {meant}"):
        entries(given)
