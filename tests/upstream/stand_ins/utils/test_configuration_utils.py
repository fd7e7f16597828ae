"""Values unlike their defaults for the fields that every configuration has in common."""

config_common_kwargs = {
    "architectures": ["SomeModel"],
    "chunk_size_feed_forward": 5,
    "dtype": "float16",
    "id2label": {0: "label"},
    "label2id": {"label": 0},
    "output_hidden_states": True,
    "problem_type": "regression",
    "return_dict": False,
}
