"""Numbers about whole runs: what heads do, paths through layers, two runs compared."""
