"""Statistics, figures and files of results, from arrays and DataFrames alone."""
