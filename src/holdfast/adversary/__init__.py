"""Building blocks of adversarial objectives and attacks."""
