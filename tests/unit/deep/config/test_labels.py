"""Runs under other names than their own: what is written of them, and how they go on."""

import json

import pytest

from mico.deep import load
from mico.deep.config.run import Label, describe
from mico.deep.metric_losses import MICo
from mico.deep.training.train import train
from small_runs import small_run
from trainings import left

pytestmark = pytest.mark.usefixtures("quick_compilation")
RUNS = [small_run(metric=MICo(alpha=alpha), seed=0) for alpha in (0.0, 0.25)]
BASELINE = describe(small_run(seed=0))
LABELS = [Label("base", BASELINE, {}), Label("arm", describe(RUNS[1]), {"metric.alpha": 0.25})]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory, quick_compilation):
    out = tmp_path_factory.mktemp("labelled")
    train(RUNS, out, steps=80, labels=LABELS)
    return out


def config(out, name):
    return json.loads((out / name / "config.json").read_text())


def test_a_run_is_called_and_described_as_its_label_says(labelled):
    base, arm = config(labelled, "base"), config(labelled, "arm")
    assert (base["run"], base["metric"], base["varied"], base["settings"]) == ("base", None, {}, BASELINE)
    assert base["computed_as"] == {"metric": describe(RUNS[0])["metric"]}
    assert (arm["run"], arm["metric"], arm["varied"]) == ("arm", "mico", {"metric.alpha": 0.25})
    assert "computed_as" not in arm
    fleet = json.loads((labelled / "fleet.json").read_text())
    assert fleet["runs"] == ["base", "arm"]
    assert fleet["settings"] == [describe(run) for run in RUNS]
    assert load(labelled / "base").settings.metric is None


def test_names_do_not_change_what_is_learnt(labelled, tmp_path):
    train(RUNS, tmp_path, steps=80)
    names = {"base": "dqn-mico-alpha0.0-seed0", "arm": "dqn-mico-alpha0.25-seed0"}
    for called, own in names.items():
        for file in ("log.jsonl", "params/80.arrays"):
            assert (labelled / called / file).read_bytes() == (tmp_path / own / file).read_bytes()


def test_labels_are_kept_by_whoever_goes_on(labelled, tmp_path):
    for steps in (40, 80):
        train(RUNS, tmp_path, steps=steps, resume=True, labels=LABELS if steps == 40 else ())
    assert left(tmp_path) == left(labelled)
    assert config(tmp_path, "base")["metric"] is None


def test_other_names_are_refused(labelled):
    others = [label._replace(name=name) for label, name in zip(LABELS, ("one", "other"), strict=True)]
    with pytest.raises(ValueError, match="the runs here are called base, arm, not one, other"):
        train(RUNS, labelled, steps=80, resume=True, labels=others)
    with pytest.raises(ValueError, match="runs must be those of the folder, base, arm, got 1 runs"):
        train(RUNS[:1], labelled, steps=80, resume=True)


@pytest.mark.parametrize("labels", [[1, 2], [{}, {}], [{"name": "a", "settings": {}, "varied": {}}]])
def test_damaged_labels_are_named(labelled, tmp_path, labels):
    fleet = json.loads((labelled / "fleet.json").read_text())
    (tmp_path / "fleet.json").write_text(json.dumps(fleet | {"labels": labels}))
    with pytest.raises(ValueError, match=r"fleet.json does not describe a fleet"):
        train(RUNS, tmp_path, steps=80, resume=True)
