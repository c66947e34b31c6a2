"""Small pure parts that adversarial objectives are made of."""
