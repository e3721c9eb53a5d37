"""Results of checks: data, messages, causes, tables, pages and scripts."""
