"""The engines: each by its own rules, from the same flags."""
