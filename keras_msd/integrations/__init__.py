"""Encoders as the classes that other libraries ask for."""
