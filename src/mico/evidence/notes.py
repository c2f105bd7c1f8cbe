"""Notes at the top of a report."""

from collections.abc import Sequence

from mico.evidence.speed_tables import speed_note
from mico.evidence.study import Study
from mico.runs.folder import RunFolder


def first_notes(study: Study, records: Sequence[RunFolder]) -> tuple[str, ...]:
    """Sentences for the top of the page: that there are no curves, and why, or what the report leads with."""
    return tuple(note for note in (_single_rows(study, records), speed_note(study)) if note is not None)


def _single_rows(study: Study, records: Sequence[RunFolder]) -> str | None:
    """Why runs have a single return, if most of them do."""
    single = study.rows_of_runs[study.rows_of_runs == 1].index
    if 2 * len(single) <= len(study.rows_of_runs):
        return None
    who = "Every run has" if len(single) == len(study.rows_of_runs) else f"{len(single)} runs have"
    lengths = {_period_and_steps(record) for record in records if record.name in set(single)}
    if len(lengths) == 1 and len(records) >= len(single):
        period, steps = lengths.pop()
        if period is not None and steps is not None and period >= steps:
            longer = "longer than" if period > steps else "as long as"
            return (
                f"{who} one return, so there are no curves: the log period, {period:,} steps, is {longer} the runs' "
                f"{steps:,} steps. `mico train --schedule.log-period` sets it."
            )
    return f"{who} one return, so there are no curves."


def _period_and_steps(record: RunFolder) -> tuple[int | None, int | None]:
    schedule = (record.config.get("settings") or {}).get("schedule") or {}
    period = schedule.get("log_period") if isinstance(schedule, dict) else None
    return (period if isinstance(period, int) else None), record.steps
