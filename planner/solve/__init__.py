"""The largest load or the smallest machine: exact answers by planning again."""
