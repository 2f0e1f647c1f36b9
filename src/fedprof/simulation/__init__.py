"""The discrete-event simulation: fleet, costs, the federation, the loop, and the store."""
