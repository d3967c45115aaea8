"""Executables of the package: `ros2 run parhelion_ros stream scenario.yaml` is `parhelion stream scenario.yaml --ros2`.

ROS adds `--ros-args …` to the arguments of a node. Parameters in them become options of the command
(`-p speed:=0.5` is `--speed 0.5`, and `-p loop:=true` is `--loop`); remappings of the form `/from:=/to` are refused,
because a remapped topic that is ignored is worse than an error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def options_of(arguments: Sequence[str]) -> list[str]:
    """Arguments of the command from those of a ROS node."""
    if "--ros-args" not in arguments:
        return list(arguments)
    at = list(arguments).index("--ros-args")
    plain, rest = list(arguments[:at]), list(arguments[at + 1 :])
    while rest:
        word = rest.pop(0)
        if word == "--":
            return plain + rest
        if word in ("-p", "--param"):
            name, _, value = rest.pop(0).partition(":=")
            option = "--" + name.replace("_", "-")
            if name == "use_sim_time":
                continue
            if value.lower() in ("true", "false"):
                plain += [option] if value.lower() == "true" else []
            else:
                plain += [option, value]
        elif word in ("-r", "--remap"):
            rule = rest.pop(0)
            # The names of nodes come from launch files; Parhelion's node has a name of its own.
            if not rule.startswith(("__node:=", "__ns:=")):
                raise SystemExit(
                    f"parhelion_ros: remapping {rule} is not supported; remap the topics of the other nodes"
                )
        elif word in ("--params-file", "--log-level", "--log-config-file"):
            file = rest.pop(0)
            plain += _parameters(file) if word == "--params-file" else []
    return plain


def _parameters(file: str) -> list[str]:
    """Options of a parameter file: `/**: ros__parameters: …`."""
    import yaml

    with open(file, encoding="utf-8") as stream:
        nodes = yaml.safe_load(stream) or {}
    found: list[str] = []
    for node in nodes.values():
        for name, value in (node.get("ros__parameters") or {}).items():
            if name == "use_sim_time" or value is False:
                continue
            option = "--" + name.replace("_", "-")
            found += [option] if value is True else [option, str(value)]
    return found


def _run(command: str, extra: Sequence[str]) -> None:
    try:
        from parhelion.cli import main
    except ImportError:
        raise SystemExit("parhelion_ros needs the simulator: pip install 'parhelion[ros]'") from None
    sys.argv = ["parhelion", command, *options_of(sys.argv[1:]), *extra]
    main()


def stream() -> None:
    """Stream a scenario as ROS 2 topics."""
    _run("stream", [] if "--ros2" in sys.argv else ["--ros2"])


def weather() -> None:
    """Put weather on live clouds, or on a recording."""
    _run("weather", [])
