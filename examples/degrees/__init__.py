"""What degrees of the sample cost, and what `unbiased` gives back."""
