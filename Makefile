# Each target does all its own set-up: a virtual environment in .venv with the versions of constraints.txt.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
OUTPUT ?= demo-output

.PHONY: demo test notebooks docs packaging lint clean

$(VENV)/.demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[arrow,curvature,dev,docs,experiments,export,notebooks,tensorboard]'
	touch $@

$(VENV)/.notebooks: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[export,notebooks]'
	touch $@

$(VENV)/.docs: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/python experiments/sweep.py --dataset=jaxprune/hopper/medium-v0 --algo=bc --criteria=snip,grasp,random \
	  --sparsities=0,0.9,0.95,0.99 --seeds=0,1,2 --steps=5000 --eval_every=1000 --episodes=10 --output=$(OUTPUT) --overwrite

test: $(VENV)/.test lint
	$(BIN)/python -m pytest -n auto

# Shrunken, to see that they run, and compiled as the tests are; their kept outputs are of the full size (python colab/run.py --save).
notebooks: $(VENV)/.notebooks
	JAXPRUNE_SMOKE=1 XLA_FLAGS="--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false" $(BIN)/python colab/run.py

packaging: $(VENV)/.test
	$(BIN)/python tests/packaging.py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) demo-output site
