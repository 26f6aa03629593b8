"""What the specs mean: fabric, groups, collectives, packets. Pure."""
