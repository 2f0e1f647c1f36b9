"""The models of the paper's tasks, small and tested, each with its profiling layer named."""
