"""An encoder behind the embeddings API of OpenAI."""
