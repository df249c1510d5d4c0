"""Files of tools that plan and deploy clusters: Cruise Control, kafka-assigner and Strimzi."""
