"""Tests of the KRaft controller."""
