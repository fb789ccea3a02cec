"""Weights and vectors in fewer bits: schemes, tables, packing, rounding."""
