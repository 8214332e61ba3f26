"""The cost of sampled degrees in accuracy, and the gain from `unbiased`."""
