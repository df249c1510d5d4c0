"""The same over DataFrames."""
