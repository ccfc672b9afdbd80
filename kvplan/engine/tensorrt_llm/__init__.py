"""TensorRT-LLM: a share of what a warm-up leaves free, in blocks of 32 tokens. Modelled: public code and logs only."""
