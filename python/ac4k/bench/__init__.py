"""`ac4k bench`: times ops against their roofline and their peers, in one run.

A benchmark is a file of `cases/`; see `case.py` for what it declares.
"""
