"""Words for CTranslate2 and for tokenizers, which want strings: word 17 is "w17"."""

SPECIAL = ["<pad>", "<s>", "</s>"]  # as `Size.config_fields` numbers them


def vocabulary(size: int) -> list[str]:
    """All words in order: "<pad>", "<s>", "</s>", "w3", "w4" ..."""
    return [*SPECIAL, *(f"w{number}" for number in range(len(SPECIAL), size))]


def write_words(numbers: list[int]) -> list[str]:
    """Write numbers as words: [17, 2] -> ["w17", "</s>"]."""
    return [SPECIAL[number] if number < len(SPECIAL) else f"w{number}" for number in numbers]


def read_words(words: list[str]) -> list[int]:
    """Read words as numbers: ["w17", "</s>"] -> [17, 2]."""
    return [SPECIAL.index(word) if word in SPECIAL else int(word[1:]) for word in words]
