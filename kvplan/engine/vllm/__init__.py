"""vLLM: how it splits memory, lays out and counts blocks, and refuses."""
