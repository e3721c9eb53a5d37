"""What can be tried out on a tape, in private memory: runs that are changed, measured and compared."""
