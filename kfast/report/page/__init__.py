"""A report as one page of HTML that needs nothing else.

`sections` asks the questions, `failure_story` tells the worst failure, `remedies` says what to do,
`verdict` sums up, and `html` fills the templates in `templates`.
"""
