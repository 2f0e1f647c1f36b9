"""Many small nodes."""
