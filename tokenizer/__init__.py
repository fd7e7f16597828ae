"""Makes tokenizers: a corpus of parallel text in, a bundle that `AutoTokenizer` loads out."""
