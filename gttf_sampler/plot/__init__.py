"""Pictures: embeddings as points of a plane, forests as trees, samples by hop."""

from gttf_sampler.plot.embeddings import communities, draw_embeddings

__all__ = ["communities", "draw_embeddings"]
