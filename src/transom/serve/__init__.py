"""The local page: a guard before every route, one worker thread for the model, static files for the browser."""
