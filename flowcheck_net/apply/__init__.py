"""Read, diff, journal, write, read back; verify; roll back."""
