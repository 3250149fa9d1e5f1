"""One HTML page of tables, figures and verdicts that works offline."""
