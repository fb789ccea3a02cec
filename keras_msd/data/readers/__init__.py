"""Readers of parallel files; `discover.READERS` lists the formats."""
