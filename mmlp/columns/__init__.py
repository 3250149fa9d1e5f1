"""Columns of tables as they are, text, dates and blanks too, and as the numbers of a network."""
