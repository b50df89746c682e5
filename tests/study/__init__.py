"""The tools for people who study a cluster."""
