"""The text of `kafka-topics --describe`, of every release.

`parser.py` finds the columns, `reader.py` makes tables of them, `errors.py` says what is wrong in
a line and `notes.py` what was assumed or passed over; `writer.py` writes such a text.
"""
