"""A stranger's process: reads a published folder where this package does not exist.

`publish` runs it by its path, isolated, with the task on stdin; it imports nothing of the package,
and nobody else can: whoever looks for it in this process finds none, however it is installed.
"""

import json
import sys
from importlib.machinery import ModuleSpec
from typing import Any

PACKAGE = "vanilla_transformer"


class NoPackage:
    """A finder, asked before all others, that says there is no such package."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Nothing for others to say about the package; all else is for them."""
        if name.partition(".")[0] == PACKAGE:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def read(task: dict[str, Any]) -> None:
    """Load a folder as its users will, and write down what the model in it computes."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

    torch.set_num_threads(task["threads"])
    folder, trust = task["folder"], {"trust_remote_code": True}
    tokenizer = AutoTokenizer.from_pretrained(folder, **trust)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, **trust).eval()
    batch = tokenizer(task["texts"], return_tensors="pt", padding=True)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    targets = inputs["input_ids"].clamp(max=model.config.target_vocab_size - 1)
    with torch.no_grad():
        logits = model(**inputs, decoder_input_ids=targets).logits
    save_file({"logits": logits.contiguous()}, task["logits"])
    translate = pipeline("translation", model=folder, **trust)
    records = translate(task["texts"], **task["decoding"])
    foreign = [name for name in sys.modules if name.partition(".")[0] == PACKAGE]
    assert not foreign, f"the package is here all the same: {foreign}"
    json.dump([record["translation_text"] for record in records], sys.stdout)


if __name__ == "__main__":
    sys.meta_path.insert(0, NoPackage())
    order = json.load(sys.stdin)
    sys.path.extend(place for place in order["path"] if place not in sys.path)
    read(order)
