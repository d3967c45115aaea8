"""The part of an Ouster's HTTP interface that tools request before they listen to its packets.

Read-only: the scenario determines what the simulated sensor does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from parhelion.makers.ouster.metadata import describe

PREFIX = "/api/v1"
_CONFIG = f"{PREFIX}/sensor/config"
_FIXED = "the simulated sensor's configuration is fixed by its scenario"


class OusterApi:
    """Responses of one sensor, by path."""

    home = f"{PREFIX}/sensor/metadata"

    def __init__(self, document: Mapping[str, Any]) -> None:
        describe(document)
        known = json.loads(json.dumps(document))
        config, info = known.get("config_params", {}), known.get("sensor_info", {})
        self._config = config
        self._answers = {
            self.home: known,
            **{f"{self.home}/{section}": content for section, content in known.items()},
            _CONFIG: config,
            **{f"{_CONFIG}/{name}": value for name, value in config.items()},
            f"{PREFIX}/sensor/cmd/get_config_param": config,
            f"{PREFIX}/sensor/cmd/get_sensor_info": info,
            f"{PREFIX}/sensor/alerts": {"active": [], "log": [], "next_cursor": 0},
            f"{PREFIX}/user/data": "",
            f"{PREFIX}/system/firmware": {"fw": info.get("image_rev", "")},
        }

    def get(self, path: str) -> tuple[int, Any]:
        """Content of a path."""
        if path in self._answers:
            return 200, self._answers[path]
        return 404, {"error": f"no such resource: {path}"}

    def put(self, path: str, body: bytes, client: str) -> tuple[int, Any]:
        """Accept a configuration that changes nothing, because some tools always send theirs."""
        if path != _CONFIG and not path.startswith(f"{_CONFIG}/"):
            return 405, {"error": f"{path} cannot be written"}
        try:
            wanted = json.loads(body) if body else {}
        except (ValueError, RecursionError):
            return 400, {"error": "the request's body is not JSON"}
        if path != _CONFIG:
            wanted = {path.removeprefix(f"{_CONFIG}/"): wanted}
        changed = _differences(wanted, self._config, client)
        if changed:
            return 400, {"error": f"{_FIXED}; it differs in {', '.join(changed)}"}
        return 200, self._config


def _differences(wanted: Any, active: Mapping[str, Any], client: str) -> list[str]:
    """Names of the requested settings that differ from the active ones."""
    if not isinstance(wanted, Mapping):
        return ["the whole"]
    if wanted.get("udp_dest") == "@auto":  # to the client itself
        wanted = {**wanted, "udp_dest": client}
    return [str(name) for name, value in wanted.items() if name not in active or active[name] != value][:8]
