"""Algorithm -> hops, and which data each hop carries fully reduced."""
