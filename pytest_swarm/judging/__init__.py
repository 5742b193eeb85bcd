"""Judging: from the columns of a run to figures, from figures to verdicts. Pure functions, no I/O."""
