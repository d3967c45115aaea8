"""Campaigns: many runs of one scenario with different parameters and seeds, collected in one table."""

from parhelion.campaign.campaign import CampaignSummary, Repeated, repeat_row, run_campaign
from parhelion.campaign.measures import Measure, MeasuredRun, Number, add_measure, measures
from parhelion.campaign.search import Search, SearchSummary, run_search
from parhelion.campaign.study import Study, json_schema

__all__ = [
    "CampaignSummary",
    "Measure",
    "MeasuredRun",
    "Number",
    "Repeated",
    "Search",
    "SearchSummary",
    "Study",
    "add_measure",
    "json_schema",
    "measures",
    "repeat_row",
    "run_campaign",
    "run_search",
]
