"""The query server of the panel: what a panel is opened on, what it may ask, and the checks that it runs."""
