"""Questions about one cluster.

What events do: `whatif` runs a controller on a copy, `impact` compares two censuses;
`broker_failure`, `plan_execution` and `topic_deletion` are the questions, `explain` says why,
`worst_scenarios` what makes a sweep's scenarios bad; `conditions` test the metrics. Restarts:
`restart_readiness`, and `restart_plan` with `batch_coloring`. Risk: `copyset_risk`, with
`loss_chances`. `replica_sets` has the distinct sets of brokers for both.

The functions that users call are in `kfast` itself; no module here bears the name of one.
"""
