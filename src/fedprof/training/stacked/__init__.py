"""The stacked engine: a whole cohort (or many runs' cohorts) trained as one model on an accelerator."""
