"""Kafka's KRaft controller again, in plain Python: state, indexes, every event.

It follows docs/kraft.md. Plain data (records, registrations, release tables, codes) is kfast's:
Kafka's own answers in the case files are the truth for it. Every rule is written here.

- `errors`: refusals and faults.
- `hash_orders`: hash tables whose order decides which partition comes first.
- `state`: what records do, and `replay`. `indexes`: kept beside it.
- `heartbeats`: the soft state of the active controller.
- `partition_change`: one partition's next record: reassignment, ELR, election, epochs.
- `broker_events`, `partition_requests`, `topics`, `settings`: the events, by subject.
- `controller`: the controller, one method an event.
"""
