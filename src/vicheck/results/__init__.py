"""What the paths return: frozen, printable, saved in one archive format."""
