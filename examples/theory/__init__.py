"""The paper's propositions, measured: what docs/paper.md shows."""
