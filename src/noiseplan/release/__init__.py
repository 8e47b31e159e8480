"""Answers, intervals, tables."""
