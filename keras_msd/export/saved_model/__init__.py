"""SavedModel artefacts."""
