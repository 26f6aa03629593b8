"""Files of other tools -> our input files: each reader gives the same frozen records, one merge judges them all."""
