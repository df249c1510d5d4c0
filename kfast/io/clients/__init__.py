"""Metadata as clients print it.

`client_metadata.py` reads JSON: kcat, kafka-python, confluent-kafka, REST Proxy and MSK, of which
`metadata_shapes.py` knows the shapes, those of live answers too; `client_listings.py` reads tables
of text: kcat, rpk and kcl.
"""
