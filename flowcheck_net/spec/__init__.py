"""What the user wrote: YAML files, checked, with the place of every fault."""
