"""Pages about a release and about plans, with pictures and every table, that need no network."""

from noiseplan.report.design_page import Design, planning_page
from noiseplan.report.page import report_page

__all__ = ["Design", "planning_page", "report_page"]
