"""The numbers task says what num2words says, and no test number is ever learned from."""

import pytest

from training.number_words import LARGEST, in_english, in_german, number_corpus

PARTS = ("train", "validation", "test")
NUMBERS = [*range(1_002), 1_100, 2_001, 10_000, 21_021, 100_000, 101_001, 700_016, LARGEST]


@pytest.mark.parametrize(("language", "write"), [("en", in_english), ("de", in_german)])
def test_numbers_are_written_as_num2words_writes_them(language, write):
    num2words = pytest.importorskip("num2words").num2words

    for number in NUMBERS:
        expected = num2words(number, lang=language)
        if language == "en":  # British, with commas
            expected = expected.replace(",", "").replace(" and ", " ")
        assert write(number) == expected


def test_every_number_has_a_name_of_its_own():
    numbers = range(0, LARGEST, 37)

    assert len({in_english(number) for number in numbers}) == len(numbers)
    assert len({in_german(number) for number in numbers}) == len(numbers)


def test_training_validation_and_test_share_nothing():
    sources = [{source for source, _ in number_corpus(f"numbers:{part}")} for part in PARTS]

    assert [len(one) for one in sources] == [60_000, 1_000, 2_000]
    assert len(set.union(*sources)) == sum(map(len, sources))


def test_a_corpus_is_the_same_at_every_reading():
    corpus = number_corpus("numbers:test")

    assert list(corpus) == list(corpus)


def test_unknown_parts_are_refused():
    with pytest.raises(ValueError, match="Built-in places are numbers:train"):
        number_corpus("numbers:dev")
