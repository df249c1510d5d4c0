"""Metadata as clients print it.

`client_metadata.py` reads JSON: kcat, kafka-python, confluent-kafka, REST Proxy and MSK;
`client_listings.py` reads tables of text: kcat, rpk and kcl.
"""
