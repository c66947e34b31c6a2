"""`holdfast compare`: samples of the items that result files share, and rows of differences between them."""
