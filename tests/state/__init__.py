"""The state of a cluster: columns, names, copies, digests."""
