"""A Flower app: handwritten digits, some nodes with bad data."""
