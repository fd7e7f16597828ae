# Everything runs in .venv, which is built from constraints.txt and rebuilt when that file or
# pyproject.toml changes. Other versions: make test CONSTRAINTS=my-constraints.txt VENV=.venv-mine

PYTHON ?= $(shell for python in python3.11 python3; do \
	$$python -c "" 2>/dev/null && echo $$python && break; done)
CONSTRAINTS ?= constraints.txt
VENV ?= .venv
EXTRA ?= dev
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
ARGS ?=
RECIPE ?= numbers

.DEFAULT_GOAL := help
.PHONY: help translate demo demo-pictures test test-slow test-demo test-upstream lint format docs \
	tokenizer train card embed bench bench-decoding bench-embedded bench-tokenization \
	bench-end-to-end bench-layers bench-numbers clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | \
		while IFS="$$(printf '\t')" read -r name what; do printf '  make %-19s %s\n' "$$name" "$$what"; done

# TEXT goes to the model as it is: make and the shell would take quotes and dollars for theirs.
unexport TEXT
translate: export SENTENCE := $(value TEXT)
translate: ## English to German, offline: make translate TEXT="Where is the train station?"
	@test -n "$$SENTENCE" || { \
		echo 'TEXT is needed: make translate TEXT="Where is the train station?"' >&2; exit 1; }
	@$(MAKE) --silent --no-print-directory $(VENV)/.built >&2
	@printf '%s\n' "$$SENTENCE" | TQDM_DISABLE=1 $(BIN)/vanilla-transformer translate $(ARGS)

# gradio wants older versions of two packages than constraints.txt names: it gets a .venv of its own.
DEMO_CONSTRAINTS ?= space/constraints.txt
DEMO_VENV ?= .venv-demo
IN_DEMO = $(MAKE) --no-print-directory VENV=$(DEMO_VENV) CONSTRAINTS=$(DEMO_CONSTRAINTS)
demo: ## the Space on this machine; arguments: make demo ARGS="--model FOLDER"
	@$(IN_DEMO) EXTRA=demo $(DEMO_VENV)/.built
	$(DEMO_VENV)/bin/python space/app.py $(ARGS)

# Both take SPACE_MODEL=FOLDER for another model.
test-demo: $(DEMO_VENV)-tests ## the Space in headless Chromium
	$(DEMO_VENV)-tests/bin/python -m pytest -m slow -rs tests/test_space_in_browser.py $(ARGS)

demo-pictures: export SPACE_PICTURES := docs/figures
demo-pictures: $(DEMO_VENV)-tests ## docs/figures/space-*.jpg, as a desktop and a phone show the Space
	$(DEMO_VENV)-tests/bin/python -m pytest -m slow -rs tests/test_space_in_browser.py -k picture

.PHONY: $(DEMO_VENV)-tests
$(DEMO_VENV)-tests:
	@$(IN_DEMO) EXTRA=dev,demo,browser VENV=$@ $@/.built

test: $(VENV)/.built ## the test suite, on all cores; arguments: make test ARGS="-k attention"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal $(ARGS)

test-slow: $(VENV)/.built ## train small tasks until they are solved
	$(BIN)/python -m pytest -m slow $(ARGS)

test-upstream: $(VENV)/.built ## the transformers release's own tests, ours against the library's
	$(BIN)/python tests/upstream/run.py $(ARGS)

lint: $(VENV)/.built ## ruff, its formatter and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.built ## format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.built ## point the links of docs/*.md at the lines they speak of
	$(BIN)/python tests/scripts/point_links.py

# The shipped tokenizer, byte for byte, from the corpora that lie beside the repository.
EN_DE_CORPORA := ../shared/data/tatoeba/train.jsonl.gz ../shared/data/europarl/train.jsonl.gz
EN_DE_LICENCE := Apache-2.0. Contains English-German sentence pairs from the Tatoeba Project \
	(https://tatoeba.org), licensed CC BY 2.0 FR, by way of www.manythings.org/anki (export of \
	2018-05-13; modified: cleaned, deduplicated and split), and debates of the European Parliament, \
	(c) European Union, source: European Parliament.

tokenizer: $(VENV)/.built ## learn tokenizer/en-de again from ../shared/data
	$(BIN)/python -m tokenizer.train $(EN_DE_CORPORA) --output tokenizer/en-de --force \
		--vocabulary-size 16000 --licence "$(EN_DE_LICENCE)"

train: $(VENV)/.built ## train by a recipe: make train RECIPE=numbers; arguments: ARGS="--resume"
	$(BIN)/python training/train.py --config training/recipes/$(RECIPE).yaml \
		--output runs/$(RECIPE) $(ARGS)

MODEL ?= runs/en-de-small/model
FACTS ?= training/recipes/en-de-small.facts.yaml
card: $(VENV)/.built ## model_card.md, the card of the shipped model, from its run and its facts
	rm -rf build/card
	$(BIN)/vanilla-transformer publish $(MODEL) --card $(FACTS) --dry-run --folder build/card $(ARGS)
	sed 's|(training.png)|(docs/figures/en-de-small.png)|; s|(recipe.yaml)|(training/recipes/en-de-small.yaml)|' \
		build/card/README.md > model_card.md
	cp build/card/training.png docs/figures/en-de-small.png

RUN ?= runs/en-de-small
embed: $(VENV)/.built ## the model that ships, from its run: make embed RUN=runs/en-de-small
	$(BIN)/python training/embed.py $(RUN) $(ARGS)

bench: $(VENV)/.built ## training speed against MarianMT and torch.nn
	$(BIN)/python benchmarks/training.py $(ARGS)

bench-decoding: $(VENV)/.built ## decoding speed against CTranslate2 and MarianMT
	$(BIN)/python benchmarks/decoding.py $(ARGS)

bench-embedded: $(VENV)/.built ## speed of the model that ships, alone and in batches
	$(BIN)/python benchmarks/embedded.py $(ARGS)

bench-tokenization: $(VENV)/.built ## tokenizers: ours against sentencepiece and subword-nmt
	$(BIN)/python benchmarks/tokenization.py $(ARGS)

bench-end-to-end: $(VENV)/.built ## whole training loops against Seq2SeqTrainer and others
	$(BIN)/python benchmarks/train_end_to_end.py $(ARGS)

bench-layers: $(VENV)/.built ## Table 1 of the paper, measured: how layers grow with a sentence
	$(BIN)/python benchmarks/layers.py $(ARGS)

bench-numbers: $(VENV)/.built ## six scores, two position schemes and an LSTM learn the numbers
	$(BIN)/python -m benchmarks.numbers_comparison --train all $(ARGS)

clean: ## remove .venv, the unpacked release and all caches
	rm -rf $(VENV) $(DEMO_VENV) $(DEMO_VENV)-tests .upstream build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# torch goes first and alone: every other package then accepts the build it finds.
$(VENV)/.built: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null || { \
		echo "Python >= 3.11 is needed, and '$(PYTHON)' is not." \
			"Name another one: make test PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Setting up $(VENV), once: a minute or more, 2 GB of disk." >&2
	$(PYTHON) -m venv $(VENV)
	$(PIP) install "$$(sed -n 's/^torch *==/torch==/p' $(CONSTRAINTS) | grep . || echo torch)"
	$(PIP) install --editable '.[$(EXTRA)]' --constraint $(CONSTRAINTS)
	@touch $@
