"""Search for the LLVM shared library that compiles CPU kernels, and the command that installs it.

Dr.Jit looks in the folders of the system only. Conda, Homebrew, the packages of apt.llvm.org and pip packages put the
library elsewhere. The search runs before Dr.Jit is imported, because Dr.Jit looks once per process. It does nothing if
`DRJIT_LIBLLVM_PATH` is set or if the system has a library that Dr.Jit finds by itself, so results stay the same there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

VARIABLE = "DRJIT_LIBLLVM_PATH"
OLDEST, NEWEST = 15, 22
"""Major versions that Dr.Jit 1.5 works with, and that the search accepts."""
_OWN = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib/wsl/lib")
"""Folders in which Dr.Jit looks for versioned files on Linux; elsewhere it finds a plain `libLLVM.so` only."""
_FILE = re.compile(r"(?:libLLVM[.-].*|libLLVM\.(?:so|dylib)|LLVM-C\.dll)", re.IGNORECASE)
_NUMBER = re.compile(r"(?:libLLVM[-.](?:so\.|dylib\.)?|llvm[-@]?)(\d{2,})", re.IGNORECASE)

_COMMANDS = {
    "conda": "conda install -c conda-forge libllvm19",
    "brew": "brew install llvm",
    "winget": "winget install LLVM.LLVM",
    "apt-get": "sudo apt-get install {package}",
    "dnf": "sudo dnf install llvm-libs",
    "pacman": "sudo pacman -S llvm-libs",
    "zypper": "sudo zypper install libLLVM19",
}
"""Command that installs the library, per package manager."""


def advice(platform: str = sys.platform) -> str:
    """One sentence with the command for this machine."""
    given = os.environ.get(VARIABLE, "")
    if given and not Path(given).is_file():
        return (
            f"{VARIABLE}: {given} does not exist; set it to the LLVM library of version {OLDEST} or later, or unset it "
            "to search the default locations"
        )
    if os.environ.get("CONDA_PREFIX"):
        manager = "conda"
    elif platform in ("darwin", "win32"):
        manager = {"darwin": "brew", "win32": "winget"}[platform]
    else:
        manager = next((one for one in ("apt-get", "dnf", "pacman", "zypper") if shutil.which(one)), "conda")
    command = _COMMANDS[manager].format(package=_apt_package() if manager == "apt-get" else "")
    return (
        f"no LLVM shared library of version {OLDEST} to {NEWEST} was found, which the CPU engine needs: run "
        f"'{command}', or set {VARIABLE} to the file"
    )


def _apt_package() -> str:
    """Newest package with the library that apt offers."""
    with suppress(OSError, subprocess.SubprocessError):
        command = ["apt-cache", "pkgnames", "libllvm"]
        offered = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout
        numbers = [int(number) for number in re.findall(r"^libllvm(\d+)$", offered, re.MULTILINE)]
        return f"libllvm{max(number for number in [OLDEST, *numbers] if number <= NEWEST)}"
    return f"libllvm{OLDEST}"


def provide() -> Path | None:
    """Point Dr.Jit at a library outside its own folders, if it would find none; return the file that was chosen."""
    if os.environ.get(VARIABLE):
        return None
    if sys.platform.startswith("linux") and any(True for _ in libraries([Path("/", *one.split("/")) for one in _OWN])):
        return None
    found = max(libraries(folders()), default=None)
    if found is None:
        return None
    os.environ[VARIABLE] = str(found[1])
    return found[1]


def folders(platform: str = sys.platform, root: Path = Path("/")) -> list[Path]:
    """Existing folders outside those of Dr.Jit where package managers put the library."""
    named: list[Path] = []
    for prefix in dict.fromkeys((sys.prefix, os.environ.get("CONDA_PREFIX", ""))):
        if prefix:
            named += [Path(prefix, "lib"), Path(prefix, "Library", "bin")]
    named += [
        folder
        for entry in sys.path
        if entry.endswith(("site-packages", "dist-packages"))
        for pattern in ("*.libs", "*/lib", "*/lib64", "*/bin", "*/lib/llvm/lib", "nvidia/*/lib")
        for folder in sorted(Path(entry).glob(pattern))
    ]
    if platform == "darwin":
        for brew in ("opt/homebrew", "usr/local"):
            named += [*sorted((root / brew / "opt").glob("llvm*/lib")), root / brew / "lib"]
        named.append(root / "opt/local/lib")
    elif platform == "win32":
        named.append(Path(os.environ.get("PROGRAMFILES", "C:/Program Files"), "LLVM", "bin"))
    else:
        named += [
            root / "usr/lib64",
            root / "usr/lib",
            root / "usr/local/lib",
            *sorted(root.glob("usr/lib/llvm-*/lib")),
        ]
        named += [*sorted(root.glob("usr/lib64/llvm*/lib*")), root / "home/linuxbrew/.linuxbrew/lib"]
        named += sorted((root / "home/linuxbrew/.linuxbrew/opt").glob("llvm*/lib"))
    return [one for one in dict.fromkeys(named) if one.is_dir()]


def libraries(places: list[Path]) -> Iterator[tuple[int, Path]]:
    """Major version and file of each library that is recent enough; 0 if neither file nor folder has a number."""
    for place in places:
        for file in sorted(place.glob("*LLVM*")) if place.is_dir() else ():
            if not _FILE.fullmatch(file.name) or file.suffix in (".a", ".lib"):
                continue
            number = version(file)
            if number is None or OLDEST <= number <= NEWEST:
                yield number or 0, file


def version(file: Path) -> int | None:
    """Major version in the name of a library, of the file that it links to, or of its folder; None if none has it."""
    for name in (file.name, Path(os.path.realpath(file)).name, file.parent.parent.name):
        found = _NUMBER.search(name)
        if found:
            return int(found[1])
    return None
