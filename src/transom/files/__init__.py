"""Files: written whole or not at all, read from outside only as far as they can be believed."""
