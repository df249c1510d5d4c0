"""What Kafka's own command-line tools print or take, besides `kafka-topics`.

`plan_json.py` reads and writes plans of `kafka-reassign-partitions`, `reassignment_texts.py` reads
what it prints; `broker_versions.py` is for `kafka-broker-api-versions`, `configuration_texts.py`
for `kafka-configs`, `quorum_texts.py` for `kafka-metadata-quorum`, `kafka-features` and
`kafka-cluster`.
"""
