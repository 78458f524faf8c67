"""Benchmarks: ``python -m benchmarks NAME``. Each is one file here that offers ``run(small: bool) -> dict``."""
