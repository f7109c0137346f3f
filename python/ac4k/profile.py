"""`ac4k.profile`, the function; its code is in profiling.py."""

from .profiling import Profile, profile

__all__ = ["Profile", "profile"]
