"""The gate: conditions on a result, alone or against a baseline, that fail a build."""
