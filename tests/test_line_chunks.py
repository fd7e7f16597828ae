"""Lines end at LF, chunks where the input says, and bad text is named by its place."""

import io
from types import SimpleNamespace

import pytest

from vanilla_transformer import line_chunks
from vanilla_transformer.line_chunks import count_lines, read_chunks, read_lines


def test_stdin_is_a_file_among_files(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"source1")))
    file = tmp_path / "in"
    file.write_bytes(b"a\r\nb")

    assert list(read_lines([file, line_chunks.STDIN, file])) == ["a", "b", "source1", "a", "b"]


def test_chunks_are_bounded_by_lines_and_by_characters(monkeypatch):
    monkeypatch.setattr(line_chunks, "CHUNK_LINES", 4)
    monkeypatch.setattr(line_chunks, "CHUNK_CHARACTERS", 5)
    chunks = list(read_chunks(["", "a", "b", "", "c", "123456", "d"]))

    assert [chunk.lines for chunk in chunks] == [["", "a", "b", ""], ["c", "123456"], ["d"]]
    assert [chunk.start for chunk in chunks] == [0, 4, 6]


def test_bad_utf_8_is_named_by_file_and_byte(tmp_path):
    (tmp_path / "in").write_bytes("é\nabc".encode() + b"\xff\n")

    with pytest.raises(ValueError, match=r"in must be UTF-8, got 0xff at byte 6 "):
        count_lines([tmp_path / "in"])


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    (tmp_path / "in").write_bytes("\ufeffsource1\n\ufeffsource2".encode())

    assert list(read_lines([tmp_path / "in"])) == ["source1", "\ufeffsource2"]
    assert count_lines([tmp_path / "in"] * 2) == 4
