"""Settings of all tests."""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

from chance import salt_streams
from parhelion.sensors import kinds

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10, where pytest installs tomli
    import tomli as tomllib

# Every run uses the same examples, so that a failure depends only on the code; PARHELION_FUZZ=1 searches for new ones.
# Drawing takes long on a busy machine, whatever the code is.
_CALM = [HealthCheck.too_slow]
settings.register_profile("same", derandomize=True, suppress_health_check=_CALM)
settings.register_profile("new", derandomize=False, suppress_health_check=_CALM)
settings.load_profile("new" if os.environ.get("PARHELION_FUZZ") == "1" else "same")

if _SALT := os.environ.get("PARHELION_TEST_SALT", ""):
    salt_streams(_SALT)

_UNIT = Path(__file__).parent / "unit"
_USER_PACKAGE = Path(__file__).parent / "user_package"
_NOBODY = 65534


def pytest_configure(config: pytest.Config) -> None:
    # Small test images have few samples per pixel on purpose.
    config.addinivalue_line("filterwarnings", "ignore::parhelion.sensors.optics.camera.shot.GrainWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark unit tests as quick unless they are marked as slow."""
    for item in items:
        if item.path.is_relative_to(_UNIT) and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.quick)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped, and why: a missing package or file must not go unnoticed."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(
        (report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)).removeprefix("Skipped: ")
        for report in skipped
    )
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} skipped:")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"  {count} x {reason[:160]}")


@pytest.fixture
def users_folder(tmp_path: Path) -> Iterator[Path]:
    """Folder of an unprivileged user, as whom the test runs: root may read and write everything."""
    if os.geteuid() != 0:
        yield tmp_path
        return
    with TemporaryDirectory() as folder:
        try:
            os.chown(folder, _NOBODY, _NOBODY)
            os.seteuid(_NOBODY)
        except OSError as error:
            pytest.skip(f"root may do everything, and cannot become another user here ({error})")
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


@pytest.fixture(scope="module")
def user_package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The package in `tests/user_package`, found by its entry points as if it were installed."""
    project = tomllib.loads((_USER_PACKAGE / "pyproject.toml").read_text())["project"]
    folder = tmp_path_factory.mktemp("site-packages")
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    rows = "".join(f"{name} = {place}\n" for name, place in project["entry-points"]["parhelion.sensors"].items())
    (info / "entry_points.txt").write_text(f"[parhelion.sensors]\n{rows}")
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    kinds._of_other_packages.cache_clear()
    yield
    sys.path.remove(str(folder))
    kinds._of_other_packages.cache_clear()
