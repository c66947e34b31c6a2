"""Changes of a text, and the words and resources that they need."""
