"""Pictures of plans and releases: a page that needs no network, and charts for notebooks."""

from noiseplan.report.page import report_page

__all__ = ["report_page"]
