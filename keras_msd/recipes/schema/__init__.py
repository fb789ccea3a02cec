"""What a recipe may say."""
