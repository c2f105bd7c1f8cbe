"""The study on MinAtar, of made-up results: which runs it has, what is missing, what is trained, and what comes out."""

import json
import logging
import signal
import time
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from scipy import stats

from made_results import made_rows, write_results
from mico.deep.agents import VALUE_AGENTS
from mico.evidence.figures import Drawing, Undrawn
from mico.experiments import minatar, minatar_results, minatar_training
from mico.experiments.minatar_figures import LABELS, figures, tables
from mico.experiments.minatar_plan import Config, Weights, choice, key_of, paper_weights, study_parts, sweep_parts
from mico.experiments.minatar_results import PACKAGED, known, lacking
from mico.runs import archive as condensed
from mico.runs.archive import reached, read
from mico.sweeps.fleets import finished
from mico.sweeps.manifest import Limits, planned
from mico.sweeps.plan import plan
from mico.sweeps.status import Status, write_status
from written_runs import ORIGIN

SMALL = Config(
    games=("breakout", "asterix"),
    agents=("dqn",),
    seeds=(0, 1, 2),
    steps=4_000,
    sweep_games=("breakout",),
    sweep_seeds=(7, 8),
    sweep_steps=2_000,
    sweep_alphas=(0.1, 0.5),
    sweep_betas=(0.1, 1.0),
    points=10,
)
SWEPT = [*product(SMALL.sweep_alphas, SMALL.sweep_betas)]


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """Without the results that the package has."""
    monkeypatch.setattr(minatar_results, "PACKAGED", tmp_path / "packaged")


def write_sweep(folder, agent="dqn", gain=lambda alpha, beta: alpha + beta, **changes):
    config = replace(SMALL, **changes)
    made = [
        made_rows(agent, game, config.sweep_seeds, SWEPT, steps=config.sweep_steps, points=config.points, gain=gain)
        for game in config.sweep_games
    ]
    write_results(folder / "alpha-beta", made)


def write_study(folder, weights, agent="dqn", config=SMALL, **given):
    made = [
        made_rows(agent, game, config.seeds, weights, steps=config.steps, points=config.points, **given)
        for game in config.games
    ]
    write_results(folder / "study", made)


def test_the_whole_study_is_what_is_asked_for():
    config = Config()
    assert len(config.games) == len(config.agents) == 5
    assert len(config.seeds) == 10
    sizes = {agent: len(study_parts(config, agent, Weights(0.3, 0.3))) for agent in config.agents}
    assert set(sizes.values()) == {5}
    for part in study_parts(config, "iqn", Weights(0.3, 0.3)):
        (fleet,) = plan(part.sweep, part.cells, memory=None, max_runs=config.max_runs)
        assert len(fleet.members) == 3 * 10  # the arms of a seed share a program
        assert fleet.shared() == "mico"
    fields = dict(study_parts(config, "dqn", None)[0].cells[0].fields)
    assert fields["env.actions"] == "all"
    assert fields["env.max_steps"] == "original"
    assert fields["schedule.log_period"] == 40_000
    assert fields["network.precision"] == "float32"
    assert "agent.fractions" not in fields
    for agent in ("iqn", "m-iqn"):
        rounded = dict(study_parts(config, agent, None)[0].cells[0].fields)
        assert (rounded["network.precision"], rounded["agent.fractions"]) == ("bfloat16", "shared")
        (swept, _) = sweep_parts(config, agent)  # of QR-DQN
        assert dict(swept.cells[0].fields)["network.precision"] == "float32"
    asked = replace(config, precision="float32")
    assert dict(study_parts(asked, "iqn", None)[0].cells[0].fields)["network.precision"] == "float32"


def test_arms_of_the_study():
    def arms(config, chosen):
        return {key_of(cell)[4:] for part in study_parts(config, "qr-dqn", chosen) for cell in part.cells}

    assert paper_weights("qr-dqn") == (0.5, 0.1)
    assert paper_weights("dqn") == (0.01, 0.1)
    assert arms(SMALL, None) == {(None, None), (0.5, 0.1)}
    assert arms(SMALL, Weights(0.5, 0.1)) == {(None, None), (0.5, 0.1)}
    assert arms(SMALL, Weights(0.1, 1.0)) == {(None, None), (0.5, 0.1), (0.1, 1.0)}
    given = replace(SMALL, alpha=0.2, beta=0.3)
    assert arms(given, Weights(0.1, 1.0)) == {(None, None), (0.5, 0.1), (0.2, 0.3)}


def test_the_sweep_has_every_combination_with_other_seeds():
    (part,) = sweep_parts(SMALL, "dqn")
    keys = [key_of(cell) for cell in part.cells]
    assert len(keys) == len(set(keys)) == 2 * (1 + len(SWEPT))
    assert {key[4:] for key in keys} == {(None, None), *SWEPT}
    assert {key[3] for key in keys} == {7, 8}


def test_the_choice_is_the_best_mean_over_games_on_the_scale_of_the_baseline(tmp_path):
    two = ("breakout", "asterix")
    config = replace(SMALL, sweep_games=two)
    # Breakout pays ten times as much: its gain of (0.1, 0.1) is the larger in returns, but not on the scale.
    gains, unit = {"breakout": {(0.1, 0.1): 1.0}, "asterix": {(0.5, 1.0): 5.0}}, {"breakout": 10, "asterix": 1}
    made = []
    for game in two:
        gain = lambda alpha, beta, game=game: gains[game].get((alpha, beta), 0.0)  # noqa: E731
        rows = made_rows("dqn", game, (7, 8), SWEPT, steps=2_000, points=10, gain=gain)
        made.append(rows.assign(score=rows["score"] * unit[game]))
    write_results(tmp_path / "alpha-beta", made)
    found = read(tmp_path / "alpha-beta")
    assert choice(found.rows, config, "dqn", reached(found)) == (0.5, 1.0)
    lacking = {key: step for key, step in reached(found).items() if key[3] != 8}
    assert choice(found.rows, config, "dqn", lacking) is None
    assert choice(found.rows, config, "rainbow", reached(found)) == (0.5, 1.0)
    for less, expected in [({"sweep_games": ("breakout",)}, (0.1, 0.1)), ({"sweep_betas": (0.1,)}, (0.1, 0.1))]:
        assert choice(found.rows, replace(config, **less), "dqn", reached(found)) == expected
    assert choice(found.rows, config, "iqn", reached(found)) is None


def test_agents_share_a_sweep_where_the_paper_has_one_weight_for_them():
    swept = {agent: part.agent for agent in VALUE_AGENTS for part in sweep_parts(SMALL, agent)}
    assert swept == {"dqn": "dqn", "rainbow": "dqn"} | dict.fromkeys(("qr-dqn", "iqn", "m-iqn"), "qr-dqn")
    for agent, other in swept.items():
        assert paper_weights(agent) == paper_weights(other)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"games": ()}, "games must have values"),
        ({"seeds": (1, 1)}, "seeds must have values, all of them different"),
        ({"games": ("pong",)}, "games must be of .*, but has 'pong'"),
        ({"agents": ("sac",)}, "agents must be of .*, but has 'sac'"),
        ({"steps": 1_001}, "steps must be a multiple of 4 × points 10, but is 1001"),
        ({"sweep_steps": 0}, "sweep_steps must be a multiple"),
        ({"points": 0}, "points must be at least 1, but is 0"),
        ({"max_runs": 0}, "max_runs must be at least 1, but is 0"),
        ({"sweep_seeds": (2, 9)}, "sweep_seeds must be none of the seeds, but both have 2"),
        ({"alpha": 0.1}, "alpha and beta are given together"),
        ({"seconds": 0.0}, "seconds must be more than 0"),
    ],
)
def test_bad_settings_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **fields)


@pytest.mark.usefixtures("unchecked")
def test_unknown_phases_are_refused():
    with pytest.raises(ValueError, match="phases must be of alpha-beta, study, but has 'first'"):
        replace(SMALL, phases=("first",))


def test_a_folder_of_another_kind_is_refused(tmp_path):
    """Such as the study alone, which is to lie in the folder."""
    write_study(tmp_path, [(0.01, 0.1)])
    for folder in (tmp_path / "nowhere", tmp_path / "study"):
        with pytest.raises(ValueError, match=rf"results must be a folder with .* in it, but is '{folder}'"):
            known(folder, Config(results=str(folder)))


def test_without_any_results_there_is_nothing_to_show(tmp_path):
    with pytest.raises(ValueError, match="there are no results of these runs yet: --train trains them"):
        minatar.run(replace(SMALL, results=str(tmp_path)))


def test_what_is_missing_is_named(tmp_path, caplog):
    write_study(tmp_path, [(0.01, 0.1)], config=replace(SMALL, games=("breakout",)))
    with caplog.at_level(logging.INFO, "mico.experiments"):
        frame = minatar.run(replace(SMALL, results=str(tmp_path)))
    said = caplog.text
    assert "alpha-beta-dqn-breakout: 10 of 10 runs are missing" in said
    assert "study-dqn-asterix-a0.01b0.1: 6 of 6 runs are missing" in said
    assert "study-dqn-breakout" not in said
    assert "--train trains them" in said
    assert set(frame["env"]) == {"minatar/breakout"}


def test_runs_that_are_not_asked_for_or_not_as_long_are_not_taken_for_those_that_are(tmp_path, caplog):
    write_study(tmp_path, [(0.01, 0.1), (0.2, 0.2)])
    with caplog.at_level(logging.INFO, "mico.experiments"):
        frame = minatar.run(replace(SMALL, results=str(tmp_path), phases=("study",), seeds=(1,)))
        assert not caplog.text
        assert set(frame["seed"]) == {1}
        assert set(frame["metric.alpha"].dropna()) == {0.01}
        minatar.run(replace(SMALL, results=str(tmp_path), phases=("study",), steps=8_000))
        assert "study-dqn-breakout-a0.01b0.1: 6 of 6 runs are missing" in caplog.text


def test_results_of_the_package_and_of_a_folder_count_together(tmp_path):
    config = replace(SMALL, phases=("study",), results=str(tmp_path / "mine"))
    write_study(tmp_path / "packaged", [(0.01, 0.1)], config=replace(config, games=("breakout",)))
    write_study(tmp_path / "mine", [(0.01, 0.1)], config=replace(config, games=("asterix",)))
    assert set(minatar.run(config)["env"]) == {"minatar/breakout", "minatar/asterix"}
    longer = replace(config, steps=2 * SMALL.steps)
    assert set(minatar.run(longer)["env"]) == {"minatar/asterix"}, "the package's runs are too short for this study"


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    """Two agents; one has a sweep that chooses (0.5, 1)."""
    folder = tmp_path_factory.mktemp("results")
    gain = lambda alpha, beta: {0.01: 0.0, 0.5: 5.0}[alpha]  # noqa: E731
    write_sweep(folder)
    write_study(folder, [(0.01, 0.1), (0.5, 1.0)], gain=gain)
    write_study(folder, [(0.5, 0.1)], "iqn", gain=gain)
    return minatar.run(replace(SMALL, agents=("dqn", "iqn"), results=str(folder)))


def test_scores_by_hand(frame):
    found = tables(frame)
    means = found["by-environment"].set_index(["env", "arm"])["value"]
    own = frame[(frame["phase"] == "study") & (frame["env"] == "minatar/asterix") & (frame["agent"] == "dqn")]
    chosen, base = own[own["metric.alpha"] == 0.5], own[own["metric"] == "none"]
    late = [part[part["step"] > 3_600].groupby("seed")["score"].mean() for part in (chosen, base)]
    assert means["minatar/asterix", "dqn + mico (chosen)"] == pytest.approx(late[0].mean())
    assert means["minatar/asterix", "dqn"] == pytest.approx(late[1].mean())
    first = base.loc[base["step"] == 400, "score"].mean()
    scaled = [(one - first) / (late[1].mean() - first) for one in late]
    other = tables(frame[frame["env"] == "minatar/asterix"])["aggregates"].set_index(["arm", "aggregate"])["value"]
    assert other["dqn + mico (chosen)", "iqm"] == pytest.approx(stats.trim_mean(scaled[0], 0.25))
    assert other["dqn", "mean"] == pytest.approx(1)
    wins = found["comparisons"].set_index(["arm", "comparison"])["value"]
    assert wins["dqn + mico (chosen)", "probability of improvement"] == 1
    assert wins["dqn + mico (chosen)", "difference of iqm"] > 0.3


def test_the_table_has_a_line_for_each_arm_with_its_weights(frame):
    found = minatar.table(frame).set_index("arm")
    weights = {"dqn": ("–", "–"), "dqn + mico (paper)": ("0.01", "0.1"), "dqn + mico (chosen)": ("0.5", "1")}
    weights |= {"iqn": ("–", "–"), "iqn + mico (paper)": ("0.5", "0.1")}
    assert {arm: (row["α"], row["β"]) for arm, row in found.iterrows()} == weights
    assert (found["games"] == 2).all()
    assert (found["seeds"] == 3).all()
    assert found.loc["dqn", "P(improvement)"] == "–"
    assert found.loc["dqn + mico (chosen)", "P(improvement)"] == "1.00 [1.00, 1.00]"


def test_the_sweep_alone_is_a_table_and_heat_maps(frame):
    sweep = frame[frame["phase"] == "alpha-beta"]
    found = minatar.table(sweep)
    last = sweep[(sweep["step"] > 1_800) & (sweep["metric.alpha"] == 0.5) & (sweep["metric.beta"] == 1.0)]
    row = found[(found["metric.alpha"] == 0.5) & (found["metric.beta"] == 1.0)].iloc[0]
    assert row["value"] == pytest.approx(last["score"].mean())
    assert row["count"] == 2
    figure = minatar.plot(sweep)
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0.1", "1"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0.1", "0.5"]
    assert ax.images[0].get_array()[1, 1] == pytest.approx(last["score"].mean())
    (framed,) = ax.patches
    assert framed.get_center() == pytest.approx((1, 1)), "0.5 and 1 are best"
    (ax,) = minatar.plot(sweep[sweep["metric"] != "none"]).axes
    assert not ax.patches, "without a baseline nothing is best"
    elsewhere = sweep.assign(env=sweep["env"].mask(sweep["metric"] == "none", "minatar/asterix"))
    (ax,) = minatar.plot(elsewhere).axes
    assert not ax.patches, "nor where it has another game"
    more = elsewhere[elsewhere["metric"] == "none"]
    (ax,) = minatar.plot(pd.concat([sweep, more])).axes
    assert not ax.patches, "nor where it has one game more than the others"


def test_figures_and_their_data(frame):
    found = {one.name: one for one in figures(frame) if isinstance(one, Drawing)}
    arms = ["dqn-mico-paper", "dqn-mico-chosen", "iqn-mico-paper"]
    more = [*(f"improvement-{arm}" for arm in arms), "representations-dqn", "representations-iqn", "alpha-beta"]
    usual = {"curves", "intervals", "profiles", "probability-of-improvement", "aggregates-against-steps"}
    assert set(found) == usual | set(more)
    assert not [one for one in figures(frame) if isinstance(one, Undrawn)]
    data = found["representations-dqn"].data
    own = frame[(frame["phase"] == "study") & (frame["agent"] == "dqn") & (frame["step"] == 4_000)]
    own = own[(own["metric"] == "none") & (own["env"] == "minatar/breakout")]
    for measure in LABELS:
        here = data[(data["measure"] == measure) & (data["step"] == 4_000) & (data["metric"] == "none")]
        here = here[here["env"] == "minatar/breakout"]["value"]
        assert here.item() == pytest.approx(own[measure].mean())
    axes = found["representations-dqn"].figure.axes
    assert [ax.get_ylabel() for ax in axes[::2]] == [*LABELS.values()]
    assert len(found["curves"].figure.axes) == 2 * 2
    assert all(len(ax.lines) == 3 for ax in found["curves"].figure.axes[:2])


def test_what_is_added_to_an_agent_has_one_colour_in_all_figures(frame):
    drawn = {one.name: one.figure for one in figures(frame) if isinstance(one, Drawing)}
    seen = {}

    def see(name, line):
        arm = name.partition(" > ")[0]
        metric = "none" if arm in ("dqn", "iqn") else arm.partition(" + ")[2] or arm
        seen.setdefault(metric, set()).add(to_hex(line.get_color()))

    for name in ("curves", "representations-dqn", "representations-iqn", "aggregates-against-steps", "profiles"):
        for line in [line for ax in drawn[name].axes for line in ax.lines]:
            see(line.get_label(), line)
    for figure in (drawn["intervals"], drawn["probability-of-improvement"], minatar.plot(frame)):
        names = []
        for ax in figure.axes:
            names = [label.get_text() for label in ax.get_yticklabels()] or names  # that of the first, where shared
            for line in [line for line in ax.lines if line.get_marker() == "o"]:
                see(names[int(line.get_ydata()[0])], line)
    assert set(seen) == {"none", "mico (paper)", "mico (chosen)"}
    assert all(len(colours) == 1 for colours in seen.values())
    assert len(set.union(*seen.values())) == 3


def test_what_was_not_measured_is_not_drawn(frame):
    blank = frame.assign(**dict.fromkeys(LABELS, np.nan))
    why = [one.why for one in figures(blank[blank["phase"] == "study"]) if isinstance(one, Undrawn)]
    assert "No figure of the representations of iqn: nothing was measured." in why
    assert "No heat maps over α and β: there are no runs of the sweep." in why


def test_runs_that_ended_no_episode_have_no_curves(frame):
    study = frame[frame["phase"] == "study"].assign(score=np.nan)
    found = list(figures(study))
    why = [one.why for one in found if isinstance(one, Undrawn)]
    assert "No curves: no run has ended an episode." in why
    assert "No figure of scores: no run of the study is whole and has ended an episode." in why
    assert {one.name for one in found if isinstance(one, Drawing)} == {"representations-dqn", "representations-iqn"}


class Trainer:
    """Stands in for training: fleets finish at once, after so many steps, and it is known which they were."""

    def __init__(self, share=1.0):
        self.share, self.trained = share, []

    def __call__(self, fleets, out, manner, watch):
        for fleet in fleets:
            self.trained += [member.cell for member in fleet.members]
            for run, label in zip(fleet.runs(), fleet.labels(), strict=True):
                self.leave(out / fleet.name / label.name, label.settings, fleet.steps, run.schedule.log_period)
            named = {"runs": [label.name for label in fleet.labels()]}
            (out / fleet.name / "fleet.json").write_text(json.dumps(named))
            if self.share == 1:
                write_status(out, fleet.name, Status("finished", fleet.steps))
            watch(fleet, Status("finished", fleet.steps, (1.0,)))

    def leave(self, folder, settings, steps, period):
        folder.mkdir(parents=True, exist_ok=True)
        metric = settings["metric"] and settings["metric"]["name"]
        about = {"run": folder.name, "agent": settings["agent"]["name"], "metric": metric, "settings": settings}
        about |= {"env": settings["env"]["name"], "seed": settings["seed"], "steps": steps, "starts": [ORIGIN]}
        (folder / "config.json").write_text(json.dumps(about))
        high = 1.0 if metric is None else 1.0 + settings["metric"]["alpha"] + settings["metric"]["beta"]
        rows = [{"step": step, "return": step * high} for step in range(period, int(steps * self.share) + 1, period)]
        (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_training_does_the_sweep_then_the_study_with_what_it_chose_and_nothing_twice(tmp_path, monkeypatch, caplog):
    trainer = Trainer()
    monkeypatch.setattr(minatar_training.local, "in_turn", trainer)
    config = replace(SMALL, train=True, runs=str(tmp_path / "runs"), results=str(tmp_path / "results"))
    with caplog.at_level(logging.INFO, "mico.experiments"):
        frame = minatar.run(config)
    assert "missing" not in caplog.text
    assert len(trainer.trained) == 10 + 2 * 3 * 3
    assert {cell.seed for cell in trainer.trained[:10]} == {7, 8}
    study = frame[(frame["phase"] == "study") & (frame["metric"] == "mico")]
    assert set(zip(study["metric.alpha"], study["metric.beta"])) == {(0.01, 0.1), (0.5, 1.0)}
    again = minatar.run(replace(config, runs=str(tmp_path / "elsewhere")))  # all results are there
    assert len(trainer.trained) == 28
    pd.testing.assert_frame_equal(again, frame)
    minatar.run(replace(config, seeds=(0, 1, 2, 3)))
    assert {cell.seed for cell in trainer.trained[28:]} == {3}
    assert len(trainer.trained) == 28 + 2 * 3
    record = json.loads((tmp_path / "results" / "study" / "dqn.json").read_text())["fleets"][0]
    assert record["starts"] == [ORIGIN]
    assert record["settings"]["mico"]["schedule"]["log_period"] == 400


def test_runs_with_other_settings_than_those_that_are_there_are_not_trained(tmp_path, monkeypatch):
    trainer = Trainer()
    monkeypatch.setattr(minatar_training.local, "in_turn", trainer)
    config = replace(SMALL, phases=("study",), train=True, results=str(tmp_path / "results"))
    minatar.run(replace(config, runs=str(tmp_path / "runs")))
    assert len(trainer.trained) == 2 * 2 * 3
    more = replace(config, seeds=(0, 1, 2, 3), precision="bfloat16", runs=str(tmp_path / "other"))
    message = "network.precision of dqn with none in minatar/breakout is 'bfloat16', but 'float32' in what is there"
    with pytest.raises(ValueError, match=message):
        minatar.run(more)
    assert len(trainer.trained) == 2 * 2 * 3
    minatar.run(replace(more, precision="float32", runs=str(tmp_path / "third")))
    assert len(trainer.trained) == 2 * 2 * 4


def test_nothing_is_trained_unasked(tmp_path, monkeypatch):
    trainer = Trainer()
    monkeypatch.setattr(minatar_training.local, "in_turn", trainer)
    write_study(tmp_path, [(0.01, 0.1)])
    minatar.run(replace(SMALL, results=str(tmp_path)))
    assert not trainer.trained


def test_fleets_are_no_larger_than_asked(tmp_path, monkeypatch):
    sizes = []
    monkeypatch.setattr(
        minatar_training.local, "in_turn", lambda fleets, *rest: sizes.extend(len(fleet.members) for fleet in fleets)
    )
    config = replace(SMALL, train=True, runs=str(tmp_path), phases=("study",), games=("breakout",), max_runs=2)
    with pytest.raises(ValueError, match="no results"):
        minatar.run(config)
    assert sizes == [2, 2, 2]


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["plain", "in the background"])
def interrupts(request):
    """What Ctrl-C does; a shell lets what runs in the background ignore it."""
    before = signal.signal(signal.SIGINT, request.param)
    yield request.param
    signal.signal(signal.SIGINT, before)


def test_when_the_time_is_over_what_is_there_is_kept_and_training_goes_on_later(tmp_path, monkeypatch, interrupts):
    half = Trainer(share=0.5)

    def slow(*given):
        half(*given)
        time.sleep(30)

    config = replace(SMALL, train=True, runs=str(tmp_path / "runs"), phases=("study",), games=("breakout",))
    monkeypatch.setattr(minatar_training.local, "in_turn", slow)
    with pytest.raises(KeyboardInterrupt):
        minatar.run(replace(config, seconds=2.0))
    assert signal.getsignal(signal.SIGINT) is interrupts
    kept = tmp_path / "runs" / "results" / "study"
    assert set(reached(read(kept)).values()) == {2_000}
    whole = Trainer()
    monkeypatch.setattr(minatar_training.local, "in_turn", whole)
    frame = minatar.run(config)
    assert whole.trained == half.trained
    assert frame.groupby(["metric", "seed"])["step"].max().eq(4_000).all()
    (part,) = study_parts(config, "dqn", None)
    out = tmp_path / "runs" / part.name
    assert all(finished(fleet, out) for fleet in plan(part.sweep, part.cells, memory=None, max_runs=None))


def uneven(folder):
    """DQN in two games, IQN in one of them."""
    write_study(folder, [(0.01, 0.1)], gain=lambda alpha, beta: 3.0)
    write_study(folder, [(0.5, 0.1)], "iqn", config=replace(SMALL, games=("breakout",)))
    return minatar.run(replace(SMALL, agents=("dqn", "iqn"), phases=("study",), results=str(folder)))


def test_games_that_an_agent_lacks_are_in_no_aggregate_and_it_is_said(tmp_path):
    frame = uneven(tmp_path)
    assert set(tables(frame)["aggregates"]["environments"]) == {1}
    why = [one.why for one in figures(frame) if isinstance(one, Undrawn)]
    assert "minatar/asterix is not in the aggregates: iqn has no scores in it" in why


def test_a_line_of_the_table_is_of_the_games_of_its_agent_alone(tmp_path):
    frame = uneven(tmp_path)
    found = minatar.table(frame).set_index("arm")
    assert found["games"].to_dict() == {"dqn": 2, "dqn + mico (paper)": 2, "iqn": 1, "iqn + mico (paper)": 1}
    of_dqn = minatar.table(frame[frame["agent"] == "dqn"]).set_index("arm")
    pd.testing.assert_frame_equal(found.loc[of_dqn.index, of_dqn.columns], of_dqn)
    iqm = found["IQM"].str.partition(" ")[0].astype(float)
    for agent in ("dqn", "iqn"):
        gain = float(found.loc[f"{agent} + mico (paper)", "difference of IQM"].partition(" ")[0])
        assert gain == pytest.approx(iqm[f"{agent} + mico (paper)"] - iqm[agent], abs=0.011)
    labels = [label.get_text() for label in minatar.plot(frame).axes[0].get_yticklabels()]
    assert labels == ["dqn, 2 games", "dqn + mico (paper), 2 games", "iqn, 1 game", "iqn + mico (paper), 1 game"]


def test_an_arm_that_has_some_games_so_far_takes_none_from_the_others(tmp_path):
    write_study(tmp_path / "packaged", [(0.01, 0.1)])
    write_study(tmp_path, [(0.01, 0.1), (0.5, 1.0)], config=replace(SMALL, games=("breakout",)))
    config = replace(SMALL, alpha=0.5, beta=1.0, phases=("study",), results=str(tmp_path))
    found = minatar.table(minatar.run(config)).set_index("arm")
    assert found["games"].to_dict() == {"dqn": 2, "dqn + mico (chosen)": 1, "dqn + mico (paper)": 2}
    assert "–" not in set(found["P(improvement)"].drop("dqn"))


def test_runs_that_were_stopped_move_no_others(tmp_path, frame):
    study = frame[frame["phase"] == "study"]
    stopped = (study["agent"] == "iqn") & (study["env"] == "minatar/asterix") & (study["metric"] != "none")
    cut = tables(study[~(stopped & (study["step"] > 2_000))])
    whole, without = tables(study), tables(study[~stopped])
    for name in ("by-environment", "differences"):
        pd.testing.assert_frame_equal(cut[name], without[name])
        assert len(cut[name]) < len(whole[name])
    assert "iqn in minatar/asterix: 3 unfinished runs are left out" in cut["left-out"]["why"].tolist()


def test_differences_are_paired_by_seed(frame):
    study = frame[(frame["phase"] == "study") & (frame["env"] == "minatar/breakout") & (frame["agent"] == "iqn")]
    found = tables(frame)["differences"].set_index(["measure", "agent", "metric", "env"])
    assert {*found.index.get_level_values("measure")} == {"final return", "mean return", *LABELS}
    late = study[study["step"] > 3_600]
    for measure, rows, column in [
        ("final return", late, "score"),
        ("mean return", study, "score"),
        ("angle", late, "angle"),
    ]:
        means = rows.pivot_table(column, "seed", "metric")
        low, high = stats.ttest_rel(means["mico"], means["none"]).confidence_interval(0.95)
        expected = [(means["mico"] - means["none"]).mean(), low, high, 3]
        row = found.loc[measure, "iqn", "mico (paper)", "minatar/breakout"]
        assert row[["value", "low", "high", "count"]].tolist() == pytest.approx(expected)
        assert row["p"] == pytest.approx(stats.ttest_rel(means["mico"], means["none"]).pvalue)
        welch = stats.ttest_ind(means["mico"], means["none"], equal_var=False)
        assert row[["unpaired low", "unpaired high"]].tolist() == pytest.approx([*welch.confidence_interval(0.95)])
        assert row["unpaired p"] == pytest.approx(welch.pvalue)
    family = found.query("measure in ('final return', 'mean return') and metric == 'mico (paper)'")
    expected = stats.false_discovery_control(family["p"])
    assert family["p, benjamini-hochberg"].tolist() == pytest.approx(expected.tolist())
    assert found.drop(family.index)["p, holm"].isna().all()


@pytest.mark.parametrize("agent", Config().agents)
def test_what_is_trained_next_fits_what_is_committed(agent, monkeypatch, tmp_path):
    """Settings of runs that are still to be trained are those of the runs they will be added to."""
    monkeypatch.setattr(minatar_results, "PACKAGED", PACKAGED)
    config, results = Config(), known(tmp_path, Config())
    for part in [*sweep_parts(config, agent), *study_parts(config, agent, Weights(0.1, 1.0))]:
        if lacking(part, results).cells:
            (fleet,) = planned(part.sweep, None, Limits(None, config.max_runs))
            for label in fleet.labels():
                condensed.check_alike(results.of[part.phase], label.settings)
    other = replace(config, precision="float32" if agent == "iqn" else "bfloat16")
    if agent != "m-iqn":  # which has none yet
        (fleet,) = planned(study_parts(other, agent, None)[0].sweep, None, Limits(None, config.max_runs))
        with pytest.raises(ValueError, match=r"network.precision of .* in minatar/.* is"):
            condensed.check_alike(results.of["study"], fleet.labels()[0].settings)


@pytest.mark.slow
def test_a_quick_study_learns_with_and_without_mico_and_looks_at_representations():
    """Every run ends above twice its start, the arms of a seed part once they learn, and no measure is missing."""
    frame = minatar.run(minatar.QUICK)
    ends = frame.sort_values("step").groupby(["metric", "seed"])["score"].agg(["first", "last"])
    assert len(ends) == 2 * len(minatar.QUICK.seeds)
    assert (ends["last"] > 2 * ends["first"]).all()
    learnt = frame[frame["step"] > 2_000]  # learning starts after 1,000
    for _, own in learnt.groupby("seed"):
        curves = own.pivot(index="step", columns="metric", values="score")
        assert (curves["mico"] != curves["none"]).mean() > 0.8
    measured = learnt[["norm", "angle", "effective_rank", "dead_units", "agreement", "distance", "q"]]
    assert np.isfinite(measured[learnt["metric"] == "mico"].astype(float)).all(axis=None)
    assert np.isfinite(measured.drop(columns="distance").astype(float)).all(axis=None)


def test_an_epsilon_that_falls_in_less_than_no_steps_is_refused():
    with pytest.raises(ValueError, match="epsilon_decay must be at least 0, but is -1"):
        replace(SMALL, epsilon_decay=-1)


def test_the_decay_of_epsilon_is_the_preset_s_unless_it_is_given():
    for given, expected in ((None, 250_000), (80, 80)):
        part = study_parts(replace(SMALL, epsilon_decay=given), "dqn", None)[0]
        assert {cell.shape.run(dict(cell.fields), 0).schedule.epsilon_decay for cell in part.cells} == {expected}
