"""The README of a bundle: what it was made of, how, and how well it compresses."""

from string import Template

from transformers import PreTrainedTokenizerFast

from vanilla_transformer.parallel_text import Corpus

from .byte_pairs import UNUSED
from .measures import Measures

TEXT = Template("""\
# A byte-level BPE tokenizer for $languages

$entries entries for source and target together: `<pad>` (0), `<s>` (1, starts a target), `</s>`
(2, ends every sentence), 256 bytes, $merges merges$unused. Every Unicode text comes back from it as
it went in; there is no unknown word.

```python
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")
batch = tokenizer(["A sentence."], text_target=["Its translation."], return_tensors="pt")
```

## What it is made of

| corpus | pairs | left out |
|---|---:|---|
$corpora

Licence: $licence

## How it was made

```bash
$command
```

## How it splits that text

| | words | tokens | tokens per word | bytes per token | single-byte tokens |
|---|---:|---:|---:|---:|---:|
$measures
""")


def describe_bundle(
    tokenizer: PreTrainedTokenizerFast,
    corpora: list[Corpus],
    measures: dict[str, Measures],
    command: str,
    licence: str,
) -> str:
    """Nothing in it depends on the day or the machine: the same corpus gives the same README."""
    unused = sum(token.startswith(UNUSED) for token in tokenizer.get_added_vocab())
    entries = len(tokenizer)
    return TEXT.substitute(
        languages=" and ".join(measures),
        entries=f"{entries:,}",
        merges=f"{entries - unused - 259:,}",
        unused=f", {unused} unused" if unused else "",
        corpora="\n".join(
            f"| {corpus.name} | {corpus.num_pairs:,} | "
            f"{'; '.join(corpus.skipped.describe()) or 'nothing'} |"
            for corpus in corpora
        ),
        licence=licence,
        command=command,
        measures="\n".join(
            f"| {language} | {found.words:,} | {found.tokens:,} | {found.tokens_per_word:.3f} | "
            f"{found.bytes_per_token:.3f} | {found.single_byte_share:.1%} |"
            for language, found in measures.items()
        ),
    )
