"""Plan, program and prove in-network gradient observation for AI clusters."""
