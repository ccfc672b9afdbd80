"""Renderings of a plan: text, JSON, Markdown."""
