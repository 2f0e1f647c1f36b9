"""Engines that train cohorts: `train(cohort) -> updates`."""
