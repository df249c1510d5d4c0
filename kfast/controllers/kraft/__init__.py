"""Events of the KRaft controller (docs/kraft.md, sections 6 to 8), by subject.

- `controller`: QuorumController, one method per event. `engine`: what all events share.
- `broker_events`, `partition_requests`, `reassignments`, `topics`, `configurations`: the events.
- `heartbeats`: the soft state of an active controller.
- `visits`: which partitions an event visits. `kafka_indexes`, `hash_orders`: Kafka's own order.
"""
