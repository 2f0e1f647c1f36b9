"""The native engine: a whole client's training as one compiled task (Numba)."""
