"""The rows of the instruction table, one file per chapter of the PTX manual."""
