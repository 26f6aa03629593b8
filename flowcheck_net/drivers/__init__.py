"""How a switch is told: leaves behind one protocol."""
