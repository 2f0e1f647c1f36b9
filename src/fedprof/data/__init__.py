"""Data: where they come from, how clients share them, and what may be wrong with them."""
