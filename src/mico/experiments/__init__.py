"""Experiments of the paper and more; each module has Config, QUICK, run (which returns a DataFrame), table and plot."""

EXPERIMENTS: dict[str, str] = {
    "counterexamples": "mico.experiments.counterexamples",
    "value-gap": "mico.experiments.value_gap",
    "cost": "mico.experiments.cost",
    "state-features": "mico.experiments.state_features",
    "online-convergence": "mico.experiments.online_convergence",
    "fidelity": "mico.experiments.fidelity",
    "dopamine": "mico.experiments.dopamine",
    "control": "mico.experiments.control",
    "minatar": "mico.experiments.minatar",
}
