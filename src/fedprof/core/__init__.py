"""Section III of the paper: representation profiles, their divergence, scores, and sampling by score."""
