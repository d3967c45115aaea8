"""Dossiers of sensor models: sources, assumptions and checks of every number."""

from parhelion.evaluate.dossier.checks import CHECKS, Check, checks_of
from parhelion.evaluate.dossier.dossier import Claim, Dossier, dossier_of, page_of

__all__ = ["CHECKS", "Check", "Claim", "Dossier", "checks_of", "dossier_of", "page_of"]
