"""Folders of runs as training leaves them, written without training."""

import json

ORIGIN = {"step": 0, "versions": {"mico-rl": "0.1.0", "jax": "0.10.0"}, "commit": "0123abc", "device": "cpu: cpu"}


def settings(agent="dqn", metric=None, env="minatar/breakout", seed=0, **fields):
    """The settings of config.json; fields of the metric are given by name."""
    described = None if metric is None else {"name": metric, "alpha": 0.01, "beta": 0.1, **fields}
    return {"agent": {"name": agent, "discount": 0.99}, "metric": described, "env": {"name": env}, "seed": seed}


def write_run(folder, returns, *, steps=None, period=1000, frozen=None, start=ORIGIN, **described):
    """A run in a folder of its own: a row every `period` steps, and if it froze, a last one that says so."""
    about = settings(**described)
    folder.mkdir(parents=True)
    metric = None if about["metric"] is None else about["metric"]["name"]
    short = {"run": folder.name, "agent": about["agent"]["name"], "metric": metric, "env": about["env"]["name"]}
    planned = period * len(returns) if steps is None else steps
    config = short | {"seed": about["seed"], "varied": {}, "settings": about, "steps": planned, "starts": [start]}
    (folder / "config.json").write_text(json.dumps(config))
    rows = [{"step": period * n, "epsilon": 0.5, "return": score} for n, score in enumerate(returns, start=1)]
    if frozen is not None:
        rows.append({"step": period * (len(returns) + 1), "not_finite_at": frozen})
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def write_fleet(folder, seeds, score, *, name="run", **described):
    """A run for each seed, `score(seed)` its returns, and a fleet.json that names them."""
    runs = [write_run(folder / f"{name}-seed{seed}", score(seed), seed=seed, **described) for seed in seeds]
    configs = [json.loads((run / "config.json").read_text()) for run in runs]
    fleet = {"runs": [run.name for run in runs], "steps": configs[0]["steps"]}
    (folder / "fleet.json").write_text(json.dumps(fleet | {"settings": [one["settings"] for one in configs]}))
    return folder
