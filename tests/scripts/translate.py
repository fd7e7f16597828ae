"""Translate with the pipeline of a folder: translate.py ROUTE FOLDER, ROUTE says who brings it.

"plugin": the package is imported. "trusted": there is no package, and the folder is trusted.
"untrusted": there is neither. FOLDER-ROUTE.json tells.
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
        seen = {
            "module": type(translator).__module__,
            "translated": translator(texts, return_scores=True),
        }
        translator.save_pretrained(f"{folder}-{route}")
    Path(f"{folder}-{route}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
