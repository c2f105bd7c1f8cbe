"""A trained run in Python, against products of its weights written out."""

import doctest
import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from mico.deep import Trained, load
from mico.deep.config.run import run_names
from mico.deep.envs import environment
from mico.deep.learner.state import init_params
from mico.deep.metric_losses import KSMe, MICo
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.replay.replay import Replay
from mico.deep.trained import trained as module
from mico.deep.trained.evaluate import evaluate
from mico.deep.training.run_folder import Outputs
from mico.deep.training.weights import save_parameters
from mico.deep.types import Spec
from mico.runs.files import writable
from small_runs import small_run

pytestmark = pytest.mark.usefixtures("quick_compilation")

METRIC = MICo(alpha=0.25, beta=0.5)
RUNS = [small_run(metric=METRIC, seed=seed) for seed in (3, 4)]
STATES = np.eye(17, dtype=bool)  # of the frozen lake and its sink, as it shows them


def params_of(run):
    return init_params(run, run.env.spec)


def trained(run):
    return Trained(run, 0, params_of(run))


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """What two runs leave at step 40, with the parameters that they began with."""
    folder = tmp_path_factory.mktemp("out")
    outputs = Outputs(folder, dict(zip(run_names(RUNS), RUNS)), 40, resume=False)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *map(params_of, RUNS))
    save_parameters(outputs.folders, 40, stacked)
    return folder


def represented(params):
    """φ of every state: a row of the table, and the bias."""
    (table,) = params.encoder.layers
    return np.asarray(table.weight.T + table.bias)


def values(params):
    hidden, output = params.head.hidden, params.head.output
    between = np.maximum(represented(params) @ hidden.weight.T + hidden.bias, 0)
    return np.asarray(between @ output.weight.T + output.bias)


def mico_distances(phi, beta):
    """½(‖x‖² + ‖y‖²) + β·θ, pair by pair."""
    found = np.zeros((len(phi), len(phi)))
    for i, x in enumerate(phi.astype(float)):
        for j, y in enumerate(phi.astype(float)):
            cosine = np.clip(x @ y / np.linalg.norm(x) / np.linalg.norm(y), -1, 1)
            found[i, j] = (x @ x + y @ y) / 2 + beta * np.arccos(cosine)
    return found


def test_what_is_loaded_is_what_was_saved(out):
    for run, seed in zip(RUNS, (3, 4)):
        found = load(str(out / f"dqn-mico-seed{seed}"))
        assert found.step == 40
        assert jax.tree.structure(found.params) == jax.tree.structure(params_of(run))
        for leaf, expected in zip(jax.tree.leaves(found.params), jax.tree.leaves(params_of(run)), strict=True):
            np.testing.assert_array_equal(leaf, expected)
        assert (found.settings.seed, found.settings.metric.beta) == (seed, 0.5)
        np.testing.assert_allclose(found.predict(STATES), values(params_of(run)), rtol=1e-5, atol=1e-6)


def test_values_actions_and_representations_of_one_state_and_of_many():
    run = trained(RUNS[0])
    expected = values(run.params)
    np.testing.assert_allclose(run.predict(STATES), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run.predict(STATES[5]), expected[5], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(run.act(STATES), expected.argmax(axis=1))
    assert run.act(STATES[5]) == expected[5].argmax()
    assert type(run.act(STATES[5])) is int
    np.testing.assert_allclose(run.represent(STATES), represented(run.params), rtol=1e-6)
    np.testing.assert_allclose(run.represent(jax.numpy.asarray(STATES[5])), represented(run.params)[5], rtol=1e-6)
    np.testing.assert_allclose(run.predict(STATES[:1]), expected[:1], rtol=1e-5, atol=1e-6)  # of one, and yet a batch
    np.testing.assert_array_equal(run.predict(STATES.astype(float)), run.predict(STATES))


def test_episodes_are_those_of_evaluate():
    run = trained(RUNS[0])
    found = run.evaluate(episodes=6, seed=5, epsilon=0.5, max_steps=60)
    np.testing.assert_array_equal(found, evaluate(run, episodes=6, seed=5, epsilon=0.5, max_steps=60))
    assert found.shape == (6,)
    with pytest.raises(ValueError, match="episodes must be"):
        run.evaluate(episodes=0, seed=5)


def test_the_examples_of_the_docstrings_run(out, tmp_path, monkeypatch):
    shutil.copytree(out / "dqn-mico-seed3", tmp_path / "runs/demo/dqn-mico-seed0")
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(module)
    assert found.attempted > 20
    assert found.failed == 0


def test_distances_of_every_pair():
    run = trained(RUNS[0])
    expected = mico_distances(represented(run.params), 0.5)
    np.testing.assert_allclose(run.distance(STATES, STATES), expected, atol=2e-3)  # rounding turns into angles
    np.testing.assert_allclose(run.distance(STATES[:3], STATES[2:7]), expected[:3, 2:7], atol=2e-3)
    np.testing.assert_allclose(run.distance(STATES[1], STATES), expected[1], atol=2e-3)
    np.testing.assert_allclose(run.distance(STATES, STATES[1]), expected[:, 1], atol=2e-3)
    assert run.distance(STATES[1], STATES[2]) == pytest.approx(expected[1, 2], abs=2e-3)
    assert type(run.distance(STATES[1], STATES[2])) is float


def test_distances_are_those_of_the_runs_metric_loss():
    """KSMe learns products; a run without a metric loss is measured by MICo's distance with its β of 0.1."""
    kernel = trained(replace(RUNS[0], metric=KSMe()))
    phi = represented(kernel.params)
    np.testing.assert_allclose(kernel.distance(STATES, STATES), phi @ phi.T, rtol=1e-4, atol=1e-5)
    plain = trained(replace(RUNS[0], metric=None))
    np.testing.assert_allclose(
        plain.distance(STATES, STATES), mico_distances(represented(plain.params), 0.1), atol=1e-3
    )


def test_sampled_fractions_are_the_same_in_every_call():
    run = trained(small_run("iqn", seed=3))
    np.testing.assert_array_equal(run.predict(STATES), run.predict(STATES))
    np.testing.assert_allclose(run.predict(STATES[4]), run.predict(STATES)[4], rtol=1e-5)
    other = Trained(replace(run.settings, seed=4), 0, run.params)
    assert not np.array_equal(other.predict(STATES), run.predict(STATES))
    for seed in range(20):
        one = Trained(replace(run.settings, seed=seed), 0, run.params)
        np.testing.assert_array_equal(one.act(STATES), one.predict(STATES).argmax(axis=1))


def test_observations_of_other_shapes_are_refused():
    run = trained(RUNS[0])
    for wrong, shape in ((np.zeros(16), "16"), (np.zeros((2, 2, 17)), "2, 2, 17"), (np.array(1.0), "")):
        message = rf"observation must have shape \[17\], or be a batch of such, not \[{shape}\]"
        for ask in (run.predict, run.act, run.represent, lambda wrong: run.distance(STATES, wrong)):
            with pytest.raises(ValueError, match=message):
                ask(wrong)


def test_frames_are_stacked_by_whoever_asks():
    run = trained(replace(RUNS[0], replay=Replay(capacity=200, batch_size=8, stack=2)))
    assert run.represent(np.zeros(34, dtype=bool)).shape == (8,)
    with pytest.raises(ValueError, match=r"shape \[34\]"):
        run.act(STATES[0])


def test_bytes_stay_bytes():
    """The networks divide bytes by 255: numbers that may have been divided already are refused."""
    env = environment("gym/CartPole-v1")
    object.__setattr__(env, "shown", Spec((4,), "uint8", 2))
    run = trained(replace(RUNS[0], env=env, network=NetworkConfig("mlp", width=8, hidden=8)))
    light = np.array([0, 51, 102, 255])
    np.testing.assert_array_equal(run.represent(light), run.represent(light.astype(np.uint8)))
    first = run.params.encoder.layers[0]
    second = run.params.encoder.layers[1]
    by_hand = np.maximum(second.weight @ np.maximum(first.weight @ (light / 255), 0), 0)
    np.testing.assert_allclose(run.represent(light), by_hand, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="observation must hold bytes, as the environment shows them, not float64"):
        run.represent(light / 255)


def test_folders_that_are_no_run(out, tmp_path):
    with pytest.raises(ValueError, match=r"none is not the folder of a run: it has no config\.json$"):
        load(tmp_path / "none")
    with pytest.raises(
        ValueError, match=r"is not the folder of a run: .*; the runs in it are dqn-mico-seed3, dqn-mico-seed4"
    ):
        load(out)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is not the configuration of a run: JSONDecodeError"):
        load(tmp_path)
    for other in ("{}", "[]", '{"settings": []}', '{"settings": {}}', '{"settings": {"agent": "dqn"}}'):
        (tmp_path / "config.json").write_text(other)
        with pytest.raises(ValueError, match=r"config\.json (is not the configuration of a|describes no) run"):
            load(tmp_path)


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("agent", "colour", 3),
        ("agent", "name", "dqm"),
        ("agent", "learning_rate", -1.0),
        ("schedule", "update_period", "four"),
        ("network", "encoder", "minatar"),
    ],
)
def test_settings_of_no_run_are_named_by_their_file(out, tmp_path, part, field, value):
    config = json.loads((out / "dqn-mico-seed3" / "config.json").read_bytes())
    config["settings"][part][field] = value
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"config\.json describes no run that can be made here: "):
        load(tmp_path)


@pytest.fixture
def copy(out, tmp_path):
    """A run of its own to damage, and the file of its parameters."""
    shutil.copytree(out / "dqn-mico-seed3", tmp_path / "it")
    return tmp_path / "it", tmp_path / "it" / "params" / "40.arrays"


def test_parameters_that_are_not_as_written_are_refused(copy):
    folder, file = copy
    whole = file.read_bytes()
    flips = [whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :] for place in range(3, len(whole), 97)]
    for data in (*flips, whole[: len(whole) // 2], whole[:-1], whole[:20], b"", whole + b"\0"):
        file.write_bytes(data)
        with pytest.raises(ValueError, match=r"params/40\.arrays is damaged: "):
            load(folder)
    file.write_bytes(whole)
    assert load(folder).step == 40


def test_parameters_of_other_settings_are_refused(copy):
    folder, _ = copy
    params, more = jax.tree.map(lambda leaf: leaf[None], params_of(RUNS[0])), np.zeros((1, 3))
    for found in (params._replace(head=more), params._replace(head=None), (params, more)):
        save_parameters([folder], 40, found)
        with pytest.raises(ValueError, match=r"40\.arrays holds the parameters of other settings"):
            load(folder)


def test_parameters_of_earlier_versions_are_named(copy):
    folder, file = copy
    file.rename(file.with_name("40.eqx"))
    with pytest.raises(ValueError, match="those of an earlier version of MICo cannot be read"):
        load(folder)


def test_a_run_without_parameters_says_so(out, tmp_path):
    (tmp_path / "config.json").write_bytes((out / "dqn-mico-seed3" / "config.json").read_bytes())
    with pytest.raises(ValueError, match="has no parameters yet: they are saved with the first checkpoint"):
        load(tmp_path)


def test_parameters_that_are_replaced_meanwhile_are_looked_for_again(tmp_path, monkeypatch):
    run, opened = RUNS[0], Path.open
    Outputs(tmp_path, {"it": run}, 40, resume=False)
    later = jax.tree.map(lambda leaf: leaf + 1, params_of(run))

    def save(step, params):
        save_parameters([tmp_path / "it"], step, jax.tree.map(lambda leaf: leaf[None], params))

    def replaced(path, *args, **options):
        if path.name == "8.arrays":
            save(12, later)
        return opened(path, *args, **options)

    save(8, params_of(run))
    (tmp_path / "it" / "params" / f".4.arrays.{'0' * 16}.tmp").write_text("of a process that was killed")
    monkeypatch.setattr(Path, "open", replaced)
    found = load(tmp_path / "it")
    assert found.step == 12
    np.testing.assert_array_equal(found.params.head.output.bias, later.head.output.bias)
    assert [path.name for path in (tmp_path / "it" / "params").iterdir()] == ["12.arrays"]


def test_what_else_is_in_the_folder_of_parameters_stays(copy):
    """Notes, copies and folders of others are no parameters; what killed processes left is removed."""
    folder, file = copy
    mine = ["notes.txt", "1a.arrays", "a1.arrays", "007.arrays", "²5.arrays", ".40.arrays.swp", ".notes.tmp"]
    mine += ["90.arrays/own.txt"]
    for name in mine:
        path = file.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    for name in ("3.arrays", f".5.arrays.{'0' * 16}.tmp"):
        file.with_name(name).write_text("of an earlier save")
    assert load(folder).step == 40
    save_parameters([folder], 48, jax.tree.map(lambda leaf: leaf[None], params_of(RUNS[0])))
    assert load(folder).step == 48
    left = {str(path.relative_to(file.parent)) for path in file.parent.rglob("*") if path.is_file()}
    assert left == {*mine, "48.arrays"}
    assert all((file.parent / name).read_text() == name for name in mine)


def test_links_that_lead_nowhere_are_no_parameters_and_what_links_lead_to_stays(copy, tmp_path):
    folder, file = copy
    file.with_name("999.arrays").symlink_to("/nonexistent")
    file.with_name("998.arrays").symlink_to("998.arrays")
    assert load(folder).step == 40
    file.unlink()
    with pytest.raises(ValueError, match="it has no parameters yet"):
        load(folder)
    (tmp_path / "thesis.tex").write_text("mine")
    file.with_name("997.arrays").symlink_to(tmp_path / "thesis.tex")
    save_parameters([folder], 48, jax.tree.map(lambda leaf: leaf[None], params_of(RUNS[0])))
    assert load(folder).step == 48
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_a_file_that_is_listed_but_never_there_is_passed_over(copy, monkeypatch):
    """Rather than looked for again for ever; the next newest is read, if there is one."""
    folder, file = copy
    file.with_name("50.arrays").write_bytes(file.read_bytes())
    opened, gone = Path.open, {"50.arrays"}

    def vanished(path, *args, **options):
        if path.name in gone:
            raise FileNotFoundError(path)
        return opened(path, *args, **options)

    monkeypatch.setattr(Path, "open", vanished)
    assert load(folder).step == 40
    gone.add("40.arrays")
    with pytest.raises(ValueError, match="it has no parameters yet"):
        load(folder)


@pytest.mark.parametrize(
    ("rows", "step"),
    [
        ('{"step": 20, "loss": 0.5}\n{"step": 40, "not_finite_at": 28}\n', 28),
        ('{"step": 20, "loss": 0.5}\n{"step": 60, "not_finite_at": 48}\n', 40),  # parameters from before that
        ('{"step": 20, "loss": 0.5}\n{"step": 40, "not_fin', 40),
        ('{"step": 20, "loss": 0.5}\n', 40),
        ("[]\n", 40),
        ("", 40),
    ],
)
def test_a_frozen_run_has_the_step_at_which_it_froze(out, tmp_path, rows, step):
    shutil.copytree(out / "dqn-mico-seed3", tmp_path / "run")
    (tmp_path / "run" / "log.jsonl").write_text(rows)
    assert load(tmp_path / "run").step == step


def test_the_package_brings_agents_and_environments_only_when_they_are_asked_for():
    code = (
        "import sys, mico.deep; assert 'gymnax' not in sys.modules and 'mico.deep.trained.trained' not in sys.modules"
    )
    code += "; from mico.deep import load, Trained; assert 'mico.deep.trained.trained' in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_a_map_from_a_file_is_read_again(tmp_path):
    path = tmp_path / "map.txt"
    path.write_text("#####\n#  G#\n#####\n")
    run = small_run(seed=1, env=environment("mdp/map", path=path, slip=0.25, max_steps=7))
    outputs = Outputs(writable(tmp_path / "out"), {"it": run}, 40, resume=False)
    save_parameters(outputs.folders, 4, jax.tree.map(lambda leaf: leaf[None], params_of(run)))
    found = load(tmp_path / "out" / "it").settings.env
    assert found.settings() == run.env.settings()
    assert json.loads((tmp_path / "out" / "it" / "config.json").read_bytes())["settings"]["env"]["path"] == str(path)
    np.testing.assert_array_equal(found.table.next_state, run.env.table.next_state)


@pytest.fixture
def on_a_map(tmp_path, monkeypatch):
    """What makes a run on the map that is given by a relative path, and goes on with it in out."""
    monkeypatch.chdir(tmp_path)
    path = Path("map.txt")
    path.write_text("#####\n#  G#\n#####\n")

    def go_on(path=path):
        env = environment("mdp/map", path=path)
        return Outputs(writable(tmp_path / "out"), {"it": small_run(seed=1, env=env)}, 40, resume=True), env

    go_on()
    return go_on


def test_a_map_is_found_from_other_folders_and_wherever_it_lies_now(on_a_map, tmp_path, monkeypatch):
    (tmp_path / "maps").mkdir()
    monkeypatch.chdir("maps")
    _, env = on_a_map("../map.txt")
    assert env.settings()["path"] == str(tmp_path / "map.txt")
    assert env.settings()["digest"] == hashlib.sha256((tmp_path / "map.txt").read_bytes()).hexdigest()
    (tmp_path / "map.txt").rename("moved.txt")
    on_a_map("moved.txt")
    with pytest.raises(ValueError, match=r"describes no run that can be made here: .*/map\.txt: No such file"):
        load(tmp_path / "out" / "it")


def test_a_map_is_found_where_its_whole_project_went(on_a_map, tmp_path, monkeypatch):
    """By the end of its path below the working folder, if it holds the same."""
    _, env = on_a_map()
    whole = jax.tree.map(lambda leaf: leaf[None], params_of(small_run(seed=1, env=env)))
    save_parameters([tmp_path / "out" / "it"], 4, whole)
    shutil.copytree(tmp_path, new := tmp_path / "new")
    (tmp_path / "map.txt").unlink()
    monkeypatch.chdir(new)
    assert load(new / "out" / "it").settings.env.settings()["path"] == str(new / "map.txt")
    (new / "map.txt").write_text("#####\n# G #\n#####\n")
    with pytest.raises(ValueError, match=r"describes no run that can be made here: .*/map\.txt: No such file"):
        load(new / "out" / "it")


@pytest.mark.parametrize("path", [5, None])
def test_a_path_that_is_none_is_named(path):
    with pytest.raises(ValueError, match=f"path must name a file, but is {path}"):
        environment("mdp/map", path=path)


def test_a_map_that_was_edited_is_refused(on_a_map, tmp_path):
    (tmp_path / "map.txt").write_text("#####\n# G #\n#####\n")
    with pytest.raises(ValueError, match=r"env.path of it is '.*/map\.txt', which does not hold what the run here was"):
        on_a_map()
    with pytest.raises(ValueError, match=r"/map\.txt is not as it was when the run was made"):
        load(tmp_path / "out" / "it")


def test_maps_of_runs_that_kept_no_digest_are_told_by_their_paths(on_a_map, tmp_path):
    fleet = json.loads((tmp_path / "out" / "fleet.json").read_bytes())
    del fleet["settings"][0]["env"]["digest"]
    fleet["settings"][0]["env"]["path"] = "map.txt"
    (tmp_path / "out" / "fleet.json").write_text(json.dumps(fleet))
    on_a_map()
    shutil.copy("map.txt", "other.txt")
    with pytest.raises(
        ValueError, match=r"env.path of it is '.*other\.txt', but the run here was made with '.*map\.txt'"
    ):
        on_a_map("other.txt")
