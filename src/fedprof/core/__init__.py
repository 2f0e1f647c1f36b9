"""Section III of the paper and equation 8: profiles, their divergence, scores and sampling. Usable on its own."""
