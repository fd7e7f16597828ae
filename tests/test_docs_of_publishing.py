"""docs/publish.md says what `publish` does: every refusal, fact and file is there, and no other."""

import ast
import re

from scripts.point_links import DOCS, REPOSITORY

from vanilla_transformer.card_facts import FACTS
from vanilla_transformer.hub_errors import ADVICE
from vanilla_transformer.hub_upload import files_of
from vanilla_transformer.publishable_folder import make_folder

PAGE = (DOCS / "publish.md").read_text("utf-8")
EXPLANATIONS = PAGE.partition("## What an error means")[2]
MODULES = (
    *("publish", "publishable_folder", "publishable_space", "publishing_checks"),
    *("folder_verification", "hub_upload", "hub_errors", "model_card", "card_facts", "run_facts"),
    *("translators", "saved_folder"),
)
IS_REFUSAL = re.compile(r"\b(must|needs|wants|is for|is no)\b.*\.$")
END_OF_THE_RULE = re.compile(r"[,:]? got|[,:;] |\.$")
OF_OTHER_COMMANDS = {"dtype int8 needs a vanilla-transformer model"}
OF_A_RUN = {"recipe.yaml", "training.png"}


def refusals_in(module):
    """The rule that each refusal begins with; what is filled in is `...`."""
    path = REPOSITORY / "vanilla_transformer" / f"{module}.py"
    nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
    texts = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for text in texts for part in text.values}
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if id(node) not in parts | docstrings and IS_REFUSAL.search(text := text_of(node)):
            yield END_OF_THE_RULE.split(text)[0]


def text_of(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "..." for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def first_cells(section):
    return re.findall(r"^\| (.+?) \| ", section, re.MULTILINE)


def test_every_refusal_is_explained_and_no_other():
    said = {refusal for module in MODULES for refusal in refusals_in(module)} - OF_OTHER_COMMANDS
    explained = {one for cell in first_cells(EXPLANATIONS) for one in re.findall("`(.+?)`", cell)}

    assert explained == said


def test_every_answer_of_the_hub_is_explained():
    codes = {
        int(code) for cell in first_cells(EXPLANATIONS) for code in re.findall(r"\b\d{3}\b", cell)
    }

    assert codes == ADVICE.keys()


def test_every_fact_of_a_card_is_explained():
    section = PAGE.partition("## The card")[2].partition("\n## ")[0]
    named = {name for cell in first_cells(section) for name in re.findall(r"`(\w+)`", cell)}

    assert FACTS.keys() - named == {"license_name", "license_link"}  # beside license
    assert named <= FACTS.keys()


def test_the_files_of_a_dry_run_are_those_that_go(build_tiny, tiny_tokenizer, tmp_path):
    build_tiny(vocab_size=len(tiny_tokenizer)).save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "made").mkdir()
    made = make_folder(
        tmp_path / "model", tmp_path / "made", name="you/numbers", card=None, exclude=()
    )

    there = files_of(made.folder).keys()
    files = {name for name in there if not name.endswith(".py")}  # of which there are many

    listed = set(re.findall(r"^ *[\d,]+  (\S+\.\w+)$", PAGE, re.MULTILINE))
    assert {name for name in listed if not name.endswith(".py")} == files | OF_A_RUN
    assert listed <= there | OF_A_RUN
