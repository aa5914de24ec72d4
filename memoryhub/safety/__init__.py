"""What holds at every door: how often it may be used, how long an answer may take, which headers it has."""
