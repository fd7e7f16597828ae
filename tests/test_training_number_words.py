"""The numbers task says what num2words says, and no test number is ever learned from."""

import random

import pytest
from num2words import num2words

from training.number_words import in_english, in_german, number_corpus

LARGEST = 999_999
PARTS = ("train", "validation", "test")
LANGUAGES = ("en", "de")
SPECIAL = [1_100, 2_001, 10_000, 21_021, 100_000, 101_001, 700_016, LARGEST]
NUMBERS = [*range(1_002), *SPECIAL, *random.Random(0).sample(range(LARGEST), k=2_000)]


@pytest.mark.parametrize(("language", "write"), [("en", in_english), ("de", in_german)])
def test_numbers_are_written_as_num2words_writes_them(language, write):
    for number in NUMBERS:
        expected = num2words(number, lang=language)
        if language == "en":  # British, with commas
            expected = expected.replace(",", "").replace(" and ", " ")
        else:  # its slip in 101,000 and such: it knows "eintausend", but not behind a hundred
            expected = expected.replace("einstausend", "eintausend")
        assert write(number) == expected


def test_every_number_has_a_name_of_its_own():
    numbers = range(0, LARGEST, 37)

    assert len({in_english(number) for number in numbers}) == len(numbers)
    assert len({in_german(number) for number in numbers}) == len(numbers)


def test_training_validation_and_test_share_nothing():
    sources = [
        {source for source, _ in number_corpus(f"numbers:{part}", LANGUAGES)} for part in PARTS
    ]

    assert [len(one) for one in sources] == [60_000, 1_000, 2_000]
    assert len(set.union(*sources)) == sum(map(len, sources))


def test_a_corpus_is_the_same_at_every_reading():
    corpus = number_corpus("numbers:test", LANGUAGES)

    assert list(corpus) == list(corpus)


def test_numbers_go_either_way():
    there = number_corpus("numbers:test", ("en", "de"))
    back = number_corpus("numbers:test", ("de", "en"))

    assert [(source, target) for target, source in back] == list(there)


@pytest.mark.parametrize(
    ("place", "languages", "message"),
    [
        ("numbers:dev", LANGUAGES, "Built-in places are numbers:train.*got 'numbers:dev'"),
        ("numbers:test", ("en", "fr"), "in en and de, got en and fr for numbers:test: set"),
    ],
)
def test_what_is_not_built_in_is_refused(place, languages, message):
    with pytest.raises(ValueError, match=message):
        number_corpus(place, languages)
