# One-word commands for people and for CI. Each sets up what it needs; nothing has to be installed by hand
# but Python 3.10 or later.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# File of versions for pip (`.ci/constraints.txt` in CI); by default pip installs the newest ones that are allowed.
CONSTRAINTS ?=
PIP_INSTALL := pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))

.PHONY: demo check test test-deps test-wheel test-devkits test-oracles test-salts fuzz soak mutants bench bench-quick lint lock docs clean

demo: $(VENV)/.installed engine
	$(BIN)/parhelion demo

# For daily work: formatter, linter and quick tests, in less than 90 seconds.
check: $(VENV)/.installed-dev engine
	$(BIN)/ruff format --check src tests bench docs
	$(BIN)/ruff check src tests bench docs
	$(BIN)/python -m pytest -m quick tests/unit

# Each folder in processes of its own: what the live tests leave running is nobody else's. Two files at a time run side by
# side; what listens at ports runs alone.
SIDE_BY_SIDE := unit contracts physics statistics cli
ALONE        := fuzz live
test: $(VENV)/.installed-dev engine
	for folder in $(SIDE_BY_SIDE); do $(BIN)/python -m pytest -n 2 --dist loadfile tests/$$folder || exit 1; done
	for folder in $(ALONE); do $(BIN)/python -m pytest tests/$$folder || exit 1; done

# Statistical tests under other random keys: a test that holds for one key alone says nothing. SALTS="a b c" names them.
SALTS ?= 1 2 3
DRAWS := tests/statistics tests/physics/test_lidar_weather.py tests/physics/test_lidar_heterogeneous_weather.py \
	tests/physics/test_lidar_dust.py tests/physics/test_weather_on_recordings.py tests/physics/test_weather_dust.py \
	$(addprefix tests/physics/test_,camera_depth.py camera_light.py echo_listening.py echo_physics.py echo_ranger.py \
	gnss_fixes.py gnss_reception.py imu.py odometry_barometer_magnetometer.py radar_adc.py radar_baseband.py \
	radar_physics.py radar_targets.py)
test-salts: $(VENV)/.installed-dev engine
	for salt in $(SALTS); do \
		PARHELION_TEST_SALT=$$salt $(BIN)/python -m pytest -n 2 --dist loadfile $(DRAWS) || exit 1; \
	done

# All unit tests with the newest and with the oldest allowed versions of every dependency, extras that they use included.
# Tests that need another package (SDKs of makers, oracles, the documentation) are skipped; the summary lists them.
DEPS_EXTRAS := ros,view,serve,camera,campaign,cluster,search,realism,dataframe,gym,usd,cad,markers,collada,evaluate
test-deps: $(VENV)-newest/.installed $(VENV)-oldest/.installed
	for versions in newest oldest; do \
		sh tools/ensure-engine.sh $(VENV)-$$versions/bin/python || exit 1; \
		$(VENV)-$$versions/bin/python -m pytest -n 2 --dist loadfile tests/unit tests/fuzz/test_fuzz_readers.py || exit 1; \
	done

# The wheel in an environment without development tools: commands of the tutorials, in a copy of the shipped examples.
test-wheel: $(VENV)-wheel/.installed
	sh tools/ensure-engine.sh $(VENV)-wheel/bin/python
	PATH="$(abspath $(VENV)-wheel/bin):$$PATH" parhelion doctor
	PATH="$(abspath $(VENV)-wheel/bin):$$PATH" $(VENV)-wheel/bin/python -I tools/tutorials.py --jobs 2

# nuScenes' own development kit wants NumPy below 2, so it gets its own environment, too.
test-devkits: $(VENV)-devkits/.installed engine-devkits
	$(VENV)-devkits/bin/python -m pytest tests/devkits

# Tests that compare with the packages of the extra `oracles` (6 GB, most of it PyTorch). A missing package fails.
ORACLES = $(shell grep -rl mark.oracle tests --include='test_*.py')
test-oracles: $(VENV)-oracles/.installed engine-oracles
	PARHELION_ORACLES=1 sh tools/with-newer-llvm.sh $(VENV)-oracles/bin/python $(VENV)-oracles/llvm \
		$(VENV)-oracles/bin/python -m pytest -m oracle -n 2 --dist loadfile $(ORACLES)

# Damaged files through every reader: FUZZ_SECONDS is how long, FUZZ_SEED another round of damages.
FUZZ_SECONDS ?= 3600
FUZZ_SEED    ?= 1
fuzz: $(VENV)/.installed-dev engine
	$(BIN)/python tests/fuzz/run.py --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

# Random interrupts of commands and measurements, then many measurements with edits, a long scenario, and a stream with the
# viewer. SOAK_COUNT is the number of interrupts, SOAK_MEASUREMENTS that of measurements, SOAK_S the duration of the
# scenario, SOAK_LIVE_MIN that of the stream [min], SOAK_VERBS the number of verbs of clients.
SOAK_COUNT        ?= 500
SOAK_SEED         ?= 1
SOAK_MEASUREMENTS ?= 5000
SOAK_S            ?= 3600
SOAK_LIVE_MIN     ?= 10
SOAK_VERBS        ?= 1000
soak: $(VENV)/.installed-dev engine
	$(BIN)/python tests/soak/interrupts.py --count $(SOAK_COUNT) --seed $(SOAK_SEED)
	$(BIN)/python tests/soak/load.py --measurements $(SOAK_MEASUREMENTS) --scenario-s $(SOAK_S) --slow --crowd-s $(SOAK_S) --seed $(SOAK_SEED)
	$(BIN)/python tests/soak/live.py --minutes $(SOAK_LIVE_MIN)
	$(BIN)/python tests/soak/verbs.py --verbs $(SOAK_VERBS) --seed $(SOAK_SEED)

# Changes of the source, one at a time, that the tests of that place must notice: MUTANTS is how many, MUTANTS_SEED which.
MUTANTS      ?= 100
MUTANTS_SEED ?= 1
MUTANTS_JOBS ?= 1
mutants: $(VENV)/.installed-dev engine
	$(BIN)/python tests/mutants/run.py --count $(MUTANTS) --seed $(MUTANTS_SEED) --jobs $(MUTANTS_JOBS)

# The engines that ours is compared with pin other packages than the test extras do, so they get their own environment.
bench: $(VENV)-bench/.installed engine-bench
	$(VENV)-bench/bin/python bench/run.py

# Every table in its short form, without the other engines: shows that the benchmarks run.
bench-quick: $(VENV)/.installed-dev engine
	$(BIN)/python bench/run.py --quick

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check src tests bench docs
	$(BIN)/ruff check src tests bench docs
	$(BIN)/mypy
	$(BIN)/codespell src tests bench docs examples tools *.md
	$(BIN)/python tools/wording.py

# Versions for CI: the newest allowed ones, in a fresh environment. Run the tests with CONSTRAINTS=.ci/constraints.txt
# before you commit the file. The environments for devkits and oracles have other versions and are not locked.
lock:
	rm -rf $(VENV)-lock
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet --disable-pip-version-check --upgrade -e '.[dev]'
	$(VENV)-lock/bin/python tools/lock.py dev >.ci/constraints.txt
	rm -rf $(VENV)-lock

docs: $(VENV)/.installed-docs
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) $(VENV)-bench $(VENV)-devkits $(VENV)-oracles $(VENV)-newest $(VENV)-oldest $(VENV)-wheel site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

# System libraries that no Python package carries: LLVM compiles the CPU kernels.
.PHONY: engine engine-bench engine-devkits engine-oracles
engine:
	@sh tools/ensure-engine.sh $(BIN)/python
engine-bench:
	@sh tools/ensure-engine.sh $(VENV)-bench/bin/python
engine-devkits:
	@sh tools/ensure-engine.sh $(VENV)-devkits/bin/python
engine-oracles:
	@sh tools/ensure-engine.sh $(VENV)-oracles/bin/python

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(BIN)/$(PIP_INSTALL) -e .
	touch $@

$(VENV)/.installed-dev: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(BIN)/$(PIP_INSTALL) -e '.[dev]'
	touch $@ $(VENV)/.installed $(VENV)/.installed-docs

$(VENV)-bench/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@

$(VENV)-devkits/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-devkits
	$(VENV)-devkits/bin/pip install --quiet --disable-pip-version-check -e '.[devkits]'
	$(VENV)-devkits/bin/pip install --quiet --disable-pip-version-check --no-deps 'nuscenes-devkit>=1.1.11'
	touch $@

# pip cannot choose the oldest versions, so uv installs both environments.
$(VENV)-newest/.installed: RESOLUTION := highest
$(VENV)-oldest/.installed: RESOLUTION := lowest-direct
$(VENV)-newest/.installed $(VENV)-oldest/.installed: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check uv
	$(@D)/bin/uv pip install --quiet --python $(@D)/bin/python --resolution $(RESOLUTION) -e '.[$(DEPS_EXTRAS)]'
	$(@D)/bin/uv pip freeze --quiet --python $(@D)/bin/python --exclude-editable >$(@D)/versions.txt
	$(@D)/bin/uv pip install --quiet --python $(@D)/bin/python --constraint $(@D)/versions.txt \
		pytest pytest-xdist hypothesis jsonschema plyfile velodyne-decoder
	touch $@

$(VENV)-wheel/.installed: pyproject.toml $(shell find src examples -type f -not -name '*.pyc')
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check uv
	$(@D)/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(@D)/dist .
	$(@D)/bin/uv pip install --quiet --python $(@D)/bin/python $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS)) \
		"$$(echo $(@D)/dist/parhelion-*.whl)[ros,campaign,cluster,gym]" kiss-icp
	touch $@

$(VENV)-oracles/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-oracles
	$(VENV)-oracles/bin/pip install --quiet --disable-pip-version-check -e '.[oracles]'
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/$(PIP_INSTALL) -e '.[docs]'
	touch $@
