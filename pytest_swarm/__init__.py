"""Load-test what you build on language models, with pytest."""
