"""Encoders, students, teachers and the reading of their weights."""
