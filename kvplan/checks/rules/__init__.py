"""The rules, one file each: the docstring of the function is the rule's documentation."""
