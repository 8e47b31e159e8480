"""Plans and releases on disk: readable without noiseplan, checked when read back."""

from noiseplan.storage.folder import load, save
from noiseplan.storage.plans import plan_hash

__all__ = ["load", "plan_hash", "save"]
