"""The query server of the panel: its sources, the queries it answers, the checks it runs."""
