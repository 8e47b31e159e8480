"""A page about a release, with pictures and every table, that needs no network."""

from noiseplan.report.page import report_page

__all__ = ["report_page"]
