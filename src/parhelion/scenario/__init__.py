"""Scenarios: worlds, vehicles, sensors and weather in time, from a file to measurements."""

from parhelion.scenario.plausible import notes_on
from parhelion.scenario.scenario import Scenario, Step
from parhelion.scenario.schema import ScenarioFile, json_schema

__all__ = ["Scenario", "ScenarioFile", "Step", "json_schema", "notes_on"]
