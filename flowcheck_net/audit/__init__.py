"""Expected against observed: verdicts and the report. Pure."""
