"""The paper's experiments again: what to run, compact histories, tests over seeds, the paper's claims, the page."""
