"""Tests; `reference*.py` writes the rules again in plain Python, and `cases.py` runs case files."""
