"""Plans and releases on disk: readable without noiseplan, checked when read back."""

from noiseplan.storage.folder import load, plan_hash, save

__all__ = ["load", "plan_hash", "save"]
