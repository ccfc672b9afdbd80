"""SGLang: how it splits memory before the weights are loaded, and sizes its pools after."""
