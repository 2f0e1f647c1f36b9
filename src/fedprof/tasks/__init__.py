"""Federated tasks: clients with data, a validation set, a model, and every number of the paper's Table 2."""
