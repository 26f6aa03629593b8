"""What each command-line platform says and understands, as data and pure functions. No I/O here."""
