"""A fleet.json that somebody else wrote, or edited, leads to no other folder and is refused by what is wrong in it."""

import json
import re

import pytest

from mico import cli
from mico.deep.config.run import Label, describe, run_names
from mico.deep.metric_losses import MICo
from mico.deep.training import train as training
from mico.deep.training.run_folder import Kept, Outputs
from mico.deep.training.train import train
from mico.runs.files import writable
from small_runs import small_run
from trainings import FLAGS

pytestmark = pytest.mark.usefixtures("quick_compilation")

RUNS = [small_run("dqn", MICo(alpha=0.25), seed=seed) for seed in (0, 1)]


def everything(out):
    return {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def begun(out):
    """The folder of two runs that have not taken a step, and its fleet.json."""
    labels = [Label(one, describe(run), {}) for one, run in zip(run_names(RUNS), RUNS)]
    kept = Kept(labels, [1, 1])
    Outputs(writable(out), dict(zip(run_names(RUNS), RUNS)), 80, resume=False, kept=kept).close()
    return json.loads((out / "fleet.json").read_bytes())


@pytest.fixture
def victim(tmp_path):
    """A folder of somebody, beside that of the runs, and how it has to stay."""
    (tmp_path / "victim/params").mkdir(parents=True)
    (tmp_path / "victim/params/thesis.tex").write_text("years of work")
    yield tmp_path / "victim"
    files = [path for path in (tmp_path / "victim").rglob("*") if path.is_file()]
    assert [path.read_text() for path in files] == ["years of work"]


@pytest.mark.parametrize("where", ["runs", "labels"])
@pytest.mark.parametrize("kind", ["above", "absolute", "parent", "number", "checkpoints"])
def test_names_of_runs_that_would_lead_elsewhere_are_refused(tmp_path, victim, capsys, where, kind):
    """A fleet.json of somebody else once had its runs written into other folders, and their files deleted."""
    out = tmp_path / "out"
    found = begun(out)
    name = {"above": "../victim", "absolute": str(victim), "parent": "..", "number": 5}.get(kind, kind)
    if where == "runs":
        found["runs"][1] = name
    found["labels"][1]["name"] = name
    (out / "fleet.json").write_text(json.dumps(found))
    before = everything(tmp_path)
    flags = "train --env mdp/frozen-lake --agent dqn --metric mico --seeds 0 1 --steps 80 --resume --out"
    with pytest.raises(SystemExit) as stop:
        cli.main([*flags.split(), str(out), *FLAGS])
    printed = capsys.readouterr()
    assert (stop.value.code, printed.out) == (2, "")
    assert re.fullmatch(
        rf"mico: {re.escape(str(out))}/fleet\.json: (runs|names of labels)\[1\] must [^\n]+\n", printed.err
    )
    assert everything(tmp_path) == before
    with pytest.raises(ValueError, match=r"fleet\.json: .*\[1\] must"):
        train(RUNS, out, steps=80, resume=True)
    assert everything(tmp_path) == before


def test_labels_given_from_python_are_plain_names_too(tmp_path, victim):
    labels = [Label(name, describe(run), {}) for name, run in zip(["a", "../victim"], RUNS)]
    with pytest.raises(ValueError, match=r"names of runs\[1\] must be a plain name"):
        train(RUNS, tmp_path / "out", steps=80, labels=labels)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["runs"], [], "it needs runs"),
        (["runs"], ["a", "a"], "runs must differ, but 'a' is there twice"),
        (["steps"], True, "it needs runs, as many settings, and steps"),
        (["steps"], "80", "it needs runs, as many settings, and steps"),
        (["settings"], [{}], "2 runs, but 1 settings"),
        (["settings", 0], [], r"settings\[0\] must be an object"),
        (["settings", 0, "env"], [], r"settings\[0\]\.env must be an object, got \[\]"),
        (["settings", 0, "env", "path"], 5, r"settings\[0\]\.env\.path must be text, got 5"),
        (["settings", 1, "schedule"], [], r"settings\[1\]\.schedule must be an object"),
        (["settings", 1, "agent", "name"], "../x", r"settings\[1\]\.agent\.name must be a plain name"),
        (["settings", 1, "seed"], "0", r"settings\[1\]\.seed must be a whole number"),
        (["labels"], 5, "labels must be a list"),
        (["labels", 0, "name"], 5, r"names of labels\[0\] must be a name, got 5"),
        (["labels", 0, "settings"], {}, r"labels\[0\]\.settings\.agent must be an object, got nothing"),
        (["labels", 0, "varied"], 5, r"labels\[0\] must have a name, settings and varied fields"),
        (["parts"], [3], "parts must add up to 2 runs"),
        (["parts"], ["a"], "parts must be a list of whole numbers"),
    ],
)
def test_entries_of_the_wrong_type_are_named(tmp_path, place, value, message):
    found = entry = begun(tmp_path)
    for key in place[:-1]:
        entry = entry[key]
    entry[place[-1]] = value
    (tmp_path / "fleet.json").write_text(json.dumps(found))
    before = everything(tmp_path)
    with pytest.raises(ValueError, match=rf"fleet\.json.*{message}"):
        train(RUNS, tmp_path, steps=80, resume=True)
    assert everything(tmp_path) == before


def test_deep_nesting_is_no_json(tmp_path):
    (tmp_path / "fleet.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"fleet\.json is not JSON"):
        train(RUNS, tmp_path, steps=80, resume=True)


def test_a_refused_training_leaves_no_folder(tmp_path, monkeypatch):
    """Neither the one that it was to make nor those on the way there."""

    def refuse(*_, **__):
        raise ValueError

    monkeypatch.setattr(training, "Outputs", refuse)
    with pytest.raises(ValueError):  # noqa: PT011 it has no words
        train(RUNS, tmp_path / "a/b", steps=80)
    assert not [*tmp_path.iterdir()]
