"""One file a family of ops; each holds a tuple CASES. See ../case.py."""
