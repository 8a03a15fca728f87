"""Families of approximations."""
