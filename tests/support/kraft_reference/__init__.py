"""Kafka's KRaft controller again, in plain Python: records, state, every event.

It follows docs/kraft.md, and knows nothing of kfast.

- `versions`: what differs between releases, and what a metadata version switches on.
- `hash_orders`: hash tables whose order decides which partition comes first.
- `records`: the metadata records. `state`: what they say, and `replay`. `indexes`: kept beside it.
- `heartbeats`: the soft state of the active controller.
- `partition_change`: one partition's next record: reassignment, ELR, election, epochs.
- `broker_events`, `partition_requests`, `topics`, `settings`: the events, by subject.
- `controller`: the controller, one method an event.
"""
