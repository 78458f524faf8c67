"""Devices, kernels and errors: what every other part stands on."""
