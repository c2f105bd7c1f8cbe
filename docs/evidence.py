"""Recompute the numbers of the documentation from the committed results, and fail where text and data differ.

    python docs/evidence.py            # says which numbers of docs/results.md and docs/experiments/*.md differ
    python docs/evidence.py --write    # also writes the tables anew, between <!-- evidence: NAME --> and <!-- end -->

Sentences are not written anew: the script names each phrase that the data give and that a page lacks.
"""

# ruff: noqa: T201

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from mico.evidence.baselines import baseline_first_returns
from mico.evidence.improvement import improvements
from mico.evidence.intervals import paired_test, welch_test
from mico.evidence.score_tables import Pair, pairs
from mico.evidence.study import Study
from mico.experiments import control, dopamine, minatar
from mico.experiments.minatar_figures import differences, scored, sweep_scores
from mico.experiments.minatar_plan import best_weights, paper_weights, sweep_gains

DOCS = Path(__file__).parent
AGENTS = {"dqn": "DQN", "rainbow": "Rainbow", "qr-dqn": "QR-DQN", "iqn": "IQN", "m-iqn": "M-IQN"}
GAMES = {
    "asterix": "Asterix",
    "breakout": "Breakout",
    "freeway": "Freeway",
    "seaquest": "Seaquest",
    "space-invaders": "Space Invaders",
}
PAPER_IQM = {"dqn": (148, 157), "rainbow": (185, 229), "qr-dqn": (128, 145), "iqn": (208, 203), "m-iqn": (225, 248)}
MEASURES = {"final return": "score", "mean return": "mean return of the whole curve"}
BOTH = ("benjamini-hochberg", "holm")


def number(value: float, digits: int = 1, *, sign: bool = False) -> str:
    """A number with a true minus; what would be rounded to zero has one more digit."""
    while value and round(abs(value), digits) == 0 and digits < 4:
        digits += 1
    return f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def interval(value: float, low: float, high: float, digits: int = 1, *, sign: bool = False) -> str:
    """A value with the ends of its interval in brackets."""
    return f"{number(value, digits, sign=sign)} [{number(low, digits)}, {number(high, digits)}]"


def bold(text: str, *, when: bool) -> str:
    return f"**{text}**" if when else text


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


@cache
def study_rows() -> pd.DataFrame:
    return minatar.run(minatar.Config(runs=""))


@cache
def study(agent: str | None = None) -> Study:
    """The study on DQN's scale, or of an agent on its own."""
    rows = study_rows()
    found = scored(rows if agent is None else rows[rows["agent"] == agent])
    if found is None:
        raise ValueError("there are no committed results")
    return found


@cache
def gaps() -> pd.DataFrame:
    return differences(study_rows())


def pair_of(looked_at: Study, agent: str) -> Pair:
    return next(one for one in pairs(looked_at) if one.arm == f"{agent} + mico (paper)")


def percent(agent: str) -> pd.Series:
    """The improvement in each game in per cent of what the baseline has above its first return."""
    looked_at, pair = study(), pair_of(study(), agent)
    raw = looked_at.returns[0].pivot(index=["arm", "seed"], columns="env", values="value")
    first = baseline_first_returns(looked_at.frame, pair.base).to_dict()
    return improvements(raw.loc[pair.arm], raw.loc[pair.base], first)[0]


def results_table() -> Iterator[str]:
    yield row(
        "", "IQM without", "with MICo", "difference, paired", "unpaired", "difference, own scale", "P(MICo is better)",
        "mean improvement", "median", "the paper's IQM",
    )  # fmt: skip
    yield "|---" * 10 + "|"
    for agent, name in AGENTS.items():
        looked_at, pair, gain = study(), pair_of(study(), agent), percent(agent)
        own = pair_of(study(agent), agent).differences(study(agent))["iqm"]
        paired = pair.differences(looked_at)["iqm"]
        three = (paired, pair.unpaired_differences(looked_at)["iqm"], own)
        shown = [bold(interval(*one, 2, sign=True), when=one.low > 0 or one.high < 0) for one in three]
        without, with_mico = PAPER_IQM[agent]
        yield row(
            name,
            *(interval(*looked_at.estimate(table, "iqm"), 2) for table in (pair.y, pair.x)),
            *shown,
            interval(*pair.probability(looked_at), 2),
            *(f"{number(one)}%" for one in (gain.mean(), gain.median())),
            f"{number(100 * (with_mico / without - 1), 0, sign=True)}%",
        )


def returns_table() -> Iterator[str]:
    weights = {"dqn": 0.01, "rainbow": 0.01}
    yield row("game", "", *(f"{name} (α = {weights.get(agent, 0.5):g})" for agent, name in AGENTS.items()))
    yield "|---" * 7 + "|"
    looked_at = study()
    found = gaps().query("measure == 'final return' and metric == 'mico (paper)'").set_index(["agent", "env"])
    raw = looked_at.returns[0].set_index(["env", "arm"])
    for game, name in GAMES.items():
        env, cells = f"minatar/{game}", ([], [])
        for agent in AGENTS:
            gap = found.query(
                "measure == 'final return' and metric == 'mico (paper)' and agent == @agent and env == @env"
            )
            value, p = gap["value"].item(), gap["p"].item()
            for side, arm in enumerate((agent, f"{agent} + mico (paper)")):
                text = interval(*looked_at.estimate(raw.loc[[(env, arm)], ["value"]].reset_index(drop=True), "mean"))
                cells[side].append(bold(text, when=p < 0.05 and (value > 0) == (side == 1)))
        yield row(name, "without", *cells[0])
        yield row("", "with MICo", *cells[1])


def differences_table() -> Iterator[str]:
    yield row("game", "", *AGENTS.values())
    yield "|---" * 7 + "|"
    for game, name in GAMES.items():
        for measure, words in MEASURES.items():
            cells = []
            for agent in AGENTS:
                found = gaps().query(
                    "measure == @measure and metric == 'mico (paper)' and agent == @agent and env == @game_env",
                    local_dict={"measure": measure, "agent": agent, "game_env": f"minatar/{game}"},
                )
                (one,) = found.to_dict("records")
                marks = "".join(mark for mark, how in zip("*†", BOTH) if one[f"p, {how}"] <= 0.05)
                text = interval(one["value"], one["low"], one["high"], sign=True)
                cells.append(bold(text, when=one["p"] < 0.05) + marks.replace("*", "\\*"))
            yield row(name if words == "score" else "", words, *cells)


def sweep_table(agent: str) -> Iterator[str]:
    chosen = best_weights(sweep_of(agent))
    found = sweep_scores(study_rows()).query("agent == @agent and metric != 'none'")
    betas = sorted(found["metric.beta"].unique())
    heads = [f"{GAMES[game]}: β = {betas[0]:g}" for game in ("breakout", "space-invaders")]
    yield row("α", *(cell for head in heads for cell in (head, *(f"{beta:g}" for beta in betas[1:]))))
    yield "|---" * (1 + 2 * len(betas)) + "|"
    values = found.set_index(["metric.alpha", "env", "metric.beta"])["value"]
    for alpha in sorted(found["metric.alpha"].unique()):
        cells = [
            bold(number(values[alpha, f"minatar/{game}", beta]), when=(alpha, beta) == chosen)
            for game in ("breakout", "space-invaders")
            for beta in betas
        ]
        yield row(f"{alpha:g}", *cells)


def control_scores(task: str, arm: str, metric: str, *, last: float) -> pd.Series:
    rows = control.run(control.Config())
    return control.scores(rows.query("task == @task and arm == @arm and metric == @metric"), last=last)


def states_table(task: str) -> Iterator[str]:
    yield row("", "seeds", "over all steps", "paired", "unpaired", "last tenth", "paired", "unpaired")
    yield "|---" * 8 + "|"
    base = {last: control_scores(task, "states", "none", last=last) for last in (1.0, 0.1)}
    for metric, name in control.ALGORITHMS.items():
        own = {last: control_scores(task, "states", metric, last=last) for last in base}
        cells = [name, str(len(own[0.1]))]
        for last, scores in own.items():
            cells.append(f"{number(scores.mean(), 0)} ± {number(scores.std(), 0)}")
            if metric == "none":
                cells += ["", ""]
                continue
            x, y = scores.align(base[last], join="inner")
            for found in (
                paired_test(x.to_numpy(), y.to_numpy()),
                welch_test(scores.to_numpy(), base[last].to_numpy()),
            ):
                text = interval(*found[:3], 0, sign=True)
                cells.append(bold(text, when=found.p < 0.05))
        yield row(*cells)


def pixels_table() -> Iterator[str]:
    yield row("", "over all steps", "last tenth", "paper")
    yield "|---" * 4 + "|"
    for metric, name in control.ALGORITHMS.items():
        ends = [control_scores("cartpole-swingup", "pixels", metric, last=last).item() for last in (1.0, 0.1)]
        paper = control.PAPER["cartpole-swingup"].get(metric)
        yield row(name, *(number(one, 0) for one in ends), "" if paper is None else str(paper))


def dopamine_table() -> Iterator[str]:
    yield row("game, agent", "arm", "iteration", "steps of it", "runs", "ours", "Dopamine", "p")
    yield "|---" * 8 + "|"
    found = dopamine.table(dopamine.run(dopamine.Config()))
    for one in found.to_dict("records"):
        game = f"{one['game'].capitalize()}, {AGENTS[dopamine.PUBLISHED[one['game']].agent]}"
        p = "–" if np.isnan(one["p"]) else f"{one['p']:.2f}"
        texts = (str(one[name]).replace("-", "−") for name in ("ours", "Dopamine"))
        yield row(game, one["arm"], str(one["iteration"]), f"{one['steps']:,}", str(one["runs"]), *texts, p)


TABLES = {
    ("results.md", "minatar"): results_table,
    ("experiments/minatar.md", "returns"): returns_table,
    ("experiments/minatar.md", "differences"): differences_table,
    ("experiments/minatar.md", "sweep of DQN"): lambda: sweep_table("dqn"),
    ("experiments/minatar.md", "sweep of QR-DQN"): lambda: sweep_table("qr-dqn"),
    ("experiments/control.md", "cartpole-swingup"): lambda: states_table("cartpole-swingup"),
    ("experiments/control.md", "point_mass-easy"): lambda: states_table("point_mass-easy"),
    ("experiments/control.md", "pixels"): pixels_table,
    ("experiments/dopamine.md", "dopamine"): dopamine_table,
}


def phrases() -> Iterator[tuple[str, str]]:
    """The numbers in sentences, each with the page that must have it."""
    found = gaps().query("measure in ('final return', 'mean return') and metric == 'mico (paper)'")
    counts = {(kind, how): int((found[f"{kind}, {how}"] <= 0.05).sum()) for kind in ("p", "unpaired p") for how in BOTH}
    plain = {kind: int((found[kind] < 0.05).sum()) for kind in ("p", "unpaired p")}
    paired, unpaired = ([plain[kind], *(counts[kind, how] for how in BOTH)] for kind in ("p", "unpaired p"))
    for page in ("results.md", "experiments/minatar.md"):
        yield page, f"Of the {len(found)} paired differences {paired[0]} exclude 0 one by one, {paired[1]} after"
        yield page, f"{paired[1]} after Benjamini and Hochberg's correction and {paired[2]} after Holm's"
        yield page, "unpaired (Welch) it is {}, {} and {}".format(*unpaired)
    for page in ("results.md", "../README.md"):
        asterix = found.query("env == 'minatar/asterix'")
        ends = asterix[(asterix["measure"] == "final return") & (asterix["p, benjamini-hochberg"] <= 0.05)]
        words = {3: "three", 4: "four", 5: "five"}[len(ends)]
        yield page, f"{words} of them end {'higher' if page == 'results.md' else 'clearly higher'}"
    norms = gaps().query("measure == 'norm' and metric == 'mico (paper)'")
    smaller = "In all" if (norms["high"] < 0).all() else f"In {(norms['high'] < 0).sum()} of"
    yield "results.md", f"{smaller} {len(norms)} cells of agent and game the norms of φ are smaller with MICo"
    for agent in ("dqn", "qr-dqn"):
        swept = sweep_scores(sweep_of(agent))
        base = swept[swept["metric"] == "none"].set_index("env")["value"]
        yield (
            "experiments/minatar.md",
            (
                f"without MICo {number(base['minatar/breakout'])} in Breakout and "
                f"{number(base['minatar/space-invaders'])} in Space Invaders"
            ),
        )
    gains = sweep_gains(sweep_of("qr-dqn"))
    papers = gains[paper_weights("qr-dqn")]
    yield "results.md", f"{gains.max():.2f} times what runs without MICo gain, the paper's own {papers:.2f}, five seeds"
    yield from chosen_phrases()


def sweep_of(agent: str) -> pd.DataFrame:
    rows = study_rows()
    return rows[(rows["phase"] == "alpha-beta") & (rows["agent"] == agent)]


def chosen_phrases() -> Iterator[tuple[str, str]]:
    """QR-DQN in Asterix with the weights that the sweep chose."""
    raw = study().returns[0].query("env == 'minatar/asterix'").set_index("seed")
    chosen, paper, base = (
        raw.loc[raw["arm"] == arm, "value"].sort_index().to_numpy()
        for arm in ("qr-dqn + mico (chosen)", "qr-dqn + mico (paper)", "qr-dqn")
    )
    from_paper, from_none = (interval(*paired_test(chosen, other)[:3]) for other in (paper, base))
    ends = [number(one.mean()) for one in (chosen, base, paper)]
    yield "results.md", f"ends at {ends[0]}, as without MICo ({ends[1]}, ten seeds)"
    yield "results.md", f"bring it to {ends[2]} ({from_paper} from these, paired"
    yield "experiments/minatar.md", f"no more than without MICo ({ends[1]}; {from_none} from no MICo"
    yield "experiments/minatar.md", f"({ends[2]}; {from_paper}, p = .003"


def blocks(text: str, name: str) -> re.Match[str] | None:
    return re.search(rf"<!-- evidence: {re.escape(name)} -->\n(.*?)<!-- end -->", text, re.DOTALL)


def check(docs: Path = DOCS, *, write: bool = False) -> list[str]:
    """Say what differs; write the tables anew if asked."""
    wrong = []
    for (page, name), make in TABLES.items():
        file = docs / page
        text = file.read_text(encoding="utf-8")
        block, table = blocks(text, name), "".join(f"{line}\n" for line in make())
        if block is None:
            wrong.append(f"{page} has no table {name!r}")
        elif block[1].strip() != table.strip():
            if write:
                start, end = block.span(1)
                file.write_text(f"{text[:start]}\n{table}\n{text[end:]}", encoding="utf-8")
            else:
                wrong.append(f"{page}: the table {name!r} is not the data's (--write)")
    for page, phrase in phrases():
        if phrase not in (docs / page).read_text(encoding="utf-8"):
            wrong.append(f"{page} must say: {phrase}")
    return wrong


if __name__ == "__main__":
    found = check(write="--write" in sys.argv[1:])
    print("\n".join(found) or "Text and data agree.")
    sys.exit(bool(found))
