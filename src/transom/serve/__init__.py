"""The local page: a gate before every route, one thread for the model, and plain files for the browser."""
