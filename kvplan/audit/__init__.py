"""Reading what an engine printed at its start, beside what kvplan predicts."""
