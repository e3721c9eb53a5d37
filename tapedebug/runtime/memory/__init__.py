"""Arrays and the memory behind them: buffers, views, construction, copies, exchange with other libraries."""
