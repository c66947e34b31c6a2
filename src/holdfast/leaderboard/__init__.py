"""A leaderboard of encoders: a fixed suite, an entry for each encoder, and a page of all entries."""
