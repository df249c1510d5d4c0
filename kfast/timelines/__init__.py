"""When a failover's steps happen, and how long partitions have no leader.

Decisions, orders and counts are those of the engine's controllers; nothing here decides who leads.

- `failover`: the question `kfast.timeline`; `failure_sweep`: `kfast.timeline_sweep`.
- `question`: what is asked.
- `parameters`, `settings`: what a step costs, and which settings of Kafka times follow from.
- `recording`: the failure as the controller handles it. `zk_steps`, `kraft_counts`: counted by
  broker.
- `detection`: phases, draws of samples, and when events begin. `zk_times`, `kraft_times`: the
  recurrences. `stages`: what they give.
- `shutdown`, `shutdown_recording`, `shutdown_times`: the same of a controlled shutdown.
- `rolling_restart`, `catch_up`: `kfast.timeline_restart`.
- `calibration`: `kfast.fit_times`, on `intervals` that `interval_files` reads; of ZooKeeper mode in
  `zk_intervals`, of KRaft in `kraft_intervals`.
- `progressions`, `summaries`: distributions without a value per partition. `partition_instants`,
  `partition_times`: one for each partition; `partition_stalls`: when its ISR has no dead member.
  `refused_bytes`: what producers write to it meanwhile. `leaderless`: counts over time.
- `comparison`, `planned_clusters`, `sensitivity`: variants, growth, and what an end depends on.

Source: docs/timeline.md.
"""
