"""Teachers: whatever gives vectors of English text."""
