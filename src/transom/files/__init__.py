"""Files: written atomically, and read under limits when they come from outside."""
