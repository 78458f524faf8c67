"""Measures what this machine can do: ``hinterland probe`` and ``hinterland.probe()``."""
