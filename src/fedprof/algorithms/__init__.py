"""Algorithm 1 and the baselines of the paper, one file each."""
