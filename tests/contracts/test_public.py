"""The public names, what importing them costs, and what a core without the extras can do."""

import inspect
import json
import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import mico
from mico._checks import install_hint
from mico._extras import EXTRAS, explain_missing, require

ROOT = Path(__file__).parents[2]
REGISTER = {f"register_{kind}" for kind in ("agent", "encoder", "env", "metric", "metric_loss", "problem")}
PUBLIC = {"__version__", "evaluate", "load", "make", "report", "solve", "train"} | REGISTER


HIDE = """
import sys
from importlib.machinery import PathFinder

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, *args):
        return None if name.partition(".")[0] in {absent!r} else super().find_spec(name, *args)

sys.meta_path = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
"""


def python(code, *, absent=()):
    """Run code in a process in which some packages are not there."""
    command = [sys.executable, "-c", HIDE.format(absent=set(absent)) + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_list_of_public_names():
    assert {*mico.__all__} == PUBLIC == {*dir(mico)}


@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__"}))
def test_public_functions_explain_themselves(name):
    text = inspect.getdoc(getattr(mico, name))
    assert text is not None
    signature = inspect.signature(getattr(mico, name))
    returns = () if signature.return_annotation is None else ("Returns:",)  # what registers returns nothing
    assert all(part in text for part in ("Args:", *returns, "Raises:", "Examples:", ">>> "))
    assert all(f"{parameter}:" in text for parameter in signature.parameters)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'distanc'"):
        mico.distanc  # noqa: B018


def test_importing_it_loads_nothing_heavy():
    done = python("import sys, mico; dir(mico); print(sorted({name.partition('.')[0] for name in sys.modules}))")
    heavy = {"jax", "numpy", "scipy", "pandas", "matplotlib", "torch", "gymnasium", "rich", "tyro"}
    assert not heavy & {*eval(done.stdout)}


def test_the_exact_side_loads_no_jax():
    code = "import sys, mico; mico.solve('mico', mico.make('two-state')); print('jax' in sys.modules)"
    assert python(code).stdout == "False\n"


CORE = [
    ["list"],
    ["list", "metrics"],
    ["list", "problems"],
    ["metric", "two-state", "--out", "out"],
    ["explore", "two-state", "--out", "page.html"],
    ["experiment", "--help"],
    ["experiment", "value-gap", "--help"],
    ["report", "results.csv", "--out", "report", "--resamples", "50"],
    ["collect", "--help"],
]


@pytest.mark.parametrize("argv", CORE, ids=" ".join)
def test_the_core_does_without_the_extras(argv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{agent},{env},{seed},1,{seed + len(agent)}" for agent in "ab" for env in "xy" for seed in (0, 1, 2)]
    Path("results.csv").write_text("\n".join(["agent,env,seed,step,score", *rows]))
    done = python(f"from mico import cli; cli.main({argv!r})", absent=EXTRAS)
    assert done.returncode == 0, done.stderr
    assert "deep" not in done.stdout or argv[0] in ("list", "experiment")


EXPERIMENTS = [
    ["counterexamples", "--discount", "0.5"],
    ["cost", "--quick", "--solvers", "mico", "mico-lyapunov", "mico-factored", "bisimulation"],
    ["value-gap", "--states", "2", "--actions", "2", "--mdps", "1"],
    ["dopamine", "--quick"],
]


@pytest.mark.parametrize("argv", EXPERIMENTS, ids=lambda argv: argv[0])
def test_experiments_without_agents_do_without_the_extras(argv, tmp_path, monkeypatch):
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(HIDE.format(absent=set(EXTRAS)))  # for worker processes too
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'hidden'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.chdir(tmp_path)
    done = python(f"from mico import cli; cli.main({['experiment', *argv, '--workers', '1', '--out', 'x']!r})")
    assert done.returncode == 0, done.stderr
    files = {f"{argv[0]}{end}" for end in (".csv", "-table.csv", ".png", ".pdf")}
    assert files | {"config.json"} <= {file.name for file in Path("x").iterdir()}


LACKING = [
    (["train", "--env", "mdp/four-rooms", "--steps", "1k", "--out", "x"], "deep"),
    (["evaluate", "x"], "deep"),
    (["watch", "x"], "deep"),
    (["sweep", "--env", "mdp/four-rooms", "--steps", "1k", "--seeds", "0", "--out", "x"], "deep"),
    (["demo", "--out", "x"], "deep"),
    (["experiment", "online-convergence", "--quick", "--out", "x"], "deep"),
    (["experiment", "fidelity", "--quick", "--out", "x"], "deep"),
    (["experiment", "state-features", "--quick", "--out", "x"], "features"),
]


@pytest.mark.parametrize(("argv", "extra"), LACKING, ids=lambda value: value if isinstance(value, str) else value[0])
def test_what_needs_an_extra_says_which_and_leaves_nothing(argv, extra, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = python(f"from mico import cli; cli.main({argv!r})", absent=EXTRAS)
    assert done.returncode == 2
    assert done.stderr.startswith("mico: ")
    assert done.stderr.count("\n") == 1
    assert install_hint(extra) in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["train('mdp/four-rooms', seeds=0, steps=1, out='x')", "load('x')"])
def test_functions_that_need_jax_say_so(call):
    done = python(f"import mico; mico.{call}", absent=EXTRAS)
    assert done.stderr.strip().splitlines()[-1].endswith(install_hint("deep"))


def test_the_plug_in_needs_no_jax():
    absent = [name for name, extra in EXTRAS.items() if extra != "torch"]
    done = python("from mico.torch import MICoLoss; import mico.torch.sb3; print(MICoLoss().alpha)", absent=absent)
    assert done.stdout == "0.01\n", done.stderr


def test_every_optional_dependency_has_an_extra_that_brings_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = metadata.packages_distributions()
    for module, extra in EXTRAS.items():
        packages = {name.lower().replace("_", "-") for name in names.get(module, [module])}
        declared = " ".join(project[extra]).lower().replace("_", "-")
        assert module == "jaxlib" or any(package in declared for package in packages), module


def test_import_errors_are_explained():
    assert explain_missing(ModuleNotFoundError("No module named 'jax'", name="jax.numpy")).endswith(
        install_hint("deep")
    )
    assert explain_missing(ModuleNotFoundError("No module named 'x'", name="x")) == "No module named 'x'"


def test_a_missing_package_is_refused_by_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(ModuleNotFoundError, match="drawing needs the extra 'video'"):
        require("pygame", "drawing")


def test_types_are_published():
    assert (ROOT / "src" / "mico" / "py.typed").exists()


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["", "[deep]", "[torch]"])
def test_clean_environments(extra, tmp_path):
    """Each in a new environment: what it installs, what works, and what it says of the rest."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    pip = [tmp_path / "env" / "bin" / "python", "-m", "pip"]
    subprocess.run([*pip, "install", "-q", "-c", ROOT / "constraints.txt", f"{ROOT}{extra}"], check=True)
    subprocess.run([*pip, "check"], check=True)
    listed = json.loads(subprocess.check_output([*pip, "list", "--format", "json"]))
    names = {package["name"].lower() for package in listed}
    assert ("jax" in names, "torch" in names) == (extra == "[deep]", extra == "[torch]")
    command = tmp_path / "env" / "bin" / "mico"
    exact = subprocess.run([command, "metric", "four-rooms", "--out", "out"], cwd=tmp_path, capture_output=True)
    assert exact.returncode == 0
    flags = ["--env", "mdp/four-rooms", "--metric", "mico", "--steps", "1200", "--out", "runs"]
    trained = subprocess.run([command, "train", *flags], cwd=tmp_path, capture_output=True, text=True)
    assert trained.returncode == (0 if extra == "[deep]" else 2)
    assert extra == "[deep]" or install_hint("deep") in trained.stderr
    if extra == "[torch]":
        code = "from mico.torch.sb3 import MICoDQN; MICoDQN('MlpPolicy', 'CartPole-v1', seed=0).learn(300)"
        subprocess.run([tmp_path / "env" / "bin" / "python", "-c", code], check=True)
