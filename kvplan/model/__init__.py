"""A model as planners see it: its caches layer by layer, its lengths, its quantization."""
