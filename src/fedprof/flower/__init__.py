"""FedProf on a Flower federation: the same algorithm objects behind a Flower strategy."""
