"""What a check says: results as data, messages, causes, tables, pages and scripts."""
