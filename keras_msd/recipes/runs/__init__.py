"""A run: its folder, its checks, its order."""
