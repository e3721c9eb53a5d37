"""The query server of the panel: its sources, queries and checks."""
