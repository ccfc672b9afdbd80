"""`kvplan verify`: the planned pool and a real decode over it, on the card itself; predicted beside measured."""
