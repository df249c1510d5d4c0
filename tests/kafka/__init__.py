"""Kafka's own controller classes beside kfast: see docs/lockstep.md."""
