"""Files: written whole or not at all, read within limits, compared by checksums."""
