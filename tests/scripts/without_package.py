"""Load Hub folders where the package does not exist: without_package.py TASKS RESULTS

Tasks and results are files of torch: a dictionary by folder, and what happened in each.
"""

import sys
from importlib.util import find_spec

PACKAGE = "vanilla_transformer"


class Hiding:
    """A finder of modules that finds everything but our package, however it is installed."""

    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == PACKAGE:
            return None
        return self.finder.find_spec(name, path, target)


sys.meta_path[:] = map(Hiding, sys.meta_path)
assert find_spec(PACKAGE) is None

import torch  # noqa: E402
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM  # noqa: E402

torch.set_num_threads(1)


def observe(model, inputs):
    with torch.no_grad():
        return {
            "logits": model(**inputs, decoder_input_ids=inputs["input_ids"]).logits,
            "generated": model.generate(**inputs, num_beams=2, max_new_tokens=8),
        }


def train_one_step(model, inputs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()(**inputs, labels=inputs["input_ids"]).loss.backward()
    optimizer.step()
    model.eval()


def visit(folder, inputs):
    """What a user does with a folder: load it, look, train a step, save, and look again."""
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    seen = {"module": type(model).__module__, **observe(model, inputs)}
    train_one_step(model, inputs)
    model.save_pretrained(f"{folder}-trained")
    return seen, observe(model, inputs)


def last_states(folder, inputs):
    model = AutoModel.from_pretrained(folder, trust_remote_code=True)
    with torch.no_grad():
        return model(**inputs, decoder_input_ids=inputs["input_ids"]).last_hidden_state


def attempt(load, folder, *args, **trust):
    """What a function loads, or why it refuses."""
    try:
        return load(folder, *args, **trust)
    except ValueError as refusal:
        return f"refused: {refusal}"


def main(tasks_file, results_file):
    tasks, results = torch.load(tasks_file), {}
    results["untrusted"] = [
        attempt(auto_class.from_pretrained, folder, **trust)
        for folder in tasks["visit"]
        for auto_class in (AutoConfig, AutoModel, AutoModelForSeq2SeqLM)
        for trust in ({}, {"trust_remote_code": False})
    ]
    results["modules before trust"] = [name for name in sys.modules if PACKAGE in name]
    results["visit"], results["trained"] = {}, {}
    for folder, inputs in tasks["visit"].items():
        results["visit"][folder], results["trained"][folder] = visit(folder, inputs)
    results["states"] = {
        folder: attempt(last_states, folder, inputs) for folder, inputs in tasks["visit"].items()
    }
    results["configs"] = {
        folder: AutoConfig.from_pretrained(folder, trust_remote_code=True).to_diff_dict()
        for folder in tasks["configure"]
    }
    torch.save(results, results_file)


if __name__ == "__main__":
    main(*sys.argv[1:])
