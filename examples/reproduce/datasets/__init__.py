"""The paper's ten datasets and two more, read from the files that people have."""
