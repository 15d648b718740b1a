# Two commands do all set-up, with python3, make and git: `make check-node` judges this host, `make test` runs every test.

.DEFAULT_GOAL := help
# Without bytecode each process compiles all tests and rigs anew.
unexport PYTHONDONTWRITEBYTECODE
MAKEFLAGS += --no-print-directory
py := .venv/bin/python
lint_packages := shellcheck
unit_packages := strace iproute2 util-linux procps systemd prometheus prometheus-alertmanager openssl gcc libc6-dev
bench_packages := gcc libc6-dev
cluster_packages := jq
benches := $(filter-out __init__ limits options whole_rounds,$(basename $(notdir $(wildcard tests/bench/*.py)))) ack
# With SHORT=1 the benches that wait have these numbers, and all benches take half an hour instead of two hours.
short_agent := --flaps 16 --rounds 20000 --minutes 4
short_fleet := --minutes 1
short_port := --flaps 4
short_remediator := --seconds 10
short_unattended := --runs 1
short_taint := --flaps 24 --minutes 3
short_ack := --minutes 3
program_ack := taint.py requests --ack
# In this order, $(lanes) at a time: long steps first. An emulated guest takes up to a processor, so the guests have
# the highest priority. Steps that only compute have the lowest.
steps := test-guests test-cluster test-lab test-provision test-kubernetes test-unit test-netns chaos sabotage lint fuzz histories test-slurm test-bare
lanes := 3
guests := $(addprefix tests/kubernetes/test_,training_pod.py guest.py)
remedies := tests/provision/test_remedies.py
# The drills keep their guest to the end of the run, and three more beside it would starve: so those come first.
drills := $(addprefix tests/kubernetes/test_repair_,new_guests.py drills.py)
kills := tests/cluster/test_repairing_kills.py
rollout := tests/kubernetes/test_wrong_configuration.py
systems := tests/systems
# `make test` tells the first half of this story, so the second half has no test of its own in prove-tests.
training := tests/kubernetes/test_training_pod.py
# Tests that wait longest begin first. An idle process takes tests from the one that has most of them.
waiting := $(wildcard tests/cluster/test_publish_*.py) tests/cluster/test_plugin_updated.py tests/cluster/test_publisher.py
last := nice -n 10
proofs := fuzz histories chaos coverage planted repair training drills kills rollout agreement jobs pythons tests bench
rigs := netns lab provision cluster kubernetes daemonset slurm systems
# What `make quick` always runs: values and built trees. Other rooms start programs, so they run where they are touched.
quick := $(addprefix tests/,agent checks config decide facts history jobs publish) $(wildcard tests/test_*.py)

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: check-node
check-node: ## set up .venv and judge this host with it
	@.ci/venv run
	@.ci/check-node

# Continues after a failure, so that one run shows all failures.
.PHONY: test
test: setup ## lint and all tests; installs what they need
	@rm -rf .venv/steps; mkdir .venv/steps; began=$$(date +%s); \
	export NODEPREP_STEPS=$(CURDIR)/.venv/steps; failed=; \
	$(MAKE) -k -j $(lanes) $(addprefix step-,$(steps)) || failed=yes; \
	.ci/ledger $$began; \
	test -z "$$failed"

.PHONY: $(addprefix step-,$(steps))
$(addprefix step-,$(steps)): step-%:
	@.ci/step $* $(MAKE) $*

# Lint, the tests of values and trees, and what the change touches.
.PHONY: quick
quick: ## lint, values, trees, and the tests that your change touches, in three minutes
	@.ci/venv dev
	@.ci/apt $(lint_packages) $(unit_packages)
	$(MAKE) -k -j 2 lint quick-tests

.PHONY: quick-tests
quick-tests: ## the tests of `make quick`
	@.ci/step quick-tests $(py) -m pytest -q -n 4 --dist worksteal -m "not bare and not prove and not slow" $(quick) \
		$$(.ci/touched rooms)
	@touched=$$(.ci/touched rigs); test -z "$$touched" || $(py) -m pytest -q $$touched

# Each rig names its own packages. One apt call installs them all.
.PHONY: setup
setup: ## install for all tests: Debian packages, and .venv with the development lock
	@.ci/venv dev
	@packages="$(lint_packages) $(unit_packages) $(bench_packages) $(cluster_packages)" && \
	packages="$$packages $$($(py) tests/rigs/lab.py packages)" && \
	packages="$$packages $$($(py) tests/rigs/cluster.py packages) $$($(py) tests/rigs/guest.py packages)" && \
	packages="$$packages $$($(py) tests/rigs/bare_debian.py packages) $$($(py) tests/rigs/systemd_guest.py packages)" && \
	packages="$$packages $$($(py) tests/rigs/slurm.py packages)" && \
	.ci/apt $$packages

.PHONY: lint
lint: ## ruff, mypy --strict, the layers, YAML, playbooks and shell
	@.ci/venv dev
	@.ci/apt $(lint_packages)
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/yamllint --strict .
	.venv/bin/ansible-lint -q playbooks/*.yml
	shellcheck -x .ci/* agent/host/slurm/*

.PHONY: test-unit
test-unit: ## tests of values, trees and doors
	@.ci/venv dev
	@.ci/apt $(unit_packages)
	$(last) $(py) -m pytest -n 3 --dist worksteal $(foreach part,$(rigs),--ignore tests/$(part))

.PHONY: test-netns
test-netns: ## a Terway node, and agents on it, in network namespaces
	@.ci/venv dev
	@.ci/apt $(unit_packages)
	$(py) -m pytest -n 3 --dist worksteal tests/netns

.PHONY: test-slurm
test-slurm: ## the scripts for Slurm under slurmctld and slurmd
	@.ci/venv dev
	@.ci/apt $$($(py) tests/rigs/slurm.py packages)
	$(py) -m pytest tests/slurm

.PHONY: test-cluster
test-cluster: ## real API servers; the first build takes minutes
	@.ci/venv dev
	@packages="$$($(py) tests/rigs/cluster.py packages) $$($(py) tests/rigs/bare_debian.py packages)" && \
	.ci/apt $(bench_packages) $(cluster_packages) $$packages
	$(py) tests/rigs/cluster.py build
	$(py) -m pytest -n 3 --dist worksteal --durations 12 $(waiting) tests/cluster tests/daemonset

.PHONY: test-kubernetes
test-kubernetes: ## the shipped manifests on real kubelets, and whole training systems with them
	@.ci/venv dev
	@packages="$$($(py) tests/rigs/cluster.py packages)" && .ci/apt $$packages
	$(py) tests/rigs/cluster.py build
	$(py) -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 12 tests/kubernetes/test_rollout.py tests/kubernetes $(systems) $(foreach one,$(guests),--ignore $(one))

.PHONY: test-lab
test-lab: ## a QEMU guest with a real RoCE device: each of its faults, found and mended
	@.ci/venv dev
	@packages="$$($(py) tests/rigs/lab.py packages)" && .ci/apt $$packages
	$(py) -m pytest tests/lab

.PHONY: test-provision
test-provision: ## a QEMU guest that systemd starts: a node from zero
	@.ci/venv dev
	@packages="$$($(py) tests/rigs/systemd_guest.py packages)" && .ci/apt $$packages
	$(py) tests/rigs/systemd_guest.py image
	$(py) -m pytest tests/provision

.PHONY: test-guests
test-guests: ## QEMU guests with a real RoCE device that are nodes, and train
	@.ci/venv dev
	@packages="$$($(py) tests/rigs/cluster.py packages) $$($(py) tests/rigs/guest.py packages)" && .ci/apt $$packages
	$(py) tests/rigs/cluster.py build
	$(py) -m pytest $(guests)

.PHONY: test-bare
test-bare: ## the set-up itself, on a bare Debian 12
	@.ci/venv dev
	@packages=$$($(py) tests/rigs/bare_debian.py packages) && .ci/apt $$packages
	$(py) -m pytest -m bare tests/test_setup.py

.PHONY: fuzz
fuzz: ## 3,000 damaged trees, or COUNT=: no traceback, no hang, no false READY
	@.ci/venv dev
	$(last) $(py) tests/fuzz.py --trees $(or $(COUNT),3000)

.PHONY: histories
histories: ## 25,000 random histories of a node, or COUNT=: no gate opens without its passes
	@.ci/venv dev
	$(last) $(py) tests/histories.py --count $(or $(COUNT),25000)

.PHONY: sabotage
sabotage: ## every check that is made blind fails its own test
	@.ci/venv dev
	$(last) $(py) tests/sabotage.py

.PHONY: planted
planted: setup ## plants faults in decide/, publish/, doors/ and what repairs, one at a time; each must make a test fail
	$(py) tests/planted_faults.py

.PHONY: coverage
coverage: ## code coverage of the tests of values, trees, doors and namespaces, with all their child processes
	@.ci/venv dev
	@.ci/apt $(unit_packages)
	@rm -rf .venv/coverage; mkdir .venv/coverage
	$(py) -m coverage run --data-file=.venv/coverage/data -m pytest -n 2 --dist worksteal \
	    $(foreach part,$(filter-out netns,$(rigs)),--ignore tests/$(part))
	$(py) -m coverage combine --quiet --data-file=.venv/coverage/data .venv/coverage
	$(py) -m coverage report --data-file=.venv/coverage/data

.PHONY: chaos
chaos: ## a real agent under faults, kills, full disks and forged files for MINUTES=2; SEED=N does the same again
	@.ci/venv dev
	@.ci/apt $(unit_packages)
	$(py) tests/chaos.py --minutes $(or $(MINUTES),2) $(if $(SEED),--seed $(SEED))

.PHONY: repair-image
repair-image: ## the remediator's image as build/nodeprep-repair.tar; NAME=... names it
	@.ci/venv dev
	$(py) daemonset/image/build.py build/nodeprep-repair.tar --repair $(if $(NAME),--name $(NAME))

.PHONY: image
image: ## the agent's image as build/nodeprep.tar, without a container tool; NAME=... names it
	@.ci/venv dev
	$(py) daemonset/image/build.py build/nodeprep.tar $(if $(NAME),--name $(NAME))

.PHONY: bench
bench: ## figures and their limits: start-up, looks, network, agent, kubelet, taint, port, fleet, nodes, repair, unattended repair, remediator; two hours (SHORT=1: half one)
	@failed=; for bench in $(benches); do $(MAKE) bench-$$bench || failed="$$failed $$bench"; done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

.PHONY: $(addprefix bench-,$(benches))
$(addprefix bench-,$(benches)): bench-%:
	@.ci/venv dev
	@packages="$$($(py) tests/rigs/cluster.py packages) $$($(py) tests/rigs/guest.py packages)" && \
	.ci/apt $(bench_packages) $$packages
	$(py) tests/bench/$(or $(program_$*),$*.py) $(if $(SHORT),$(short_$*))

# More of the cases of `make test`, for hours. Each proof writes its output into proofs/.
.PHONY: prove
prove: setup ## the long proofs: a million histories, an hour of chaos, long tests, benches; their output is kept in proofs/
	@failed=; for proof in $(proofs); do $(MAKE) prove-$$proof || failed="$$failed $$proof"; done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

.PHONY: $(addprefix prove-,$(proofs) $(addprefix bench-,$(benches)))
prove-fuzz prove-histories prove-chaos prove-coverage prove-planted $(addprefix prove-bench-,$(benches)): prove-%:
	@.ci/prove $* $(MAKE) $*
prove-tests:
	@.ci/prove tests $(py) -m pytest -m prove $(foreach one,$(remedies) $(training) $(drills) $(kills) $(rollout) $(systems),--ignore $(one)) tests
.PHONY: prove-pythons
prove-pythons: ## check, snapshot, compare and the agent on each Python from 3.10 on that is found here
	@.ci/venv dev
	@.ci/prove pythons .ci/pythons
.PHONY: prove-rollout
prove-rollout: ## a wrong number in the configuration of ten nodes, for an hour
	@.ci/prove rollout $(py) -m pytest -s -m prove $(rollout)
.PHONY: prove-agreement
prove-agreement: ## 1,000 random clusters, or COUNT=: preflight says of each pod what kube-scheduler and Volcano do; SEED=N repeats them
	@.ci/venv dev
	@packages="$$($(py) tests/rigs/cluster.py packages)" && .ci/apt $$packages
	@.ci/prove agreement $(py) tests/rigs/agreement.py --draws $(or $(COUNT),1000) $(if $(SEED),--seed $(SEED))
	@.ci/prove agreement-volcano $(py) tests/rigs/agreement.py --scheduler volcano --draws $(or $(COUNT),500) $(if $(SEED),--seed $(SEED))
.PHONY: prove-jobs
prove-jobs: ## the four training systems that nodeprep exists for, seen working with it; docs/jobs.md
	@.ci/venv dev
	@packages="$$($(py) tests/rigs/cluster.py packages) $$($(py) tests/rigs/guest.py packages)" && \
	.ci/apt $(unit_packages) $$packages
	$(py) tests/rigs/cluster.py build
	@rm -f .venv/jobs.tsv
	@NODEPREP_CI=1 NODEPREP_JOBS_TABLE=$(CURDIR)/.venv/jobs.tsv .ci/prove jobs $(py) -m pytest -m "prove or not prove" $(systems)
	@sort -s -k 1,1 -o .venv/jobs.tsv .venv/jobs.tsv && mv .venv/jobs.tsv proofs/jobs.tsv
	@$(MAKE) docs
.PHONY: prove-training
prove-training: ## a training pod on a node with a real RoCE port, to its end: a reboot, a bad release, why a pod ended
	@.ci/venv dev
	@packages="$$($(py) tests/rigs/cluster.py packages) $$($(py) tests/rigs/guest.py packages)" && .ci/apt $$packages
	$(py) tests/rigs/cluster.py build
	@.ci/prove training $(py) -m pytest -s -m "prove or not prove" $(training)
prove-kills:
	@.ci/prove kills $(py) -m pytest -s -m prove $(kills)
.PHONY: prove-repair
prove-repair: ## each remedy on a real kernel and systemd, in a guest: mended, nothing twice, after a reboot; docs/repair.md
	@.ci/venv dev
	@packages="$$($(py) tests/rigs/systemd_guest.py packages)" && .ci/apt $$packages
	@NODEPREP_REPAIR_TABLE=$(CURDIR)/proofs/repair.tsv .ci/prove repair $(py) -m pytest -m prove $(remedies)
	@$(MAKE) docs
.PHONY: prove-drills
prove-drills: ## the drill table of the README: faults of a node with its own kernel, mended unattended
	@.ci/venv dev
	@packages="$$($(py) tests/rigs/cluster.py packages) $$($(py) tests/rigs/guest.py packages)" && .ci/apt $$packages
	$(py) tests/rigs/cluster.py build
	@NODEPREP_DRILL_TABLE=$(CURDIR)/proofs/drills.tsv .ci/prove drills $(py) -m pytest -s -m prove $(drills)
	@$(MAKE) docs
prove-fuzz: COUNT := 30000
prove-histories: COUNT := 1000000
prove-chaos: MINUTES := 60
prove-bench:
	@failed=; for bench in $(benches); do $(MAKE) prove-bench-$$bench || failed="$$failed $$bench"; done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }
prove-bench prove-bench-%: SHORT := 1
.PHONY: prove-dashboards
prove-dashboards: prove-bench-boards ## the boards' queries on a thousand nodes; its output is kept in proofs/bench-boards.txt
export COUNT MINUTES SHORT

.PHONY: docs
docs: ## write the generated files: docs/checks.md and the picture in the README, among others
	@.ci/venv dev
	$(py) docs/generate.py
	$(py) -m docs.picture

.PHONY: dashboards
dashboards: ## write the boards, the PrometheusRule and the plain files for Prometheus; RUNBOOKS=URL names your copy of docs/
	@.ci/venv dev
	$(py) dashboards/generate.py $(if $(RUNBOOKS),--runbooks $(RUNBOOKS))
	$(py) -m dashboards.prometheus_rule $(if $(RUNBOOKS),--runbooks $(RUNBOOKS))

.PHONY: pictures
pictures: ## draw the boards in Chromium: docs/dashboards/*.png; needs Node 20 with npm, and 500 MB for Grafana's components
	@.ci/venv dev
	@.ci/apt prometheus chromium fonts-dejavu-core
	$(py) tests/dashboards/pictures.py

.PHONY: lock
lock: ## rewrite requirements*.lock from pyproject.toml; UPGRADE=1 takes the newest versions that fit
	@.ci/lock $(if $(UPGRADE),--upgrade)

.PHONY: clean
clean: ## remove .venv and caches
	@rm -rf .venv .venv.lock .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist
	@find agent tests -name __pycache__ -type d -prune -exec rm -rf {} +
