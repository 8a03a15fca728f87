"""The scoreboard: every answer of the verdict against posteriors whose means and sds are known.

``problems`` has the posteriors with their truths, ``cases`` fits and checks one of them and writes
down what was said, ``run`` does so for all, ``scores`` counts what was wrong, and ``page`` and
``picture`` show it. Run by ``make truth``.
"""
