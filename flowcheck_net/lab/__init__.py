"""A whole fabric on one machine: hosts, real Open vSwitch switches and checkpoint nodes in network namespaces."""
