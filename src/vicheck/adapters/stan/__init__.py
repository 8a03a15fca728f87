"""Stan: programs that it evaluates, and the files that it writes."""
