"""What mattered: every edge, head and passage of a run, judged by one backward pass, with true knock-outs beside it."""
