"""MGG (Wang et al., OSDI 2023): its kernel, written from its text."""
