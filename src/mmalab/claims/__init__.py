"""The claims of two articles, run again: their value, ours, the verdict, how we know.

    >>> from mmalab import claims
    >>> [row] = claims.rerun(["A-084"])
    >>> row.verdict.value
    'imprecise'

`statements.json` has the 343 claims in our words, `topics` the code of each, `verdicts.json` what
it found when somebody last looked. A verdict is computed from the comparison of the two values.
"""

from mmalab.claims import report
from mmalab.claims.model import Answer, Check, Evidence, Result, Statement, Verdict
from mmalab.claims.rerunning import counts, rerun
from mmalab.claims.statements import statement, statements

__all__ = [
    "Answer", "Check", "Evidence", "Result", "Statement", "Verdict", "counts", "report", "rerun",
    "statement", "statements",
]
