"""Traces and replays as files that are checked before they are believed."""
