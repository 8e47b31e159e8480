"""Strategies: the chances of reports, as a table or by structure, and the classical ones."""
