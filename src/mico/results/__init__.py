"""What turns numbers into evidence: figures and files. Sees arrays and DataFrames, never where they come from."""
