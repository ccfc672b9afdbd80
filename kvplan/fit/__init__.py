"""Answers backwards: which cards hold a load, and the cheapest change that makes a deployment start.

Nothing here knows an engine's rules: every answer is found by asking the engine's own planner.
"""
