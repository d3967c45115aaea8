"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from parhelion.core.errors import FormatError
from parhelion.io import atomic_write


def test_success_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")
    with atomic_write(target) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".html"
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_failure_keeps_the_old_file(tmp_path: Path, problem: type[BaseException]) -> None:
    target = tmp_path / "a.bin"
    target.write_text("old")

    def fail_halfway() -> None:
        with atomic_write(target) as temporary:
            temporary.write_text("half")
            raise problem

    with pytest.raises(problem):
        fail_halfway()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    sentence = r"a\.bin: cannot be written \(No space left on device\)"
    with pytest.raises(FormatError, match=sentence), atomic_write(target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []


def test_another_files_trouble_keeps_its_own_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="texture"), atomic_write(tmp_path / "a.bin"):
        (tmp_path / "texture.png").read_bytes()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_permission_is_named(users_folder: Path) -> None:
    with atomic_write(users_folder / "a.bin") as place:
        place.write_bytes(b"before")
    users_folder.chmod(0o500)
    try:
        with pytest.raises(FormatError, match="Permission denied"), atomic_write(users_folder / "a.bin"):
            pass
        assert (users_folder / "a.bin").read_bytes() == b"before"
    finally:
        users_folder.chmod(0o700)


def test_places_that_are_no_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is a folder"), atomic_write(tmp_path):
        pass
    with pytest.raises(FormatError, match="does not exist"), atomic_write(tmp_path / "no" / "a.bin"):
        pass
    for name in ("a" * 300, "nul\0"):
        with pytest.raises(FormatError, match="cannot be written"), atomic_write(tmp_path / name):
            pass
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="not a regular file"), atomic_write(tmp_path / "pipe"):
        pass


def test_permissions_are_the_default_or_those_of_the_old_file(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "new") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(mask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    (tmp_path / "new").chmod(0o600)
    with atomic_write(tmp_path / "new") as temporary:
        temporary.write_text("y")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_links_are_written_through(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    with atomic_write(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"
