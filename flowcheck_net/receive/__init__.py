"""Packets -> records: the C core, capture files, synthesised traffic."""
