"""From a tidy frame of runs to a claim: arms, scores, statistics, curves, the study of one question."""
