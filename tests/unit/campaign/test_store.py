"""Pieces and tables of a campaign: written atomically, and readable after a kill."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from campaign_rigs import study_in
from parhelion.campaign import store as store_module
from parhelion.campaign.store import LocalStore, Pieces, results_of, store_at, table_bytes
from parhelion.campaign.summary import summary_of
from parhelion.core.errors import FormatError, MissingDependencyError


def result(row: int, value: float | None = 0.5) -> dict[str, Any]:
    numbers = {"detection_share": value}
    fixed = {"scenario_sha256": "ab", "version": "1", "device": "cpu", "weather_validity": "{}"}
    return {"row": row, "status": "done", "error": None, "numbers": numbers, **fixed}


def test_pieces_survive_and_damaged_lines_are_dropped(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with store.only_writer():
        pieces = Pieces(store)
        pieces.add(result(3))
        pieces.flush()
        pieces.add(result(1))
        pieces.flush()
        (tmp_path / "pieces" / "000009.jsonl").write_text('{"row": 5, "stat\n[1]\n{"no": 1}\n')
        (tmp_path / "pieces" / ".parhelion-0123456789ab-000010.jsonl").write_text("half")
        again = Pieces(store)
        assert again.load() == {3: result(3), 1: result(1)}
        again.add(result(7))
        again.flush()
        assert sorted(Pieces(store).load()) == [1, 3, 7]
        again.remove()
        assert Pieces(store).files == []


def test_rows_are_written_in_small_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_PIECE_ROWS", 4)
    store = LocalStore(tmp_path)
    with store.only_writer():
        pieces = Pieces(store)
        for row in range(10):
            pieces.add(result(row))
        assert len(Pieces(store).load()) == 8
        pieces.flush()
        assert len(Pieces(store).load()) == 10


def test_a_full_disk_is_reported_and_keeps_earlier_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    with store.only_writer():
        store.write("results.parquet", b"earlier")

        def full(*_: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(Path, "write_bytes", full)
        with pytest.raises(FormatError, match=r"results.parquet: cannot be written \(No space left on device\)"):
            store.write("results.parquet", b"later")
    assert (tmp_path / "results.parquet").read_bytes() == b"earlier"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["results.parquet"]


def test_addresses_of_unknown_kinds_are_reported() -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    with pytest.raises(MissingDependencyError, match="nowhere://x/y: Protocol not known"):
        store_at("nowhere://x/y")


def test_a_store_in_memory_works_like_a_folder() -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    store = store_at("memory://campaign-test/out")
    assert store.read("a") is None
    assert store.names("pieces") == []
    store.write("pieces/a", b"1")
    store.write("pieces/b", b"2")
    assert store.names("pieces") == ["pieces/a", "pieces/b"]
    assert store.read("pieces/b") == b"2"
    store.remove(["pieces/a", "pieces/b"])
    assert store.names("pieces") == []


def test_the_table_has_types_and_comes_back_the_same(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    vary = {
        "weather.rain_rate_mm_h": [0, 2.5],
        "sensors.top.options.sub_rays": [1, 5],
        "sensors.top.mount.xyz": [[0, 0, 1], [0, 0, 2]],
        "sensors.top.options.returns": ["strongest", "last"],
        "sensors.top.options.noise": [True, False],
    }
    study = study_in(tmp_path, vary=vary, seeds=1, measures=["detection_share"])
    results = {row: result(row, None if row == 3 else 0.1 * row) for row in range(len(study))}
    results[2] = {"row": 2, "status": "failed", "error": "no", "numbers": {}}
    data = table_bytes(study, results, range(len(study)), {"a": 1})
    assert data == table_bytes(study, dict(reversed(results.items())), reversed(range(len(study))), {"a": 1})
    (tmp_path / "t.parquet").write_bytes(data)
    table = parquet.read_table(tmp_path / "t.parquet")
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    assert kinds["weather.rain_rate_mm_h"] == arrow.float64()
    assert kinds["sensors.top.options.sub_rays"] == arrow.int64()
    assert kinds["sensors.top.options.noise"] == arrow.bool_()
    assert kinds["sensors.top.options.returns"] == kinds["sensors.top.mount.xyz"] == arrow.string()
    assert table["sensors.top.mount.xyz"][4].as_py() == "[0, 0, 2]"
    found = results_of(data, "t", study.numbers)
    assert found[5] == results[5]
    assert found[2]["status"] == "failed"
    with pytest.raises(FormatError, match="t: is not a table of this study"):
        results_of(data[:100], "t", study.numbers)


def test_a_seed_in_several_cells_counts_once(tmp_path: Path) -> None:
    study = study_in(tmp_path, seeds=4, measures=["detection_share"])
    results = {row: result(row, float(study.row(row).seed)) for row in range(len(study))}
    cell = summary_of(study, results)["cells"][0]["numbers"]["detection_share"]
    assert cell["units"] == 4
    assert cell["mean"] == 1.5


def test_pieces_are_numbered_on(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "pieces").mkdir()
    (tmp_path / "pieces" / "000009.jsonl").write_text("")
    (tmp_path / "pieces" / "notes.txt").write_text("")
    with store.only_writer():
        pieces = Pieces(store)
        for row in range(2):
            pieces.add(result(row))
            pieces.flush()
    names = sorted(file.name for file in (tmp_path / "pieces").iterdir())
    assert names == ["000009.jsonl", "000010.jsonl", "000011.jsonl", "notes.txt"]
