"""Translate with the pipeline of a folder: translate.py ROUTE FOLDER, ROUTE says who brings it.

"plugin": the package is imported. "trusted": there is no package, and the folder is trusted.
"untrusted": there is neither. FOLDER-ROUTE.json tells, of the task with and without languages.
"""

import importlib
import json
import sys
from pathlib import Path


def main(route, folder):
    # Either hides the package from every finder, or makes the library know it.
    importlib.import_module("vanilla_transformer" if route == "plugin" else "without_package")
    from transformers import pipeline

    trust = {"trust_remote_code": True} if route == "trusted" else {}
    try:
        translator = pipeline("translation", model=folder, **trust)
    except ValueError as refusal:
        seen = {"refusal": str(refusal)}
    else:
        texts = ["source1 source2", "source3\nsource4 source5"]
        named = pipeline("translation_en_to_de", model=folder, **trust)
        seen = {
            "module": type(translator).__module__,
            "translated": translator(texts, return_scores=True),
            "named": [type(named).__module__, named.task, named(texts, return_scores=True)],
            "configuration": json.loads(named.model.config.to_json_string()),
        }
        translator.save_pretrained(f"{folder}-{route}")
    Path(f"{folder}-{route}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
