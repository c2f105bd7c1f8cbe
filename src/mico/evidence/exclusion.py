"""What a result leaves out, as a value that tables and pages show as a sentence."""

from typing import NamedTuple

AGGREGATES = "the aggregates"  # of what an environment or an arm may be left out alone


class Exclusion(NamedTuple):
    """Something that is left out of a result: what, why, and of what if it is not left out of all.

    Examples:
        >>> print(Exclusion("dqn: seed 2 of gym/a", "it has come to step 940 of 1,000"))
        dqn: seed 2 of gym/a is left out: it has come to step 940 of 1,000
        >>> print(Exclusion("gym/b", "dqn has no scores in it", where="the aggregates"))
        gym/b is not in the aggregates: dqn has no scores in it
    """

    what: str
    why: str
    where: str = ""

    def __str__(self) -> str:
        place = f"is not in {self.where}" if self.where else "is left out"
        return f"{self.what} {place}: {self.why}"
