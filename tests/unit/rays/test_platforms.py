"""Search for LLVM, choice of the device, and both mesh interfaces of Mitsuba, with stand-ins."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from parhelion.core.errors import EngineError, MissingDependencyError
from parhelion.rays import device, llvm
from parhelion.rays.device import engine
from parhelion.rays.moving import set_vertices


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A root without any environment: no conda, no site-packages, no variable."""
    for name in (llvm.VARIABLE, "CONDA_PREFIX", "PROGRAMFILES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "python"))
    monkeypatch.setattr(sys, "path", [])
    return tmp_path


@pytest.mark.parametrize(
    ("platform", "file", "number"),
    [
        ("linux", "usr/lib/llvm-18/lib/libLLVM.so.1", 18),
        ("linux", "python/lib/libLLVM-17.so", 17),
        ("linux", "usr/lib64/libLLVM.so.20.1", 20),
        ("linux", "usr/lib64/llvm21/lib64/libLLVM.so.21.1", 21),
        ("linux", "home/linuxbrew/.linuxbrew/opt/llvm@19/lib/libLLVM.so", 19),
        ("darwin", "opt/homebrew/opt/llvm@20/lib/libLLVM.dylib", 20),
        ("darwin", "usr/local/opt/llvm/lib/libLLVM.dylib", 0),
        ("win32", "python/Library/bin/LLVM-C.dll", 0),
    ],
)
def test_package_managers_put_it_here(platform: str, file: str, number: int, alone: Path) -> None:
    put(
        alone,
        file,
        "usr/lib/llvm-14/lib/libLLVM-14.so",
        "usr/lib/llvm-23/lib/libLLVM.so.23.1",
        "python/lib/libLLVMCore.a",
    )
    assert list(llvm.libraries(llvm.folders(platform, alone))) == [(number, alone / file)]


def test_conda_and_pip_packages_are_searched(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDA_PREFIX", str(alone / "conda"))
    monkeypatch.setattr(sys, "path", [str(alone / "site-packages")])
    files = [
        "conda/lib/libLLVM-15.so",
        "site-packages/pocl.libs/libLLVM-19.so.1",
        "site-packages/rocm/lib/llvm/lib/libLLVM.so.22.0",
    ]
    put(alone, *files)
    found = dict(llvm.libraries(llvm.folders("linux", alone)))
    assert found == {number: alone / file for number, file in zip((15, 19, 22), files, strict=True)}


def test_dr_jit_is_pointed_at_it_only_where_it_would_find_none(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(alone, "own/libLLVM-16.so", "python/lib/libLLVM-19.so")
    monkeypatch.setattr(llvm, "_OWN", (str(alone / "own")[1:],))
    monkeypatch.setattr(sys, "platform", "linux")
    assert llvm.provide() is None
    (alone / "own/libLLVM-16.so").unlink()
    monkeypatch.setattr(llvm, "folders", lambda: [alone / "python/lib"])
    assert llvm.provide() == alone / "python/lib/libLLVM-19.so"
    assert os.environ.pop(llvm.VARIABLE) == str(alone / "python/lib/libLLVM-19.so")
    monkeypatch.setenv(llvm.VARIABLE, "/mine.so")
    assert llvm.provide() is None


@pytest.mark.parametrize(
    ("platform", "command"), [("darwin", "brew install llvm"), ("win32", "winget install LLVM.LLVM")]
)
def test_the_advice_is_the_line_for_the_platform(platform: str, command: str, alone: Path) -> None:
    assert f"run '{command}'" in llvm.advice(platform)


def test_linux_names_a_package_that_apt_offers(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm.shutil, "which", {"apt-get": "/usr/bin/apt-get"}.get)
    answer = SimpleNamespace(stdout="libllvm14\nlibllvm19\nlibllvm15t64\nlibllvm24\n")
    monkeypatch.setattr(llvm.subprocess, "run", lambda *_, **__: answer)
    assert "run 'sudo apt-get install libllvm19'" in llvm.advice("linux")


def stand_ins(llvm_works: bool, metal_works: bool, variants: list[str]) -> tuple[Any, Any]:
    backends = SimpleNamespace(LLVM="llvm", Metal="metal", CUDA="cuda")
    works = {"llvm": llvm_works, "metal": metal_works, "cuda": False}
    return SimpleNamespace(JitBackend=backends, has_backend=works.get), SimpleNamespace(variants=lambda: variants)


def test_metal_serves_where_llvm_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_has_cuda", lambda dr: False)
    both = ["llvm_ad_rgb", "metal_ad_rgb"]
    assert device._chosen_device("auto", *stand_ins(True, True, both)) == "cpu"
    assert device._chosen_device("auto", *stand_ins(False, True, both)) == "metal"
    assert device._chosen_device("metal", *stand_ins(True, True, both)) == "metal"
    with pytest.raises(MissingDependencyError, match="LLVM"):
        device._chosen_device("auto", *stand_ins(False, True, ["llvm_ad_rgb"]))
    with pytest.raises(EngineError, match="Metal"):
        device._chosen_device("metal", *stand_ins(True, False, both))


@pytest.mark.parametrize("name", ["vertex_positions", "positions"])
def test_meshes_take_vertices_by_either_name(name: str) -> None:
    parameters: dict[str, Any] = {f"shape0.{name}": None, "shape0.faces": None}
    set_vertices(engine(), parameters, np.arange(6.0).reshape(2, 3), "shape0.")
    np.testing.assert_array_equal(parameters[f"shape0.{name}"].numpy(), np.arange(6.0))


def test_an_unknown_mesh_interface_is_an_error_with_a_remedy() -> None:
    with pytest.raises(EngineError, match=r"pip install \"mitsuba>=3.9,<3.10\""):
        set_vertices(engine(), {"shape0.corners": None}, np.zeros((1, 3)), "shape0.")
