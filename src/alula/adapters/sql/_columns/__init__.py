"""Types of columns: how values are compared, stored and read in each dialect."""
