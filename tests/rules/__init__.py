"""The rules of docs/controller.md: kernels, events and machines beside plain Python and Kafka."""
