"""Word-level attacks: goals, substitutes, constraints, recipes, and the engine that runs many side by side."""
