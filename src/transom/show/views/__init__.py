"""The views: one file each, from a thing to a Picture; a new row in VIEWS is tested the moment it exists."""
