"""Loads, capacities and what follows from them."""
